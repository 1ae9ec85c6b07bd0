package server_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once/inbox"
)

// webhookSources has a source for each preset of a provider. The requests are in testdata/webhooks,
// as the providers write and sign them; a tolerance of years keeps their time stamps right.
const webhookSources = `
sources:
  stripe:
    preset: stripe
    auth: {stripe: {secret: whsec_0123456789abcdef0123456789abcdef, tolerance: 3650d}}
    to: {handler: h}
  github:
    preset: github
    auth: {github: {secret: 0123456789abcdef0123456789abcdef}}
    to: {handler: h}
  shopify:
    preset: shopify
    auth: {shopify: {secret: 0123456789abcdef0123456789abcdef}}
    to: {handler: h}
  slack:
    preset: slack
    auth: {slack: {secret: 0123456789abcdef0123456789abcdef, tolerance: 3650d}}
    to: {handler: h}
  twilio:
    preset: twilio
    public_url: https://hooks.example.org
    auth: {twilio: {secret: 0123456789abcdef0123456789abcdef}}
    to: {handler: h}
  adyen:
    preset: adyen
    auth:
      basic: {username: adyen, password: a-long-password}
      adyen: {secret: 44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056}
    to: {handler: h}
  standard:
    preset: standard-webhooks
    auth: {standard_webhooks: {secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw, tolerance: 3650d}}
    to: {handler: h}
  paypal:
    preset: paypal
    auth: {paypal: {webhook_id: 1JE4291016473214C, certificate: CERTIFICATE, tolerance: 3650d}}
    to: {handler: h}
  partner:
    preset: paypal
    auth:
      hmac:
        secret: 0123456789abcdef0123456789abcdef
        header: PAYPAL-TRANSMISSION-SIG
        encoding: base64
        timestamp: {header: PAYPAL-TRANSMISSION-TIME, format: rfc3339, tolerance: 3650d}
        signed: "{header:PAYPAL-TRANSMISSION-ID}|{timestamp}|1JE4291016473214C|{crc32}"
    to: {handler: h}
`

// webhooks is the file with PayPal's certificate in it.
func webhooks(t *testing.T) string {
	t.Helper()
	pem, err := os.ReadFile(filepath.Join("testdata", "webhooks", "paypal.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return edit(t, webhookSources, "CERTIFICATE", strconv.Quote(string(pem)))
}

// golden is a request as it was recorded, with a change.
func golden(t *testing.T, name string, edits ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "webhooks", name+".http"))
	if err != nil {
		t.Fatal(err)
	}
	return []byte(edit(t, string(b), edits...))
}

// wire sends bytes to the senders' listener and reads the answer.
func (s *service) wire(request []byte) answer {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := conn.Write(request); err != nil {
		s.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(b)}
}

func TestWebhooks_GoldenRequestsGetTheRepliesThatTheirProvidersWant(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), webhooks(t), handles(inbox.WorkFunc(accept)))
	const twiml = "<Response></Response>"
	for _, tt := range []struct {
		request string
		status  int
		kind    string // content type
		body    string
	}{
		{"stripe", 200, "", ""},
		{"stripe", 200, "", ""}, // the same again
		{"stripe.again", 200, "", ""},
		{"github", 202, "", ""},
		{"github", 202, "", ""},
		{"github.ping", 200, "application/json", `{"zen":"Keep it logically awesome."}`},
		{"shopify", 200, "", ""},
		{"shopify", 200, "", ""},
		{"slack.challenge", 200, "text/plain",
			"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"},
		{"slack.retry", 200, "", ""}, // the first try never came
		{"slack", 200, "", ""},
		{"slack.limited", 200, "", ""},
		{"twilio", 200, "text/xml", twiml},
		{"twilio.delivered", 200, "text/xml", twiml},
		{"twilio", 200, "text/xml", twiml}, // sent, again
		{"twilio.incoming", 200, "text/xml", twiml},
		{"twilio.call", 200, "text/xml", twiml},
		{"adyen", 200, "text/plain; charset=utf-8", "[accepted]"},
		{"adyen.more", 200, "text/plain; charset=utf-8", "[accepted]"},
		{"adyen", 200, "text/plain; charset=utf-8", "[accepted]"},
		{"standard-webhooks", 204, "", ""},
		{"standard-webhooks", 204, "", ""},
		{"paypal", 200, "", ""},
		{"paypal", 200, "", ""},
		{"paypal.partner", 200, "", ""},
	} {
		a := s.wire(golden(t, tt.request))
		if a.status != tt.status || a.body != tt.body || a.header.Get("Content-Type") != tt.kind {
			t.Errorf("%s: %d %q %q; want %d %q %q", tt.request, a.status,
				a.header.Get("Content-Type"), a.body, tt.status, tt.kind, tt.body)
		}
	}
	for source, want := range map[string][]string{
		"stripe":  {"customer.created evt_1MqqbKLt4dXK03v5qaIbiNCC"},
		"github":  {"push 72d3162e-cc78-11e3-81ab-4c9367dc0958"},
		"shopify": {"orders/create example.myshopify.com b54557e4-bdd9-4b37-8a5f-bf7d70bcd043"},
		"slack": {"app_mention Ev123ABC456",
			"app_rate_limited app_rate_limited T123456 1518467820"},
		"twilio": {"call.completed CA1234567890ABCDE completed",
			"message.delivered SM1f0e8ae6ade43cb3c0ce4525424e404f delivered",
			"message.received SM1f0e8ae6ade43cb3c0ce4525424e404f received",
			"message.sent SM1f0e8ae6ade43cb3c0ce4525424e404f sent"},
		"adyen": {"AUTHORISATION 7914073381342284 AUTHORISATION true",
			"CAPTURE 8814073381342285 CAPTURE false", "CAPTURE 8814073381342285 CAPTURE true"},
		"standard": {"contact.created msg_p5jXN8AQM9LWM0D4loKWxJek"},
		"partner":  {"PAYMENT.CAPTURE.COMPLETED WH-2WR32451HC0233532-67976317FL4543714"},
		"paypal":   {"PAYMENT.CAPTURE.COMPLETED WH-2WR32451HC0233532-67976317FL4543714"},
	} {
		var got []string
		for _, c := range s.callbacks("source=" + source) {
			got = append(got, c.Event+" "+strings.Join(c.Key, " "))
			if c.Conflicts != 0 {
				t.Errorf("%s: %s has %d conflicts", source, c.ID, c.Conflicts)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", source, got, want)
		}
	}
}

