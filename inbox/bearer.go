package inbox

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"strings"
	"sync"
)

// Bearer is a Verifier for senders that show a token: "Authorization: Bearer TOKEN" (RFC 6750,
// section 2.1). Several tokens may be valid at a time, so that one can be exchanged for another.
// The comparison takes the same time wherever two tokens differ. Use it by pointer; it must not be
// changed after its first use.
type Bearer struct {
	// Tokens that are accepted, at least one. An empty one is refused by New.
	Tokens []string

	once   sync.Once
	key    [32]byte // of this process; nobody can choose two tokens with one digest
	digest [][sha256.Size]byte
}

// Verify returns an error unless the message shows one of the tokens.
func (b *Bearer) Verify(_ context.Context, m *Message) error {
	b.once.Do(b.prepare)
	lines := m.Header["Authorization"]
	if len(lines) == 0 {
		return errors.New("no Authorization header")
	}
	if len(lines) > 1 {
		return errors.New("more than one Authorization header")
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	token = strings.TrimLeft(token, " ")
	if !strings.EqualFold(scheme, "bearer") || token == "" {
		return errors.New("the Authorization header is no bearer token")
	}
	got := b.hash(token)
	match := 0
	for i := range b.digest { // all of them: the time tells nothing
		match |= subtle.ConstantTimeCompare(got[:], b.digest[i][:])
	}
	if match != 1 {
		return errors.New("the bearer token is not valid")
	}
	return nil
}

// HeaderOnly returns true: the body isn't looked at.
func (b *Bearer) HeaderOnly() bool { return true }

// Challenge returns the scheme.
func (b *Bearer) Challenge() string { return "Bearer" }

func (b *Bearer) check() error {
	if len(b.Tokens) == 0 {
		return errors.New("no bearer token is accepted")
	}
	for _, token := range b.Tokens {
		if token == "" || strings.TrimSpace(token) != token {
			return errors.New("a bearer token is empty or begins or ends with a blank")
		}
	}
	return nil
}

func (b *Bearer) prepare() {
	rand.Read(b.key[:]) // never fails; see crypto/rand
	for _, token := range b.Tokens {
		if token != "" {
			b.digest = append(b.digest, b.hash(token))
		}
	}
}

// hash brings tokens of any length to one length, so that the comparison doesn't tell it.
func (b *Bearer) hash(token string) [sha256.Size]byte {
	buf := make([]byte, 0, 128) // on the stack for ordinary tokens
	return sha256.Sum256(append(append(buf, b.key[:]...), token...))
}
