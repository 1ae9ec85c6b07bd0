package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/oncekit/once/internal/value"
)

// tokens verifies bearer tokens (RFC 7519) with the keys of a file (RFC 7517). The file is read
// again when it has changed. Safe for concurrent use.
type tokens struct {
	cfg *Config

	mu     sync.Mutex
	keys   []jose.JSONWebKey
	looked time.Time // when the file was looked at last
	size   int64     // of the file, and
	at     time.Time // its time, when it was read last
}

const (
	maxTokenBytes = 16 << 10
	maxKeysBytes  = 1 << 20
	maxKeys       = 100
	// lookEvery is how often the file is looked at.
	lookEvery = time.Second
	// leeway is how far the clocks of the issuer and of this machine may differ.
	leeway = 30 * time.Second
)

// algorithms that are accepted. Not none, and none that takes a public key for a shared secret: a
// key of the file verifies with the algorithms of its own kind alone.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

func newTokens(cfg *Config) (*tokens, error) {
	t := &tokens{cfg: cfg}
	if err := t.read(); err != nil {
		return nil, err
	}
	return t, nil
}

// CheckKeys says what is wrong with a file of keys.
func CheckKeys(name string) error {
	_, _, err := readKeys(name)
	return err
}

// read reads the file.
func (t *tokens) read() error {
	keys, info, err := readKeys(t.cfg.Gateway.JWT.File)
	if err != nil {
		return fmt.Errorf("read jwt.jwks: %w", err)
	}
	t.keys, t.size, t.at = keys, info.Size(), info.ModTime()
	return nil
}

func readKeys(name string) ([]jose.JSONWebKey, os.FileInfo, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	// Before it is read: what is written meanwhile is a change, then.
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKeysBytes+1))
	if err != nil {
		return nil, nil, err
	}
	if len(b) > maxKeysBytes {
		return nil, nil, fmt.Errorf("%s has more than %d bytes", name, maxKeysBytes)
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(b, &set); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	var keys []jose.JSONWebKey
	for _, k := range set.Keys {
		if k.Valid() && (k.Use == "" || k.Use == "sig") && isAsymmetric(k) {
			keys = append(keys, k.Public())
		}
	}
	if len(keys) == 0 || len(keys) > maxKeys {
		return nil, nil, fmt.Errorf("%s has %d public keys for signatures, want 1 to %d", name,
			len(keys), maxKeys)
	}
	return keys, info, nil
}

func isAsymmetric(k jose.JSONWebKey) bool {
	_, shared := k.Key.([]byte)
	return !shared
}

// current returns the keys of today. A file that can't be used leaves them what they were.
func (t *tokens) current() []jose.JSONWebKey {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.Sub(t.looked) > lookEvery {
		t.looked = now
		info, err := os.Stat(t.cfg.Gateway.JWT.File)
		if err == nil && (info.Size() != t.size || !info.ModTime().Equal(t.at)) {
			if err := t.read(); err != nil {
				t.cfg.Logger.Error("changed keys of tokens can't be used, the earlier ones stay",
					"error", err)
			}
		}
	}
	return t.keys
}

// verify returns the claims of the request's token. The errors hold nothing of it.
func (t *tokens) verify(r *http.Request) (map[string]any, error) {
	lines := r.Header["Authorization"]
	if len(lines) != 1 {
		return nil, errors.New("no token, or more than one")
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxTokenBytes {
		return nil, errors.New("no bearer token")
	}
	signed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil || len(signed.Signatures) != 1 {
		return nil, errors.New("it is no signed token of an algorithm that is accepted")
	}
	payload, err := t.payload(signed)
	if err != nil {
		return nil, err
	}
	return t.claims(payload)
}

// payload verifies the signature.
func (t *tokens) payload(signed *jose.JSONWebSignature) ([]byte, error) {
	header := signed.Signatures[0].Protected
	for _, k := range t.current() {
		if header.KeyID != "" && k.KeyID != header.KeyID ||
			k.Algorithm != "" && k.Algorithm != header.Algorithm {
			continue
		}
		if payload, err := signed.Verify(k.Key); err == nil {
			return payload, nil
		}
	}
	return nil, errors.New("no key of the file made its signature")
}

func (t *tokens) claims(payload []byte) (map[string]any, error) {
	var c jwt.Claims
	if err := json.Unmarshal(payload, &c); err != nil {
		return nil, errors.New("its claims can't be read")
	}
	if c.Expiry == nil {
		return nil, errors.New("it never expires")
	}
	want := t.cfg.Gateway.JWT
	if err := c.ValidateWithLeeway(jwt.Expected{Issuer: want.Issuer,
		AnyAudience: jwt.Audience{want.Audience}, Time: t.cfg.Now()}, leeway); err != nil {
		return nil, err
	}
	v, err := value.Decode(payload, value.Limits{})
	claims, ok := v.(map[string]any)
	if err != nil || !ok {
		return nil, errors.New("its claims can't be read")
	}
	return claims, nil
}