// A right signature over other bytes, and one that is wrong or not there: nothing is stored, and
// store trouble is never told as a wrong signature, nor the other way round.
func TestI19_AWebhookThatIsNotRightIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), webhooks(t), handles(inbox.WorkFunc(accept)))
	for _, tt := range []struct{ request, old, with, reason string }{
		{"stripe", "cus_", "cuz_", "the signature in Stripe-Signature is not valid"},
		{"stripe", "Stripe-Signature", "Stripe-Signatur", "no Stripe-Signature header"},
		{"stripe", "t=1796000000", "t=1796000001",
			"the signature in Stripe-Signature is not valid"},
		{"stripe", "t=1796000000", "t=1400000000", "in the past"},
		{"github", "octo", "otco", "the signature in X-Hub-Signature-256 is not valid"},
		{"github", "X-Hub-Signature-256: sha256=", "X-Hub-Signature-256: sha1=",
			"does not begin with sha256="},
		{"github", "X-Hub-Signature: sha1=", "X-Hub-Signature-256: sha1=", "is given 2 times"},
		{"shopify", "398.00", "398.01", "the signature in X-Shopify-Hmac-Sha256 is not valid"},
		{"slack", "\"hi\"", "\"ho\"", "the signature in X-Slack-Signature is not valid"},
		{"slack", "Timestamp: 1796000000", "Timestamp: now", "is not one in seconds"},
		{"slack.challenge", "3eZb", "4eZb", "the signature in X-Slack-Signature is not valid"},
		{"twilio", "site=1", "site=2", "is not valid for this URL and body"},
		{"twilio", "MessageStatus=sent", "MessageStatus=read",
			"is not valid for this URL and body"},
		{"adyen", `"CAPTURE"`, `"REFUND_"`, "the signature of item 1 is not valid"},
		{"adyen", "Authorization: Basic YWR5", "Authorization: Basic YWR6", "user name"},
		{"standard-webhooks", "webhook-id: msg_p5", "webhook-id: msg_p6", "is not valid"},
		{"paypal", "PAYPAL-TRANSMISSION-ID: 69", "PAYPAL-TRANSMISSION-ID: 68",
			"is not valid under any of the certificates"},
		{"paypal", "COMPLETED\"}}", "COMPLETEE\"}}", "is not valid under any of the certificates"},
		{"paypal.partner", "PAYPAL-TRANSMISSION-ID: 69", "PAYPAL-TRANSMISSION-ID: 68",
			"the signature in Paypal-Transmission-Sig is not valid"},
	} {
		a := s.wire(golden(t, tt.request, tt.old, tt.with))
		if a.status != http.StatusUnauthorized || !strings.Contains(a.body, tt.reason) {
			t.Errorf("%s, %s: %d %s; want 401 and %q", tt.request, tt.with, a.status, a.body,
				tt.reason)
		}
	}
	if n := len(s.callbacks("")); n != 0 {
		t.Errorf("%d callbacks", n)
	}
	a := s.wire(bytes.Replace(golden(t, "adyen"), []byte(`Basic YWR5`), []byte(`Basic YWR6`), 1))
	if got := a.header.Get("WWW-Authenticate"); got != `Basic realm="once", charset="UTF-8"` {
		t.Errorf("the login is asked for with %q", got)
	}
}
