package webhook

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
	"sync"
)

// MinSecret is the shortest secret of a signature, in bytes. Who has seen one signed message can
// try secrets without asking us; below 16 bytes it could be found.
const MinSecret = 16

// maxSecrets bounds the secrets that are valid at a time: each costs one more signature for every
// request.
const maxSecrets = 16

// keys are the secrets of a verifier that makes signatures. Safe for concurrent use.
type keys struct {
	macs []*sync.Pool // of hash.Hash, one for each secret
	size int          // of a signature, in bytes
}

// newKeys checks the secrets: there is at least one, and none could be guessed.
func newKeys(algorithm string, secrets [][]byte, least int) (*keys, error) {
	newHash := map[string]func() hash.Hash{
		"sha1": sha1.New, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New,
	}[algorithm]
	if newHash == nil {
		return nil, fmt.Errorf("the algorithm %q is none of sha1, sha256, sha384, sha512",
			algorithm)
	}
	switch {
	case len(secrets) == 0:
		return nil, errors.New("no secret is given")
	case len(secrets) > maxSecrets:
		return nil, fmt.Errorf("%d secrets are valid at a time, at most %d can be", len(secrets),
			maxSecrets)
	}
	k := &keys{size: newHash().Size()}
	for _, secret := range secrets {
		if len(secret) < least {
			return nil, fmt.Errorf("a secret has %d bytes; it needs at least %d, or it could be"+
				" found by trying, from one signed message", len(secret), least)
		}
		k.macs = append(k.macs, &sync.Pool{New: func() any { return hmac.New(newHash, secret) }})
	}
	return k, nil
}

// matches reports whether one of the signatures is that of what write writes, under one of the
// secrets. All of them are compared, in constant time.
func (k *keys) matches(sigs [][]byte, write func(hash.Hash)) bool {
	match := 0
	var buf [sha512.Size]byte
	for _, pool := range k.macs {
		mac := pool.Get().(hash.Hash)
		mac.Reset()
		write(mac)
		want := mac.Sum(buf[:0])
		pool.Put(mac)
		for _, sig := range sigs {
			match |= subtle.ConstantTimeCompare(sig, want)
		}
	}
	return match == 1
}

// secretBytes reads secrets that are written as text, hex or base64.
func secretBytes(secrets []string, encoding string) ([][]byte, error) {
	var list [][]byte
	for _, s := range secrets {
		b, err := []byte(s), error(nil)
		switch encoding {
		case "text":
		case "hex":
			b, err = hex.DecodeString(s)
		case "base64":
			b, err = base64.StdEncoding.DecodeString(s)
		default:
			return nil, fmt.Errorf("the encoding %q of a secret is none of text, hex, base64",
				encoding)
		}
		if err != nil { // its text would show a byte of the secret
			return nil, errors.New("a secret is no " + encoding)
		}
		list = append(list, b)
	}
	return list, nil
}

// decoder turns the text of a signature into its bytes. Its result is false for a text of another
// form.
type decoder func(dst []byte, text string) ([]byte, bool)

func signatureDecoder(encoding string) (decoder, error) {
	switch encoding {
	case "hex":
		return func(dst []byte, text string) ([]byte, bool) {
			b, err := hex.AppendDecode(dst, []byte(text))
			return b, err == nil
		}, nil
	case "base64":
		return base64Decoder(base64.StdEncoding), nil
	case "base64url": // with and without padding
		raw := base64Decoder(base64.RawURLEncoding)
		return func(dst []byte, text string) ([]byte, bool) {
			return raw(dst, strings.TrimRight(text, "="))
		}, nil
	}
	return nil, fmt.Errorf("the encoding %q of a signature is none of hex, base64, base64url",
		encoding)
}

func base64Decoder(e *base64.Encoding) decoder {
	strict := e.Strict()
	return func(dst []byte, text string) ([]byte, bool) {
		b, err := strict.AppendDecode(dst, []byte(text))
		return b, err == nil
	}
}

// decodeAll decodes the signatures of a header. Those of another form or length are left out,
// unless none is left.
func (k *keys) decodeAll(header string, texts []string, d decoder) ([][]byte, error) {
	sigs := make([][]byte, 0, len(texts))
	buf := make([]byte, 0, len(texts)*k.size)
	form := false
	for _, text := range texts {
		if len(text) > 4*sha512.Size { // nothing that long is a signature
			continue
		}
		from := len(buf)
		all, ok := d(buf, text)
		if form = form || ok; !ok || len(all)-from != k.size {
			continue
		}
		buf = all
		sigs = append(sigs, all[from:])
	}
	switch {
	case len(sigs) > 0:
		return sigs, nil
	case form:
		return nil, &Error{Malformed, "the signature in " + header + " has a wrong length"}
	}
	return nil, &Error{Malformed, "the signature in " + header + " can't be decoded"}
}
