package config

import (
	"slices"
	"strings"
	"time"

	"github.com/oncekit/once/webhook"
)

// verifier makes an interface of a constructor's results: nil where there is an error.
func verifier[V webhook.Verifier](v V, err error) (webhook.Verifier, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

// made returns a function that tells a constructor's error at a place.
func (r *reader) made(at place, what string) func(webhook.Verifier, error) webhook.Verifier {
	return func(v webhook.Verifier, err error) webhook.Verifier {
		if err != nil {
			r.add(at, "%s: %s", what, err)
			return nil
		}
		return v
	}
}

// neutral is a secret that each kind of signature takes: a text, hex and base64. With it a mistake
// in the other fields is found, and told at their place.
var neutral = strings.Repeat("00", 48)

// secrets reads one secret or several of which any is right, and makes their verifier. A secret
// that it refuses is told at its own place.
func (r *reader) secrets(o *object, field, what string,
	construct func([]string) (webhook.Verifier, error),
) webhook.Verifier {
	n := o.get(field)
	if n == nil {
		if o.n != nil && !o.has(field) {
			r.add(o.at(), "`%s` is missing; expected \"${env:NAME}\", or a list of which any is"+
				" right", field)
		}
		return nil
	}
	o.out.put(field, textOut(masked))
	nodes := []*node{n}
	if n.kind == listKind {
		if nodes = n.items; len(nodes) == 0 {
			r.add(n.at, "%s is empty; expected at least one %s", field, what)
		}
	}
	before := len(r.all)
	if _, err := construct([]string{neutral}); err != nil {
		r.add(o.at(), "%s", err)
		return nil
	}
	var list []string
	for _, s := range nodes {
		told := len(r.all)
		text := r.secret(s, field, "a "+what)
		if s.kind == textKind && text != "" && len(r.all) == told {
			if _, err := construct([]string{text}); err != nil {
				r.add(s.at, "%s: %s", field, err)
			}
		}
		list = append(list, text)
	}
	if len(r.all) > before || slices.Contains(list, "") { // one that couldn't be filled in was told
		return nil
	}
	return r.made(n.at, field)(construct(list))
}

// signed reads the map of a provider whose way to sign is fixed. A tolerance is read where there is
// a time stamp.
func (r *reader) signed(o *object, field string, stamped bool,
	construct func(webhook.SignedConfig) (webhook.Verifier, error),
) webhook.Verifier {
	s := o.object(field)
	defer s.close(field)
	var tolerance time.Duration
	if stamped {
		tolerance = s.duration("tolerance", webhook.DefaultTolerance)
	}
	return r.secrets(s, "secret", "secret", func(list []string) (webhook.Verifier, error) {
		return construct(webhook.SignedConfig{Secrets: list, Tolerance: tolerance})
	})
}

func (r *reader) stripe(o *object, field string) webhook.Verifier {
	return r.signed(o, field, true, func(c webhook.SignedConfig) (webhook.Verifier, error) {
		return verifier(webhook.NewStripe(c))
	})
}

func (r *reader) github(o *object, field string) webhook.Verifier {
	return r.signed(o, field, false, func(c webhook.SignedConfig) (webhook.Verifier, error) {
		return verifier(webhook.NewGitHub(c))
	})
}

func (r *reader) shopify(o *object, field string) webhook.Verifier {
	return r.signed(o, field, false, func(c webhook.SignedConfig) (webhook.Verifier, error) {
		return verifier(webhook.NewShopify(c))
	})
}

func (r *reader) slack(o *object, field string) webhook.Verifier {
	return r.signed(o, field, true, func(c webhook.SignedConfig) (webhook.Verifier, error) {
		return verifier(webhook.NewSlack(c))
	})
}

func (r *reader) twilio(o *object, field string) webhook.Verifier {
	return r.signed(o, field, false, func(c webhook.SignedConfig) (webhook.Verifier, error) {
		return verifier(webhook.NewTwilio(c))
	})
}

func (r *reader) adyen(o *object, field string) webhook.Verifier {
	return r.signed(o, field, false, func(c webhook.SignedConfig) (webhook.Verifier, error) {
		return verifier(webhook.NewAdyen(c))
	})
}

func (r *reader) standard(o *object, field string) webhook.Verifier {
	s := o.object(field)
	defer s.close(field)
	c := webhook.StandardConfig{
		Tolerance:    s.duration("tolerance", webhook.DefaultTolerance),
		HeaderPrefix: s.choice("header_prefix", "webhook", "webhook", "svix"),
	}
	return r.secrets(s, "secret", "secret", func(list []string) (webhook.Verifier, error) {
		c.Secrets = list
		return verifier(webhook.NewStandard(c))
	})
}

// hmac reads how a sender signs whose way has no name.
func (r *reader) hmac(o *object, field string) webhook.Verifier {
	h := o.object(field)
	defer h.close(field)
	before := len(r.all)
	c := webhook.HMACConfig{
		Header:         r.headerField(h, "header"),
		Algorithm:      h.choice("algorithm", "sha256", "sha1", "sha256", "sha384", "sha512"),
		Encoding:       h.choice("encoding", "hex", "hex", "base64", "base64url"),
		SecretEncoding: h.choice("key_encoding", "text", "text", "hex", "base64"),
		Signed:         h.text("signed", "{body}", "a text such as \"{timestamp}.{body}\""),
		SignOver:       h.choice("sign_over", "wire", "wire", "decoded"),
	}
	const blank = "a text, or no such line"
	c.Prefix = h.text("prefix", "", blank)
	c.Field = h.text("field", "", "the name of the signature in the header")
	c.Separator = h.text("separator", "", blank)
	if h.n != nil && !h.has("header") {
		r.add(h.at(), "`header` is missing; expected the name of the header with the signature")
	}
	if t := h.optional("timestamp"); t != nil {
		c.TimestampHeader = r.headerField(t, "header")
		c.TimestampField = t.text("field", "", "the name of the time stamp in the header")
		c.TimestampFormat = t.choice("format", "seconds", "seconds", "milliseconds", "rfc3339")
		c.Tolerance = t.duration("tolerance", webhook.DefaultTolerance)
		if t.n != nil && t.has("header") == t.has("field") {
			r.add(t.at(), "timestamp has one of `header` and `field`, which is in the signature's"+
				" header")
		}
		t.close("timestamp")
	}
	if len(r.all) > before {
		h.get("secret")
		return nil
	}
	return r.secrets(h, "secret", "secret", func(list []string) (webhook.Verifier, error) {
		c.Secrets = list
		return verifier(webhook.NewHMAC(c))
	})
}

// headerField reads the name of a header.
func (r *reader) headerField(o *object, field string) string {
	n := o.textNode(field, "the name of a header")
	if n == nil {
		return ""
	}
	o.out.put(field, nodeOut(n))
	if n.text == "" {
		r.add(n.at, "%s is empty; expected the name of a header", field)
		return ""
	}
	if !r.headerName(n, field) {
		return ""
	}
	return n.text
}

// paypal reads with which keys PayPal signs. They are no secrets.
func (r *reader) paypal(o *object, field string) webhook.Verifier {
	p := o.object(field)
	defer p.close(field)
	before := len(r.all)
	c := webhook.PayPalConfig{
		WebhookID: p.text("webhook_id", "", "the id that PayPal gave the webhook"),
		Tolerance: p.duration("tolerance", webhook.PayPalTolerance),
	}
	nodes := p.texts("certificate", "certificates in PEM, such as \"${file:paypal.pem}\"")
	for _, name := range []string{"webhook_id", "certificate"} {
		if p.n != nil && !p.has(name) {
			r.add(p.at(), "`%s` is missing; expected {webhook_id: …, certificate:"+
				" \"${file:paypal.pem}\"}", name)
		}
	}
	for _, n := range nodes {
		if n.kind != textKind || len(r.all) > before {
			continue
		}
		one := c
		one.Certificates = []string{n.text}
		if _, err := webhook.NewPayPal(one); err != nil {
			r.add(n.at, "certificate: %s", err)
		}
		c.Certificates = append(c.Certificates, n.text)
	}
	if p.n == nil || len(r.all) > before {
		return nil
	}
	return r.made(p.at(), field)(verifier(webhook.NewPayPal(c)))
}
