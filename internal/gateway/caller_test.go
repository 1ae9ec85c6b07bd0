package gateway_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/internal/gateway"
	"github.com/oncekit/once/oncemem"
)

// set is a gateway before an origin that says how often it ran.
type set struct {
	t   *testing.T
	url string
	ran atomic.Int64
}

func newSet(t *testing.T, dir, settings, routes string, o ...func(*gateway.Config)) *set {
	t.Helper()
	s := &set{t: t}
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "run %d", s.ran.Add(1))
	}))
	t.Cleanup(origin.Close)
	cfg, err := config.Parse(filepath.Join(dir, "once.yaml"), []byte("gateway:\n  upstream: "+
		origin.URL+"\n"+settings+"  routes:\n    - "+routes+"\n"), config.Env{})
	if err != nil {
		t.Fatal(err)
	}
	store, err := oncemem.New(oncemem.Config{SingleInstance: true})
	if err != nil {
		t.Fatal(err)
	}
	gc := gateway.Config{Gateway: cfg.Gateway, Store: store}
	for _, change := range o {
		change(&gc)
	}
	g, err := gateway.New(gc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	front := httptest.NewServer(g)
	t.Cleanup(front.Close)
	s.url = front.URL
	return s
}

func (s *set) post(key string, header ...string) (int, string, http.Header) {
	s.t.Helper()
	r, err := http.NewRequest("POST", s.url+"/p?x=1", strings.NewReader("{}"))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", key)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b), res.Header
}

func TestS03_TheCallerIsAskedAboutBeforeAClaimAndBeforeEachReplay(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	var revoked atomic.Bool
	seen := make(chan *http.Request, 10)
	auth := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		seen <- r
		if revoked.Load() || r.Header.Get("Authorization") == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.Header().Set("X-Why", "revoked")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "no more")
			return
		}
		w.Header().Set("X-Account-Id", strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	}))
	t.Cleanup(auth.Close)
	s := newSet(t, t.TempDir(), "  auth: {url: "+auth.URL+"/whoami}\n"+
		"  scope: \"auth.header['x-account-id']\"\n", "{match: POST /}")
	status, body, _ := s.post("k", "Authorization", "Bearer a1", "X-Forwarded-Uri", "/spoofed")
	if status != 200 || body != "run 1" {
		t.Fatalf("%d %s", status, body)
	}
	r := <-seen
	if r.Method != "GET" || r.URL.Path != "/whoami" ||
		r.Header.Get("X-Forwarded-Uri") != "/p?x=1" ||
		r.Header.Get("X-Forwarded-Method") != "POST" || r.Header["Idempotency-Key"] != nil ||
		r.Header["Content-Type"] != nil || r.ContentLength > 0 ||
		r.Header.Get("X-Forwarded-For") != "127.0.0.1" {
		t.Errorf("asked %s %s %v", r.Method, r.URL, r.Header)
	}
	if _, body, h := s.post("k", "Authorization", "Bearer a1"); body != "run 1" ||
		h.Get("Idempotent-Replayed") != "true" || asked.Load() != 2 {
		t.Errorf("replay: %s, asked %d times", body, asked.Load())
	}
	if _, body, _ := s.post("k", "Authorization", "Bearer a2"); body != "run 2" {
		t.Errorf("another account got %s", body)
	}
	revoked.Store(true)
	status, body, h := s.post("k", "Authorization", "Bearer a1")
	if status != 403 || body != "no more" || h.Get("X-Why") != "revoked" ||
		h.Get("WWW-Authenticate") != "Bearer" || s.ran.Load() != 2 {
		t.Errorf("after it was withdrawn: %d %s %v", status, body, h)
	}
	if status, body, _ := s.post("", "X-A", "1"); status != 200 || asked.Load() != 4 {
		t.Errorf("without a key: %d %s, asked %d times", status, body, asked.Load())
	}
}

