package webhook

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"strings"
)

// shown are secrets that a sender shows as they are. They are compared by a keyed digest: it brings
// texts of any length to one length, and nobody can choose two texts with one digest.
type shown struct {
	key    [32]byte // of this process
	digest [][sha256.Size]byte
}

func newShown(secrets []string) *shown {
	s := &shown{}
	rand.Read(s.key[:]) // never fails; see crypto/rand
	for _, secret := range secrets {
		s.digest = append(s.digest, s.hash(secret))
	}
	return s
}

// has reports whether the text is one of the secrets. All are compared: the time tells nothing.
func (s *shown) has(text string) bool {
	got := s.hash(text)
	match := 0
	for i := range s.digest {
		match |= subtle.ConstantTimeCompare(got[:], s.digest[i][:])
	}
	return match == 1
}

func (s *shown) hash(text string) [sha256.Size]byte {
	buf := make([]byte, 0, 128) // on the stack for ordinary texts
	return sha256.Sum256(append(append(buf, s.key[:]...), text...))
}

// authorization returns the credentials of the Authorization header if it has the scheme.
func authorization(r *Request, scheme, what string) (string, error) {
	lines := r.Header["Authorization"]
	switch {
	case len(lines) == 0:
		return "", &Error{Missing, "no Authorization header"}
	case len(lines) > 1:
		return "", &Error{Doubled, "more than one Authorization header"}
	}
	got, rest, _ := strings.Cut(lines[0], " ")
	rest = strings.TrimLeft(rest, " ")
	if !strings.EqualFold(got, scheme) || rest == "" {
		return "", &Error{Malformed, "the Authorization header is no " + what}
	}
	return rest, nil
}

// Bearer verifies "Authorization: Bearer TOKEN" (RFC 6750, section 2.1).
type Bearer struct{ tokens *shown }

// NewBearer returns a verifier that accepts any of the tokens: 1 to 16, of any length, since many
// senders have theirs given. A token that is empty or begins or ends with a blank is refused.
func NewBearer(tokens ...string) (*Bearer, error) {
	if len(tokens) == 0 {
		return nil, errors.New("no bearer token is accepted")
	}
	for _, token := range tokens {
		switch {
		case token == "":
			return nil, errors.New("a token is empty")
		case strings.TrimSpace(token) != token:
			return nil, errors.New("a token begins or ends with a blank; it needs to be without")
		}
	}
	return &Bearer{newShown(tokens)}, nil
}

// Verify returns nil if the request shows one of the tokens.
func (b *Bearer) Verify(r *Request) error {
	token, err := authorization(r, "Bearer", "bearer token")
	if err != nil {
		return err
	}
	if !b.tokens.has(token) {
		return &Error{Mismatch, "the bearer token is not valid"}
	}
	return nil
}

// Needs returns nothing.
func (b *Bearer) Needs() Needs { return 0 }

// Challenge returns the scheme.
func (b *Bearer) Challenge() string { return "Bearer" }

// Basic verifies "Authorization: Basic …" (RFC 7617).
type Basic struct{ logins *shown }

// NewBasic returns a verifier of a user name and any of the passwords. A name with a colon can't be
// shown (RFC 7617, section 2) and is refused, as is an empty name or password.
func NewBasic(username string, passwords ...string) (*Basic, error) {
	if username == "" || strings.Contains(username, ":") {
		return nil, errors.New("the user name is empty or has a colon")
	}
	if len(passwords) == 0 {
		return nil, errors.New("no password is accepted")
	}
	var logins []string
	for _, password := range passwords {
		if password == "" {
			return nil, errors.New("a password is empty")
		}
		logins = append(logins, username+":"+password)
	}
	return &Basic{newShown(logins)}, nil
}

// Verify returns nil if the request shows the name and one of the passwords.
func (b *Basic) Verify(r *Request) error {
	text, err := authorization(r, "Basic", "basic login")
	if err != nil {
		return err
	}
	login, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return &Error{Malformed, "the basic login is no base64"}
	}
	if !b.logins.has(string(login)) {
		return &Error{Mismatch, "the user name or the password is not valid"}
	}
	return nil
}

// Needs returns nothing.
func (b *Basic) Needs() Needs { return 0 }

// Challenge returns the scheme.
func (b *Basic) Challenge() string { return `Basic realm="once", charset="UTF-8"` }
