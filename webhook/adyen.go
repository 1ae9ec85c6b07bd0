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
	signed, ok := adyenSigned(item)
	if !ok {
		return &Error{Malformed, name + " has a signed field that is neither text nor number"}
	}
	if !a.keys.matches(sigs, func(h hash.Hash) {
		_, _ = h.Write([]byte(signed)) // a hash never fails
	}) {
		return &Error{Mismatch, "the signature of " + name + " is not valid"}
	}
	return nil
}

// adyenSigned joins the signed fields of an item; a missing one is empty. It returns false for one
// of another type.
func adyenSigned(item map[string]any) (string, bool) {
	amount, _ := item["amount"].(map[string]any)
	list := make([]string, 0, 8)
	for _, v := range []any{
		item["pspReference"], item["originalReference"], item["merchantAccountCode"],
		item["merchantReference"], amount["value"], amount["currency"], item["eventCode"],
		item["success"],
	} {
		switch v := v.(type) {
		case nil:
			list = append(list, "")
		case string:
			list = append(list, v)
		case json.Number:
			list = append(list, v.String())
		case bool:
			list = append(list, fmt.Sprint(v))
		default:
			return "", false
		}
	}
	return strings.Join(list, ":"), true
}

// maxNesting bounds the depth of a body, so that it can't exhaust the stack.
const maxNesting = 32

// readObject reads a JSON object. It is stricter than encoding/json, which takes names for equal
// that differ in case and lets the last of two equal ones win: what is verified has to be what
// whoever reads the body finds in it.
func readObject(b []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	v, err := readValue(d, maxNesting)
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

func readValue(d *json.Decoder, depth int) (any, error) {
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
			v, err := readValue(d, depth-1)
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
		if m[name], err = readValue(d, depth-1); err != nil {
			return nil, err
		}
	}
	if _, err = d.Token(); err != nil {
		return nil, errJSON
	}
	return m, nil
}
