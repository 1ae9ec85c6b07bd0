package once

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Fingerprint is a versioned digest of what was asked: one byte that names the rule by which it
// was made, then the SHA-256. It compares by ==, and is stored as its 33 bytes. The zero value is
// no fingerprint and equals no real one.
type Fingerprint [1 + sha256.Size]byte

// The rules by which fingerprints are made. A rule never changes under its number.
const (
	// FingerprintRawV1: the SHA-256 of the bytes as they came.
	FingerprintRawV1 byte = 1

	// FingerprintJSONV1: the SHA-256 of the canonical writing of a JSON value: members in the
	// order of RFC 8785, texts as there, numbers by [CanonicalNumber], ignored members left out.
	FingerprintJSONV1 byte = 2

	// FingerprintRequestV1: the SHA-256 of an HTTP request as package oncehttp writes it.
	FingerprintRequestV1 byte = 3

	// FingerprintEventV1: the SHA-256 of what an event changes, as package write writes it.
	FingerprintEventV1 byte = 4
)

// FingerprintRaw returns the fingerprint of bytes as they came.
func FingerprintRaw(b []byte) Fingerprint {
	return NewFingerprint(FingerprintRawV1, sha256.Sum256(b))
}

// NewFingerprint puts a fingerprint together from the number of its rule and its digest.
func NewFingerprint(version byte, sum [sha256.Size]byte) Fingerprint {
	var f Fingerprint
	f[0] = version
	copy(f[1:], sum[:])
	return f
}

// Version returns the number of the rule by which it was made; 0 for the zero value.
func (f Fingerprint) Version() byte { return f[0] }

// IsZero reports whether there is no fingerprint.
func (f Fingerprint) IsZero() bool { return f == Fingerprint{} }

// String returns the text form: the rule's number, a colon, the digest in lower-case hex. It is
// empty for the zero value.
func (f Fingerprint) String() string {
	if f.IsZero() {
		return ""
	}
	return strconv.Itoa(int(f[0])) + ":" + hex.EncodeToString(f[1:])
}

// ParseFingerprint reads the text form; the empty text is the zero value.
func ParseFingerprint(s string) (Fingerprint, error) {
	if s == "" {
		return Fingerprint{}, nil
	}
	version, digest, found := strings.Cut(s, ":")
	if !found {
		return Fingerprint{}, errors.New("parse fingerprint: no colon")
	}
	v, err := strconv.ParseUint(version, 10, 8)
	if err != nil || v == 0 {
		return Fingerprint{}, errors.New("parse fingerprint: bad version")
	}
	sum, err := hex.DecodeString(digest)
	if err != nil || len(sum) != sha256.Size {
		return Fingerprint{}, fmt.Errorf("parse fingerprint: want %d hex digits", 2*sha256.Size)
	}
	return NewFingerprint(byte(v), [sha256.Size]byte(sum)), nil
}
