package once

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Identity is what a store indexes: the SHA-256 of scope and key. It compares by ==.
type Identity [sha256.Size]byte

// What is hashed begins with one of these, so that no two kinds of identity can meet. They never
// change; another encoding gets another tag.
const (
	tagKey     = "once key 1\x00"
	tagDerived = "once derived 1\x00"
)

// IDLen is the length of a public id in characters.
const IDLen = 26

// idAlphabet is base32hex (RFC 4648, section 7) in lower case: ids sort as their bytes do.
const idAlphabet = "0123456789abcdefghijklmnopqrstuv"

// Identify returns the identity of a key in its scope: the SHA-256 over the length-prefixed
// parts of both, each part of the key with its type. It returns [ErrScopeMissing] for the zero
// scope and a *[KeyError] for a key that isn't complete.
func Identify(scope Scope, key Key) (Identity, error) {
	if !scope.none && len(scope.parts) == 0 {
		return Identity{}, ErrScopeMissing
	}
	if err := key.check(); err != nil {
		return Identity{}, err
	}
	b := make([]byte, 0, 256) // on the stack for ordinary keys
	b = append(b, tagKey...)
	b = binary.BigEndian.AppendUint64(b, uint64(len(scope.parts)))
	for _, p := range scope.parts {
		b = appendPrefixed(b, p)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(len(key)))
	for _, p := range key {
		b = append(b, byte(p.kind))
		b = appendPrefixed(b, p.text)
	}
	return sha256.Sum256(b), nil
}

// DeriveIdentity returns the identity of what follows from a cause: an effect (name says which,
// n counts those of one name) or a later revision of a callback. The same cause, name and
// number always give the same identity, so what is built a second time is known as a repeat.
func DeriveIdentity(cause Identity, name string, n int) Identity {
	b := make([]byte, 0, 128)
	b = append(b, tagDerived...)
	b = append(b, cause[:]...)
	b = appendPrefixed(b, name)
	b = binary.BigEndian.AppendUint64(b, uint64(n))
	return sha256.Sum256(b)
}

func appendPrefixed(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
	return append(b, s...)
}

// ID returns the public id: the first 16 bytes in lower-case base32hex without padding, 26
// characters.
func (id Identity) ID() string { return FormatID([16]byte(id[:16])) }

// IsZero reports whether the identity was never set.
func (id Identity) IsZero() bool { return id == Identity{} }

// FormatID writes the first 16 bytes of an identity as [Identity.ID] does.
func FormatID(b [16]byte) string {
	var out [IDLen]byte
	var acc uint16
	bits, n := 0, 0
	for _, c := range b {
		acc, bits = acc<<8|uint16(c), bits+8
		for bits >= 5 {
			bits -= 5
			out[n] = idAlphabet[acc>>bits&31]
			n++
		}
	}
	out[n] = idAlphabet[acc<<(5-bits)&31] // 128 = 25×5 + 3: two bits of padding, zero
	return string(out[:])
}

// ParseID reads a public id. Only the one spelling that [Identity.ID] writes is accepted.
func ParseID(s string) ([16]byte, error) {
	var out [16]byte
	if len(s) != IDLen {
		return out, fmt.Errorf("no id: %d characters, want %d", len(s), IDLen)
	}
	var acc uint16
	bits, n := 0, 0
	for i := range len(s) {
		v := strings.IndexByte(idAlphabet, s[i])
		if v < 0 {
			return [16]byte{}, fmt.Errorf("no id: bad character at %d", i)
		}
		acc, bits = acc<<5|uint16(v), bits+5
		if bits >= 8 {
			bits -= 8
			out[n] = byte(acc >> bits)
			n++
		}
	}
	if acc&3 != 0 {
		return [16]byte{}, errors.New("no id: the last character can't end an id")
	}
	return out, nil
}
