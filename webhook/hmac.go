package webhook

import (
	"errors"
	"fmt"
	"hash"
	"net/http"
	"strings"
	"time"
)

// HMACConfig describes how a sender signs. Secrets, Header and Signed are required.
type HMACConfig struct {
	// Secrets of which any may have signed: 1 to 16, each of at least MinSecret bytes.
	Secrets []string
	// SecretEncoding is how a secret is written: text, hex or base64. Default text.
	SecretEncoding string
	// Algorithm is sha1, sha256, sha384 or sha512. Default sha256.
	Algorithm string
	// Header with the signature.
	Header string
	// Encoding of the signature: hex, base64 or base64url. Default hex.
	Encoding string
	// Prefix that stands before the signature, such as "sha256=". Default none.
	Prefix string
	// Separator says that the header is a list, such as "," or " ". Default: it is one signature.
	Separator string
	// Field says that the list is one of NAME=VALUE, and names the signatures in it: v1 in
	// "t=1492774577,v1=5257a8…". Its separator is a comma by default. Default: it is not.
	Field string
	// Signed is what the signature is over: a text with {body}, {sha256} (of the body, in hex),
	// {crc32} (of the body, in decimal), {timestamp}, {method}, {url}, {path}, {query} (as they
	// came) and {header:NAME}; {{ is one brace. Default "{body}".
	Signed string
	// SignOver is wire (the body as it came) or decoded (without its Content-Encoding). Default
	// wire.
	SignOver string
	// TimestampHeader has the time stamp; or TimestampField, in the list of the header. It has to
	// be part of what is signed. Default: there is none.
	TimestampHeader, TimestampField string
	// TimestampFormat is seconds (since 1970), milliseconds or rfc3339. Default seconds.
	TimestampFormat string
	// Tolerance of the time stamp, in both directions. Default DefaultTolerance.
	Tolerance time.Duration
}

// HMAC verifies a signature that a secret and a hash make (RFC 2104).
type HMAC struct {
	keys   *keys
	decode decoder
	cfg    HMACConfig
	signed parts
	clock  clock
	fields *fields
}

// NewHMAC returns a verifier of signatures. It refuses secrets that could be guessed, and a
// description that says nothing about the body or leaves the time stamp unsigned.
func NewHMAC(cfg HMACConfig) (*HMAC, error) { return newHMAC(cfg, MinSecret) }

func newHMAC(cfg HMACConfig, least int) (*HMAC, error) {
	cfg.fill()
	secrets, err := secretBytes(cfg.Secrets, cfg.SecretEncoding)
	if err != nil {
		return nil, err
	}
	h := &HMAC{cfg: cfg}
	if h.keys, err = newKeys(cfg.Algorithm, secrets, least); err != nil {
		return nil, err
	}
	if h.decode, err = signatureDecoder(cfg.Encoding); err != nil {
		return nil, err
	}
	if h.signed, err = parseParts(cfg.Signed); err != nil {
		return nil, err
	}
	if h.clock, err = newClock(cfg.TimestampFormat, cfg.Tolerance); err != nil {
		return nil, err
	}
	if cfg.Field != "" {
		h.fields = &fields{header: cfg.Header, separator: cfg.Separator,
			stamp: cfg.TimestampField, signature: cfg.Field}
	}
	return h, h.check()
}

func (c *HMACConfig) fill() {
	def := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	def(&c.SecretEncoding, "text")
	def(&c.Algorithm, "sha256")
	def(&c.Encoding, "hex")
	def(&c.Signed, "{body}")
	def(&c.SignOver, "wire")
	if c.Field != "" {
		def(&c.Separator, ",")
	}
	c.Header = http.CanonicalHeaderKey(c.Header)
	if c.TimestampHeader != "" {
		c.TimestampHeader = http.CanonicalHeaderKey(c.TimestampHeader)
	}
}

