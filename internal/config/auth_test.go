package config

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/oncekit/once/inbox"
)

// withAuth is a source with what proves its senders.
func withAuth(t *testing.T, auth string, env Env) *Config {
	t.Helper()
	return mustParse(t, `tls: {cert: c.pem, key: k.pem, client_ca: ca.pem}
proxies: [10.0.0.0/8, "::1", 192.0.2.7]
sources:
  s:
    key: ["body.id"]
    public_url: https://example.org/hooks/
    auth: `+auth+`
    to: {handler: h}
`, env)
}

// signedMessage has a body, headers, and an address.
func signedMessage(body string, header ...string) *inbox.Message {
	m := &inbox.Message{Method: http.MethodPost, Path: "/in/s", Raw: []byte(body),
		Header: http.Header{}, Peer: "192.0.2.1:99"}
	for i := 0; i < len(header); i += 2 {
		m.Header.Add(header[i], header[i+1])
	}
	return m
}

// The signatures were made with openssl dgst -sha256 -hmac. A tolerance of years keeps them right.
func TestAuth_EachWayIsReadAsItIsWritten(t *testing.T) {
	const (
		body   = `{"id":"evt_1"}`
		key    = "whsec_0123456789abcdefghijklmnopqrstuv"
		digest = "0ef3313226f9f953dec63264cc2d515f492fc9dd06cad19276d7b092699e36a5"
		basic  = "Basic dGVzdDpzM2NyZXQ=" // test:s3cret
	)
	stripe := signedMessage(body, "Stripe-Signature", "t=1796000000,v1="+digest)
	split := signedMessage(body, "X-Time", "1796000000", "X-Sig", "sig "+digest)
	listed := signedMessage(body, "X-Sig", "ts=1796000000;h1="+digest)
	env := vars(map[string]string{"KEY": key})
	for auth, messages := range map[string]map[*inbox.Message]bool{
		`{stripe: {secret: "${env:KEY}", tolerance: 3650d}}`:                        {stripe: true, split: false},
		`{stripe: {secret: [another-secret-0123, "${env:KEY}"], tolerance: 3650d}}`: {stripe: true},
		`{stripe: {secret: "${env:KEY}"}}`:                                          {stripe: false},
		`{stripe: {secret: another-secret-0123, tolerance: 3650d}}`:                 {stripe: false},
		`{hmac: {secret: "${env:KEY}", header: x-sig, prefix: "sig ", signed: "{timestamp}.{body}",` +
			` timestamp: {header: x-time, tolerance: 3650d}}}`: {split: true, stripe: false},
		`{hmac: {secret: "${env:KEY}", header: x-sig, field: h1, separator: ";",` +
			` signed: "{timestamp}.{body}", timestamp: {field: ts, tolerance: 3650d}}}`: {listed: true},
		`{basic: {username: test, password: [other, s3cret]}}`: {
			signedMessage("", "Authorization", basic): true, stripe: false},
		`{basic: {username: test, password: other}}`: {
			signedMessage("", "Authorization", basic): false},
		`{ips: [192.0.2.0/24]}`: {stripe: true},
		`{ips: 192.0.2.2}`:      {stripe: false},
		`{ips: [192.0.2.0/24], stripe: {secret: "${env:KEY}", tolerance: 3650d}}`: {
			stripe: true, split: false},
		`{ips: [192.0.3.0/24], stripe: {secret: "${env:KEY}", tolerance: 3650d}}`: {stripe: false},
		`{any_of: [{ips: [192.0.3.0/24]}, {stripe: {secret: "${env:KEY}", tolerance: 3650d}}]}`: {
			stripe: true, split: false},
		`{client_names: rcs-1}`: {stripe: false},
	} {
		v := withAuth(t, auth, env).Sources[0].Verifier
		for m, want := range messages {
			if err := v.Verify(t.Context(), m); (err == nil) != want {
				t.Errorf("%s, %v: %v", auth, m.Header, err)
			}
		}
	}
}

func TestAuth_EveryProviderHasItsName(t *testing.T) {
	for auth, header := range map[string]string{
		`{github: {secret: 0123456789abcdef}}`:                                   "X-Hub-Signature-256",
		`{shopify: {secret: 0123456789abcdef}}`:                                  "X-Shopify-Hmac-Sha256",
		`{slack: {secret: 0123456789abcdef, tolerance: 1m}}`:                     "X-Slack-Signature",
		`{twilio: {secret: 0123456789abcdef}}`:                                   "X-Twilio-Signature",
		`{adyen: {secret: ` + strings.Repeat("0a", 32) + `}}`:                    "notificationItems",
		`{standard_webhooks: {secret: whsec_` + strings.Repeat("QUFB", 8) + `}}`: "Webhook-Signature",
		`{standard_webhooks: {secret: ` + strings.Repeat("QUFB", 8) + `, header_prefix: svix}}`: "" +
			"Svix-Signature",
	} {
		err := withAuth(t, auth, Env{}).Sources[0].Verifier.Verify(t.Context(), signedMessage(`{}`))
		if err == nil || !strings.Contains(err.Error(), "no "+header) {
			t.Errorf("%s: %v, want %s", auth, err, header)
		}
	}
}

func TestAuth_NoneLetsEverybodySend(t *testing.T) {
	c := withAuth(t, "none", Env{})
	if c.Sources[0].Verifier != nil {
		t.Errorf("a verifier: %v", c.Sources[0].Verifier)
	}
	if out := printed(t, c); !strings.Contains(out, "auth: none\n") {
		t.Errorf("printed:\n%s", out)
	}
}

func TestAuth_SecretsAreNotPrinted(t *testing.T) {
	out := printed(t, withAuth(t, `{any_of: [{twilio: {secret: S3CRET-0123456789}},`+
		` {hmac: {secret: [S3CRET-0123456789], header: X-Sig, timestamp: {header: X-T},`+
		` signed: "{timestamp}{body}"}}, {basic: {username: u, password: S3CRET}}]}`, Env{}))
	for _, want := range []string{`public_url: "https://example.org/hooks/"`, `algorithm: sha256`,
		`sign_over: wire`, `tolerance: 5m`, `secret: "***"`, `password: "***"`,
		`client_ca: "/plant/ca.pem"`, `proxies: [`} {
		if !strings.Contains(out, want) {
			t.Errorf("not printed: %s", want)
		}
	}
	if strings.Contains(out, "S3CRET") {
		t.Errorf("a secret was printed:\n%s", out)
	}
}

func TestProxiesAndPublicURL(t *testing.T) {
	c := withAuth(t, "none", Env{})
	want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128"),
		netip.MustParsePrefix("192.0.2.7/32")}
	if !slices.Equal(c.Proxies, want) || c.Sources[0].PublicURL != "https://example.org/hooks/" {
		t.Errorf("%v %s", c.Proxies, c.Sources[0].PublicURL)
	}
	if c.TLS == nil || *c.TLS != (TLS{"/plant/c.pem", "/plant/k.pem", "/plant/ca.pem"}) {
		t.Errorf("%+v", c.TLS)
	}
	if c := mustParse(t, minimal, Env{}); c.TLS != nil || c.Proxies != nil {
		t.Errorf("by default %+v %v", c.TLS, c.Proxies)
	}
}
