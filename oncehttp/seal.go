package oncehttp

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/oncekit/once"
)

// Sealer encrypts what is kept of answers, with AES-256-GCM (NIST SP 800-38D) and a random nonce
// for each. An answer is bound to its identity: a record that is copied to another key can't be
// opened there. It is safe for concurrent use.
type Sealer struct {
	first keyID
	keys  map[keyID]cipher.AEAD
}

// keyID names a key in what it sealed: the first bytes of its SHA-256.
type keyID [4]byte

const (
	sealVersion = 0x53 // no version of an answer: neither is ever taken for the other
	sealKeySize = 32
	sealHead    = 1 + len(keyID{})
)

// NewSealer makes a sealer of keys of 32 bytes. The first one seals; all of them open, so that a
// new key is put in front and an old one stays until the retention is over. It refuses no key, keys
// of another length and keys of which two have the same beginning of their digest.
func NewSealer(keys ...[]byte) (*Sealer, error) {
	if len(keys) == 0 {
		return nil, errors.New("new sealer: no key is given")
	}
	s := &Sealer{keys: map[keyID]cipher.AEAD{}}
	for i, key := range keys {
		if len(key) != sealKeySize {
			return nil, fmt.Errorf("new sealer: key %d has %d bytes, want %d", i+1, len(key),
				sealKeySize)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("new sealer: %w", err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, fmt.Errorf("new sealer: %w", err)
		}
		id := idOfKey(key)
		if _, known := s.keys[id]; known {
			return nil, fmt.Errorf("new sealer: key %d is there twice", i+1)
		}
		s.keys[id] = aead
		if i == 0 {
			s.first = id
		}
	}
	return s, nil
}

func idOfKey(key []byte) keyID {
	sum := sha256.Sum256(key)
	return keyID(sum[:])
}

// seal encrypts data that belongs to an identity.
func (s *Sealer) seal(id once.Identity, data []byte) []byte {
	aead := s.keys[s.first]
	head := sealHead + aead.NonceSize()
	out := make([]byte, head, head+len(data)+aead.Overhead())
	out[0] = sealVersion
	copy(out[1:], s.first[:])
	nonce := out[sealHead:]
	_, _ = rand.Read(nonce) // never fails, as crypto/rand documents
	return aead.Seal(out, nonce, data, id[:])
}

// open decrypts what seal made. The error is [once.ErrCorrupt]: it was changed, belongs to another
// identity, or its key is gone.
func (s *Sealer) open(id once.Identity, sealed []byte) ([]byte, error) {
	if len(sealed) < sealHead || sealed[0] != sealVersion {
		return nil, fmt.Errorf("open answer: it is not sealed: %w", once.ErrCorrupt)
	}
	aead := s.keys[keyID(sealed[1:sealHead])]
	if aead == nil {
		return nil, fmt.Errorf("open answer: its key is not there any more: %w", once.ErrCorrupt)
	}
	rest := sealed[sealHead:]
	if len(rest) < aead.NonceSize() {
		return nil, fmt.Errorf("open answer: it is cut off: %w", once.ErrCorrupt)
	}
	nonce, text := rest[:aead.NonceSize()], rest[aead.NonceSize():]
	data, err := aead.Open(nil, nonce, text, id[:])
	if err != nil {
		return nil, fmt.Errorf("open answer: %w: %w", err, once.ErrCorrupt)
	}
	return data, nil
}