func TestACallerOfWhomNobodyKnowsIsRefused(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(silent.Close)
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}))
	t.Cleanup(hang.Close)
	moved := httptest.NewServer(http.RedirectHandler("/elsewhere", http.StatusFound))
	t.Cleanup(moved.Close)
	for url, want := range map[string]int{gone.URL: 503, silent.URL: 401, hang.URL: 503,
		moved.URL: 302} {
		s := newSet(t, t.TempDir(), "  auth: {url: "+url+", timeout: 100ms}\n"+
			"  scope: \"auth.header['x-account-id']\"\n", "{match: POST /}")
		status, body, h := s.post("k")
		if status != want || s.ran.Load() != 0 || (want == 503) != (h.Get("Retry-After") == "1") {
			t.Errorf("%s: %d %s, want %d; the origin ran %d times", url, status, body, want,
				s.ran.Load())
		}
	}
}

// signer makes tokens as an issuer would, and as those who only pretend to be one.
type signer struct {
	t   *testing.T
	rsa *rsa.PrivateKey
	ec  *ecdsa.PrivateKey
	ed  ed25519.PrivateKey
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	s := &signer{t: t}
	var err error
	if s.rsa, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	if s.ec, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	_, s.ed, _ = ed25519.GenerateKey(rand.Reader)
	return s
}

func (s *signer) set() jose.JSONWebKeySet {
	return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: s.rsa.Public(), KeyID: "r", Algorithm: "RS256", Use: "sig"},
		{Key: s.ec.Public(), KeyID: "e", Use: "sig"},
	}}
}

func (s *signer) write(dir string, set any) string {
	s.t.Helper()
	b, err := json.Marshal(set)
	if err != nil {
		s.t.Fatal(err)
	}
	name := filepath.Join(dir, "keys.json")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return name
}

func (s *signer) token(alg jose.SignatureAlgorithm, key any, kid string,
	claims map[string]any,
) string {
	s.t.Helper()
	opts := (&jose.SignerOptions{}).WithHeader("kid", kid)
	if kid == "" {
		opts = nil
	}
	sign, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, opts)
	if err != nil {
		s.t.Fatal(err)
	}
	b, err := json.Marshal(claims)
	if err != nil {
		s.t.Fatal(err)
	}
	obj, err := sign.Sign(b)
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := obj.CompactSerialize()
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func claims(change ...any) map[string]any {
	c := map[string]any{"iss": "https://issuer.example", "aud": []string{"payments", "other"},
		"sub": "u1", "exp": time.Now().Add(time.Hour).Unix()}
	for i := 0; i+1 < len(change); i += 2 {
		if change[i+1] == nil {
			delete(c, change[i].(string))
		} else {
			c[change[i].(string)] = change[i+1]
		}
	}
	return c
}

const jwtSettings = "  jwt: {jwks: keys.json, issuer: \"https://issuer.example\", " +
	"audience: payments}\n  scope: \"jwt.sub\"\n"

