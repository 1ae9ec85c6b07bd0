package webhook

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"net"
	"net/url"
	"slices"
	"strings"
)

// Twilio verifies Twilio's signatures: X-Twilio-Signature is over the URL and, for a form, its
// parameters; for any other body its SHA-256 is in the URL's bodySHA256
// (https://www.twilio.com/docs/usage/webhooks/webhooks-security). There is no time stamp.
type Twilio struct{ keys, sha256 *keys }

// NewTwilio returns a verifier of Twilio's signatures. A secret is the Auth Token of the account,
// or a shared key of its webhooks configuration, with which Twilio may sign by SHA-256. The
// tolerance is not used.
func NewTwilio(cfg SignedConfig) (*Twilio, error) { return newTwilio(cfg.Secrets, MinSecret) }

func newTwilio(secrets []string, least int) (*Twilio, error) {
	list, err := secretBytes(secrets, "text")
	if err != nil {
		return nil, err
	}
	t := &Twilio{}
	if t.keys, err = newKeys("sha1", list, least); err != nil {
		return nil, err
	}
	t.sha256, err = newKeys("sha256", list, least)
	return t, err
}

const (
	twilioHeader   = "X-Twilio-Signature"
	twilioSettings = "X-Twilio-Webhooks-Signature-Settings"
)

// chosen returns the keys for the algorithm that the settings name, such as
// key=…,algorithm=HMAC_SHA256; without them it is SHA-1
// (https://www.twilio.com/docs/usage/webhooks/webhook-shared-keys). Either needs a secret, so who
// changes the header gains nothing.
func (t *Twilio) chosen(r *Request) (*keys, error) {
	if len(r.Header[twilioSettings]) == 0 {
		return t.keys, nil
	}
	value, err := one(r.Header, twilioSettings)
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(value, ",") {
		switch strings.TrimSpace(part) {
		case "algorithm=HMAC_SHA1":
			return t.keys, nil
		case "algorithm=HMAC_SHA256":
			return t.sha256, nil
		}
	}
	return nil, &Error{Malformed, "header " + twilioSettings + " names no algorithm that is known"}
}

// maxParameters bounds the parameters of a form, which are sorted.
const maxParameters = 1000

// Needs returns the URL and the body.
func (t *Twilio) Needs() Needs { return NeedsURL | NeedsRaw }

// Verify returns nil if the signature is right. Twilio itself is not consistent about the port of
// the URL, so the standard one may be there or not, and any may be left out, as in Twilio's own
// libraries.
func (t *Twilio) Verify(r *Request) error {
	value, err := one(r.Header, twilioHeader)
	if err != nil {
		return err
	}
	keys, err := t.chosen(r)
	if err != nil {
		return err
	}
	sigs, err := keys.decodeAll(twilioHeader, []string{value},
		base64Decoder(base64.StdEncoding))
	if err != nil {
		return err
	}
	sum, inURL, err := bodySum(r.URL)
	if err != nil {
		return err
	}
	var form string
	if !inURL {
		if form, err = twilioForm(string(r.Raw)); err != nil {
			return err
		}
	}
	match := false
	for _, u := range withPorts(r.URL) { // all of them, so that the time tells nothing
		right := keys.matches(sigs, func(h hash.Hash) {
			_, _ = h.Write([]byte(u)) // a hash never fails
			_, _ = h.Write([]byte(form))
		})
		match = match || right
	}
	if !match {
		return &Error{Mismatch, "the signature in " + twilioHeader + " is not valid for this URL" +
			" and body"}
	}
	if inURL {
		got := sha256.Sum256(r.Raw)
		if subtle.ConstantTimeCompare(got[:], sum) != 1 {
			return &Error{Mismatch, "the body is not the one of bodySHA256"}
		}
	}
	return nil
}

// bodySum returns the bodySHA256 of a URL, false if it has none.
func bodySum(rawURL string) ([]byte, bool, error) {
	_, query, _ := strings.Cut(rawURL, "?")
	var found []string
	for pair := range strings.SplitSeq(query, "&") {
		if value, ok := strings.CutPrefix(pair, "bodySHA256="); ok {
			found = append(found, value)
		}
	}
	switch len(found) {
	case 0:
		return nil, false, nil
	case 1:
	default:
		return nil, false, &Error{Doubled, "bodySHA256 is in the URL more than once"}
	}
	sum, err := hex.DecodeString(found[0])
	if err != nil || len(sum) != sha256.Size {
		return nil, false, &Error{Malformed, "bodySHA256 is no SHA-256 in hex"}
	}
	return sum, true, nil
}

// twilioForm returns the parameters of a form as Twilio signs them: sorted by name, each name with
// its values, sorted and each once.
func twilioForm(body string) (string, error) {
	if strings.Count(body, "&") >= maxParameters {
		return "", &Error{Malformed, "the form has too many parameters"}
	}
	form, err := url.ParseQuery(body)
	if err != nil {
		return "", &Error{Malformed, "the body is no form, and the URL has no bodySHA256"}
	}
	names := make([]string, 0, len(form))
	for name := range form {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		values := form[name]
		slices.Sort(values)
		for _, value := range slices.Compact(values) {
			b.WriteString(name)
			b.WriteString(value)
		}
	}
	return b.String(), nil
}

// withPorts returns a URL as it is, without its port, and with the standard one if it has none. The
// rest of it is not touched.
func withPorts(raw string) []string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return []string{raw}
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	login, host := "", rest[:end]
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		login, host = host[:i+1], host[i+1:]
	}
	before, tail := scheme+"://"+login, rest[end:]
	port := ":443"
	if strings.EqualFold(scheme, "http") {
		port = ":80"
	}
	bare := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		bare = h
		if strings.Contains(h, ":") {
			bare = "[" + h + "]"
		}
	}
	if bare == host {
		return []string{raw, before + host + port + tail}
	}
	return []string{raw, before + bare + tail}
}
