package webhook

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
)

// Adyen verifies Adyen's standard notifications: each item of the body carries a signature over
// some of its own fields, and each has to be right
// (https://docs.adyen.com/development-resources/webhooks/secure-webhooks/verify-hmac-signatures).
// There is no time stamp, and the other fields of an item are not signed.
type Adyen struct{ keys *keys }

// minAdyenKey is the length of Adyen's keys in bytes: 64 hex digits.
const minAdyenKey = 32

// maxItems bounds the notification items of one body.
const maxItems = 1000

// NewAdyen returns a verifier of Adyen's standard notifications. A secret is the HMAC key of the
// webhook, 64 hex digits. The tolerance is not used.
func NewAdyen(cfg SignedConfig) (*Adyen, error) {
	list, err := secretBytes(cfg.Secrets, "hex")
	if err != nil {
		return nil, err
	}
	keys, err := newKeys("sha256", list, minAdyenKey)
	return &Adyen{keys}, err
}

// Needs returns the body. It is read as it came.
func (a *Adyen) Needs() Needs { return NeedsRaw }

// Verify returns nil if each item has the right signature, and there is at least one.
func (a *Adyen) Verify(r *Request) error {
	body, err := readObject(r.Raw)
	if err != nil {
		return &Error{Malformed, "the body can't be read: " + err.Error()}
	}
	items, _ := body["notificationItems"].([]any)
	switch {
	case len(items) == 0:
		return &Error{Missing, "the body has no notificationItems"}
	case len(items) > maxItems:
		return &Error{Malformed, fmt.Sprintf("the body has more than %d notificationItems",
			maxItems)}
	}
	for i, item := range items {
		if err := a.item(item, fmt.Sprintf("item %d", i)); err != nil {
			return err
		}
	}
	return nil
}

func (a *Adyen) item(v any, name string) error {
	outer, _ := v.(map[string]any)
	item, ok := outer["NotificationRequestItem"].(map[string]any)
	if !ok {
		return &Error{Malformed, name + " has no NotificationRequestItem"}
	}
	additional, _ := item["additionalData"].(map[string]any)
	text, _ := additional["hmacSignature"].(string)
	if text == "" {
		return &Error{Missing, name + " has no additionalData.hmacSignature"}
	}
	sigs, err := a.keys.decodeAll(name, []string{text}, base64Decoder(base64.StdEncoding))
	if err != nil {
		return err
	}
	signed, err := adyenSigned(item)
	if err != nil {
		return &Error{Malformed, name + ": " + err.Error()}
	}
	if !a.keys.matches(sigs, func(h hash.Hash) {
		_, _ = h.Write([]byte(signed)) // a hash never fails
	}) {
		return &Error{Mismatch, "the signature of " + name + " is not valid"}
	}
	return nil
}

// adyenSigned joins the signed fields of an item; a missing one is empty. Each is read as Adyen
// writes it, a text or, of the amount, a whole number, and none but merchantReference may hold a
// colon: so a joined text has one reading, and what is signed can't be written in another way,
// which would be another key.
func adyenSigned(item map[string]any) (string, error) {
	amount, _ := item["amount"].(map[string]any)
	list := make([]string, 0, 8)
	for _, f := range []struct {
		name  string
		of    map[string]any
		colon bool // it may hold one
	}{
		{"pspReference", item, false}, {"originalReference", item, false},
		{"merchantAccountCode", item, false}, {"merchantReference", item, true},
		{"value", amount, false}, {"currency", amount, false}, {"eventCode", item, false},
		{"success", item, false},
	} {
		var text string
		switch v := f.of[f.name].(type) {
		case nil:
		case string:
			text = v
			if f.name == "value" {
				return "", errors.New("the value of its amount is no number")
			}
		case json.Number:
			text = v.String()
			if f.name != "value" || strings.ContainsAny(text, ".eE") {
				return "", fmt.Errorf("its %s is a number that Adyen doesn't write", f.name)
			}
		default:
			return "", fmt.Errorf("its %s is not a text", f.name)
		}
		if !f.colon && strings.Contains(text, ":") {
			return "", fmt.Errorf("its %s holds a colon", f.name)
		}
		list = append(list, text)
	}
	return strings.Join(list, ":"), nil
}

// Bounds of a body that is read before anybody knows who sent it: its depth, so that it can't
// exhaust the stack, and its values, of which each costs far more memory than its text.
const (
	maxNesting = 32
	maxValues  = 10_000
)

// readObject reads a JSON object. It is stricter than encoding/json, which takes names for equal
// that differ in case and lets the last of two equal ones win: what is verified has to be what
// whoever reads the body finds in it.
func readObject(b []byte) (map[string]any, error) {
	d := &objectReader{json.NewDecoder(bytes.NewReader(b)), maxValues}
	d.UseNumber()
	v, err := d.value(maxNesting)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there is more after the JSON value")
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("it is no JSON object")
	}
	return m, nil
}

var errJSON = errors.New("it is not valid JSON")

// objectReader reads values, up to a number of them.
type objectReader struct {
	*json.Decoder
	left int
}

func (d *objectReader) value(depth int) (any, error) {
	if d.left--; d.left < 0 {
		return nil, fmt.Errorf("it has more than %d values", maxValues)
	}
	t, err := d.Token()
	if err != nil {
		return nil, errJSON
	}
	delim, ok := t.(json.Delim)
	if !ok {
		return t, nil
	}
	if depth == 0 {
		return nil, errors.New("it is nested too deep")
	}
	if delim == '[' {
		list := []any{}
		for d.More() {
			v, err := d.value(depth - 1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		if _, err = d.Token(); err != nil {
			return nil, errJSON
		}
		return list, nil
	}
	m := map[string]any{}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return nil, errJSON
		}
		if _, twice := m[name]; twice {
			return nil, errors.New("it has a name twice in one object")
		}
		if m[name], err = d.value(depth - 1); err != nil {
			return nil, err
		}
	}
	if _, err = d.Token(); err != nil {
		return nil, errJSON
	}
	return m, nil
}
