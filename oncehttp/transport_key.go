package oncehttp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

type contextKey struct{}

// WithKey returns a context under which a [Transport] sends a request with this key: 1 to 255
// printable ASCII characters. Use it for one operation: two that differ need two keys. A key in the
// request's own header comes before it.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, contextKey{}, key)
}

// header returns the header of each try: that of the request, with its key.
func (t *Transport) header(req *http.Request) (http.Header, error) {
	header := req.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if hasKey(header, HeaderKey) || hasKey(header, HeaderXKey) {
		return header, nil
	}
	key, given := req.Context().Value(contextKey{}).(string)
	if !given {
		key = t.cfg.NewKey()
	}
	value, err := quote(key)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	header.Del(HeaderXKey) // it is blank
	header[HeaderKey] = []string{value}
	return header, nil
}

// hasKey tells a key of the caller's. A blank one is none, to a server as well.
func hasKey(header http.Header, name string) bool {
	for _, value := range header[name] {
		if value := strings.Trim(value, " \t"); value != "" && value != `""` {
			return true
		}
	}
	return false
}

// quote writes a key as a String of RFC 9651, section 4.1.6.
func quote(key string) (string, error) {
	if key == "" {
		return "", errors.New("is empty")
	}
	if len(key) > MaxKey {
		return "", fmt.Errorf("has %d bytes, want at most %d", len(key), MaxKey)
	}
	var b strings.Builder
	b.Grow(len(key) + 2)
	b.WriteByte('"')
	for i := range len(key) {
		c := key[i]
		if c < 0x20 || c > 0x7e {
			return "", fmt.Errorf("byte %d is no printable ASCII character", i+1)
		}
		if c == '"' || c == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	b.WriteByte('"')
	return b.String(), nil
}

// newUUID returns a random UUID: RFC 9562, section 5.4.
func newUUID() string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // never fails, as crypto/rand documents
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
