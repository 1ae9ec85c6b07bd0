package webhook

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

// PayPalConfig configures the verifier of PayPal's signatures. WebhookID and Certificates are
// required.
type PayPalConfig struct {
	// WebhookID is the id that PayPal gave the webhook. It is part of what is signed, and not of
	// the message.
	WebhookID string
	// Certificates of PayPal, or public keys, in PEM: 1 to 16, of which any may have signed. The
	// one that it uses is at the URL in its header PAYPAL-CERT-URL, which is never called here.
	Certificates []string
	// Tolerance of the time stamp, in both directions. Default 4 days: PayPal tries for three.
	Tolerance time.Duration
}

// PayPal verifies PayPal's signatures: PAYPAL-TRANSMISSION-SIG is one with SHA-256 and RSA over the
// id and the time of the transmission, the id of the webhook and the CRC-32 of the body
// (https://developer.paypal.com/api/rest/webhooks/rest, "Self verification method"). A CRC-32 can
// be made to fit: who has recorded one message can make others with its id and its time.
type PayPal struct {
	keys   []*rsa.PublicKey
	signed parts
	clock  clock
}

// PayPalTolerance is the default tolerance of time stamps: PayPal tries for three days, under the
// time of its first try.
const PayPalTolerance = 4 * 24 * time.Hour

const (
	payPalHeader = "Paypal-Transmission-Sig"
	payPalTime   = "Paypal-Transmission-Time"

	// minRSABits is the shortest key that is secure today (NIST SP 800-131A, section 3).
	minRSABits = 2048
)

// NewPayPal returns a verifier of PayPal's signatures. It refuses keys of less than 2048 bits. That
// a certificate has expired is not looked at: it was chosen by who configured it.
func NewPayPal(cfg PayPalConfig) (*PayPal, error) {
	if cfg.WebhookID == "" {
		return nil, errors.New("no id of the webhook is given")
	}
	if cfg.Tolerance == 0 {
		cfg.Tolerance = PayPalTolerance
	}
	p := &PayPal{}
	var err error
	if p.clock, err = newClock("rfc3339", cfg.Tolerance); err != nil {
		return nil, err
	}
	p.signed, err = parseParts("{header:paypal-transmission-id}|{timestamp}|" +
		strings.ReplaceAll(cfg.WebhookID, "{", "{{") + "|{crc32}")
	if err != nil {
		return nil, err
	}
	for _, text := range cfg.Certificates {
		keys, err := rsaKeys(text)
		if err != nil {
			return nil, err
		}
		p.keys = append(p.keys, keys...)
	}
	switch {
	case len(p.keys) == 0:
		return nil, errors.New("no certificate is given")
	case len(p.keys) > maxSecrets:
		return nil, fmt.Errorf("%d certificates are valid at a time, at most %d can be",
			len(p.keys), maxSecrets)
	}
	return p, nil
}

// rsaKeys reads the keys of all certificates and public keys of a PEM text.
func rsaKeys(text string) ([]*rsa.PublicKey, error) {
	var keys []*rsa.PublicKey
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		var public any
		switch block.Type {
		case "CERTIFICATE":
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, errors.New("a certificate can't be read")
			}
			public = cert.PublicKey
		case "PUBLIC KEY":
			var err error
			if public, err = x509.ParsePKIXPublicKey(block.Bytes); err != nil {
				return nil, errors.New("a public key can't be read")
			}
		default:
			return nil, fmt.Errorf("the PEM text holds a %s; it needs to be a CERTIFICATE or a"+
				" PUBLIC KEY", block.Type)
		}
		key, ok := public.(*rsa.PublicKey)
		if !ok {
			return nil, errors.New("a key is not one for RSA")
		}
		if key.N.BitLen() < minRSABits {
			return nil, fmt.Errorf("a key has %d bits; it needs at least %d, or signatures could"+
				" be forged", key.N.BitLen(), minRSABits)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("a certificate is no PEM text")
	}
	return keys, nil
}

// Needs returns the body.
func (p *PayPal) Needs() Needs { return NeedsRaw }

// Verify returns nil if the signature is right under one of the keys and the time stamp is near
// enough.
func (p *PayPal) Verify(r *Request) error {
	text, err := one(r.Header, payPalHeader)
	if err != nil {
		return err
	}
	if algorithm := r.Header["Paypal-Auth-Algo"]; len(algorithm) > 1 ||
		len(algorithm) == 1 && !strings.EqualFold(algorithm[0], "SHA256withRSA") {
		return &Error{Malformed, "the algorithm in Paypal-Auth-Algo is not SHA256withRSA"}
	}
	stamp, err := one(r.Header, payPalTime)
	if err != nil {
		return err
	}
	if err := p.clock.judge(payPalTime, stamp, r.Now); err != nil {
		return err
	}
	sig, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return &Error{Malformed, "the signature in " + payPalHeader + " can't be decoded"}
	}
	pieces, err := p.signed.fill(r, r.Raw, stamp)
	if err != nil {
		return err
	}
	h := sha256.New()
	p.signed.write(h, pieces, r.Raw)
	digest := h.Sum(nil)
	length := false
	for _, key := range p.keys {
		length = length || len(sig) == key.Size()
		if rsa.VerifyPKCS1v15(key, crypto.SHA256, digest, sig) == nil {
			return nil
		}
	}
	if !length {
		return &Error{Malformed, "the signature in " + payPalHeader + " has a wrong length"}
	}
	return &Error{Mismatch, "the signature in " + payPalHeader + " is not valid under any of the" +
		" certificates"}
}