func TestOnlyTheClaimsOfAValidTokenCount(t *testing.T) {
	t.Parallel()
	keys, dir := newSigner(t), t.TempDir()
	stranger := newSigner(t)
	keys.write(dir, keys.set())
	s := newSet(t, dir, jwtSettings, "{match: POST /}")
	rs := func(c map[string]any) string { return keys.token(jose.RS256, keys.rsa, "r", c) }
	good := rs(claims())
	if status, body, _ := s.post("k", "Authorization", "Bearer "+good); status != 200 {
		t.Fatalf("a valid token: %d %s", status, body)
	}
	other := keys.token(jose.ES256, keys.ec, "e", claims("sub", "u2"))
	if _, body, _ := s.post("k", "Authorization", "bearer "+other); body != "run 2" {
		t.Errorf("another user got %s", body)
	}
	past, later := time.Now().Add(-time.Minute).Unix(), time.Now().Add(time.Hour).Unix()
	b64 := base64.RawURLEncoding.EncodeToString
	payload := strings.Split(good, ".")[1]
	pub, _ := json.Marshal(keys.set().Keys[0])
	none := b64([]byte(`{"alg":"none"}`)) + "." + payload + "."
	bad := map[string]string{
		"none":                  none,
		"another's key":         stranger.token(jose.RS256, stranger.rsa, "r", claims()),
		"a public key as HMAC":  keys.token(jose.HS256, pub, "r", claims()),
		"another algorithm":     keys.token(jose.PS256, keys.rsa, "r", claims()),
		"an unknown key":        keys.token(jose.RS256, keys.rsa, "x", claims()),
		"a kind without a key":  keys.token(jose.EdDSA, keys.ed, "r", claims()),
		"expired":               rs(claims("exp", past)),
		"never expires":         rs(claims("exp", nil)),
		"not yet":               rs(claims("nbf", later)),
		"another issuer":        rs(claims("iss", "https://x.example")),
		"another audience":      rs(claims("aud", "other")),
		"without an audience":   rs(claims("aud", nil)),
		"without a signature":   good[:strings.LastIndex(good, ".")+1],
		"another payload":       strings.Replace(good, payload, b64([]byte(`{"sub":"u2"}`)), 1),
		"no token":              "",
		"no text of that shape": "abc",
	}
	before := s.ran.Load()
	for name, token := range bad {
		status, body, h := s.post("k-"+b64([]byte(name)), "Authorization", "Bearer "+token)
		if status != 401 || !strings.Contains(h.Get("WWW-Authenticate"), "invalid_token") {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if status, _, _ := s.post("k", "Authorization", "Bearer "+good, "Authorization",
		"Bearer "+other); status != 401 {
		t.Errorf("two tokens: %d", status)
	}
	nobody := "Bearer " + rs(claims("sub", ""))
	if status, _, _ := s.post("k", "Authorization", nobody); status != 401 {
		t.Errorf("an empty scope: %d", status)
	}
	if n := s.ran.Load(); n != before {
		t.Errorf("the origin ran %d times for tokens that are not valid", n-before)
	}
}

func TestAFileWithoutUsableKeysIsRefused(t *testing.T) {
	t.Parallel()
	keys := newSigner(t)
	for name, set := range map[string]any{
		"none":   jose.JSONWebKeySet{},
		"shared": jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: []byte("0123456789abcdef")}}},
		"others": jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: keys.rsa.Public(), Use: "enc"}}},
		"text":   "x",
	} {
		dir := t.TempDir()
		keys.write(dir, set)
		cfg, err := config.Parse(filepath.Join(dir, "once.yaml"), []byte("gateway:\n"+
			"  upstream: http://127.0.0.1:1\n"+jwtSettings+"  routes: [{match: POST /}]\n"),
			config.Env{})
		if err != nil {
			t.Fatal(err)
		}
		store, err := oncemem.New(oncemem.Config{SingleInstance: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := gateway.New(gateway.Config{Gateway: cfg.Gateway, Store: store}); err == nil ||
			!strings.Contains(err.Error(), "jwt.jwks") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChangedKeysAreReadAgainAndWrongOnesLeaveTheEarlier(t *testing.T) {
	t.Parallel()
	old, renewed, dir := newSigner(t), newSigner(t), t.TempDir()
	old.write(dir, old.set())
	s := newSet(t, dir, jwtSettings, "{match: POST /}")
	as := func(k *signer) int {
		token := k.token(jose.RS256, k.rsa, "r", claims())
		status, _, _ := s.post("k", "Authorization", "Bearer "+token)
		return status
	}
	if a, b := as(old), as(renewed); a != 200 || b != 401 {
		t.Fatalf("at first: %d and %d", a, b)
	}
	renewed.write(dir, renewed.set())
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); as(renewed) != 200; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("the new keys are not read")
		}
	}
	if status := as(old); status != 401 {
		t.Errorf("a key that was taken away: %d", status)
	}
	renewed.write(dir, "no keys") // looked at a second later at the earliest
	for deadline := time.Now().Add(1200 * time.Millisecond); time.Now().Before(deadline); <-tick.C {
		if status := as(renewed); status != 200 {
			t.Fatalf("a file without keys took the earlier ones away: %d", status)
		}
	}
}