func (h *HMAC) check() error {
	c := &h.cfg
	stamped := c.TimestampHeader != "" || c.TimestampField != ""
	switch {
	case c.Header == "":
		return errors.New("no header is named that has the signature")
	case c.SignOver != "wire" && c.SignOver != "decoded":
		return fmt.Errorf("%q is signed over neither wire nor decoded", c.SignOver)
	case !h.signed.has("body", "sha256", "crc32"):
		return errors.New("what is signed leaves out the body: any body would be right; it needs" +
			" {body}, or {sha256} or {crc32} of it")
	case c.Field != "" && c.Prefix != "":
		return errors.New("the signature has a field and a prefix; it has one of them")
	case c.TimestampHeader != "" && c.TimestampField != "":
		return errors.New("the time stamp has a header and a field; it has one of them")
	case c.TimestampField != "" && c.Field == "":
		return errors.New("the time stamp is a field of the header, so the signature needs one too")
	case c.TimestampField != "" && c.TimestampField == c.Field:
		return errors.New("the time stamp and the signature have the same field")
	case stamped && !h.signed.has("timestamp") && !h.signsHeader(c.TimestampHeader):
		return errors.New("the time stamp is not part of what is signed: anybody could renew it;" +
			" what is signed needs {timestamp}")
	case !stamped && h.signed.has("timestamp"):
		return errors.New("{timestamp} is signed, and nothing says where it is")
	}
	return nil
}

func (h *HMAC) signsHeader(name string) bool {
	for _, p := range h.signed {
		if p.kind == "header" && p.text == name {
			return true
		}
	}
	return false
}

// Verify returns nil if one of the signatures is right and the time stamp is near enough.
func (h *HMAC) Verify(r *Request) error {
	value, err := one(r.Header, h.cfg.Header)
	if err != nil {
		return err
	}
	var few [4]string
	texts, stamp := few[:0], ""
	switch {
	case h.fields != nil:
		stamp, texts, err = h.fields.read(value, texts)
	case h.cfg.Separator != "":
		texts, err = splitList(h.cfg.Header, value, h.cfg.Separator, h.cfg.Prefix, texts)
	default:
		text, ok := strings.CutPrefix(value, h.cfg.Prefix)
		if !ok {
			err = &Error{Malformed, "header " + h.cfg.Header + " does not begin with " +
				h.cfg.Prefix}
		}
		texts = append(texts, text)
	}
	if err != nil {
		return err
	}
	if stamp, err = h.stamp(r, stamp); err != nil {
		return err
	}
	sigs, err := h.keys.decodeAll(h.cfg.Header, texts, h.decode)
	if err != nil {
		return err
	}
	body := r.Raw
	if h.cfg.SignOver == "decoded" {
		body = r.Content
	}
	pieces, err := h.signed.fill(r, body, stamp)
	if err != nil {
		return err
	}
	if !h.keys.matches(sigs, func(m hash.Hash) { h.signed.write(m, pieces, body) }) {
		return &Error{Mismatch, "the signature in " + h.cfg.Header + " is not valid"}
	}
	return nil
}

// stamp judges the time stamp, which may have been in the header of the signature, and returns it.
func (h *HMAC) stamp(r *Request, field string) (string, error) {
	switch {
	case h.cfg.TimestampHeader != "":
		text, err := one(r.Header, h.cfg.TimestampHeader)
		if err != nil {
			return "", err
		}
		return text, h.clock.judge(h.cfg.TimestampHeader, text, r.Now)
	case h.cfg.TimestampField == "":
		return "", nil
	case field == "":
		return "", &Error{Missing, "header " + h.cfg.Header + " has no time stamp " +
			h.cfg.TimestampField}
	}
	return field, h.clock.judge(h.cfg.Header, field, r.Now)
}

// Needs returns what is signed.
func (h *HMAC) Needs() Needs {
	n := h.signed.needs()
	if h.cfg.SignOver == "decoded" {
		n = n&^NeedsRaw | NeedsContent
	}
	return n
}
