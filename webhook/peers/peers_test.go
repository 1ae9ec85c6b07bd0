package peers_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-github/v74/github"
	"github.com/slack-go/slack"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	stripe "github.com/stripe/stripe-go/v82/webhook"
	twilio "github.com/twilio/twilio-go/client"

	"github.com/oncekit/once/webhook"
)

const secret = "0123456789abcdef0123456789abcdef"

// bodies are what is signed: JSON with odd blanks, nothing at all, bytes that are no text.
func bodies() []string {
	list := []string{`{"amount": 100 }` + "\n", "", "\x00\xff\r\n", `{"ü":"\u00fc"}`,
		strings.Repeat("x", 100_000)}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		b := make([]byte, r.IntN(300))
		for i := range b {
			b[i] = byte(r.IntN(256))
		}
		list = append(list, string(b))
	}
	return list
}

// changes are what happens to a request on its way: nothing, and what has to be noticed.
func changes() map[string]func(*webhook.Request, string) {
	set := func(r *webhook.Request, name string, f func(string) string) {
		r.Header.Set(name, f(r.Header.Get(name)))
	}
	return map[string]func(*webhook.Request, string){
		"nothing":      func(*webhook.Request, string) {},
		"another body": func(r *webhook.Request, _ string) { r.Raw = append(r.Raw, ' ') },
		"no signature": func(r *webhook.Request, name string) { r.Header.Del(name) },
		"a cut signature": func(r *webhook.Request, name string) {
			set(r, name, func(s string) string { return s[:len(s)-2] })
		},
		"another signature": func(r *webhook.Request, name string) {
			set(r, name, func(s string) string {
				i := strings.LastIndexAny(s[:len(s)-3], "0123456789abcdef")
				return s[:i] + string("123456789abcdef0"[strings.IndexByte("0123456789abcdef", s[i])]) +
					s[i+1:]
			})
		},
	}
}

// agree holds the verdict of ours against that of the peer on each change of a right request.
func agree(t *testing.T, v webhook.Verifier, header string, right func(body string) *webhook.Request,
	peer func(*webhook.Request) bool,
) {
	t.Helper()
	for _, body := range bodies() {
		for name, change := range changes() {
			r := right(body)
			change(r, header)
			ours, theirs := v.Verify(r), peer(r)
			if (ours == nil) != theirs || theirs != (name == "nothing") {
				t.Errorf("%s of %.40q: ours %v, theirs %t", name, body, ours, theirs)
			}
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func request(body string, header ...string) *webhook.Request {
	r := &webhook.Request{Method: http.MethodPost, Header: http.Header{}, Raw: []byte(body),
		Now: time.Now()}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func sum256(text string) []byte {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(text))
	return m.Sum(nil)
}

func TestStripe(t *testing.T) {
	v := must(webhook.NewStripe(webhook.SignedConfig{Secrets: []string{secret}}))
	sign := func(body string, at time.Time) string {
		return stripe.GenerateTestSignedPayload(&stripe.UnsignedPayload{
			Payload: []byte(body), Secret: secret, Timestamp: at}).Header
	}
	agree(t, v, "Stripe-Signature", func(body string) *webhook.Request {
		return request(body, "Stripe-Signature", sign(body, time.Now()))
	}, func(r *webhook.Request) bool {
		return stripe.ValidatePayload(r.Raw, r.Header.Get("Stripe-Signature"), secret) == nil
	})
	if v.Verify(request("x", "Stripe-Signature", sign("x", time.Now().Add(-302*time.Second)))) == nil {
		t.Error("an old one was accepted")
	}
	if v.Verify(request("x", "Stripe-Signature", sign("x", time.Now().Add(302*time.Second)))) == nil {
		t.Error("one of the future was accepted")
	}
}

func TestStandardWebhooks(t *testing.T) {
	const key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	v := must(webhook.NewStandard(webhook.StandardConfig{Secrets: []string{key}}))
	theirs := must(standardwebhooks.NewWebhook(key))
	signed := func(body string, at time.Time) *webhook.Request {
		return request(body, "webhook-id", "msg_1", "webhook-timestamp",
			strconv.FormatInt(at.Unix(), 10), "webhook-signature",
			must(theirs.Sign("msg_1", at, []byte(body))))
	}
	agree(t, v, "webhook-signature", func(body string) *webhook.Request {
		return signed(body, time.Now())
	}, func(r *webhook.Request) bool { return theirs.Verify(r.Raw, r.Header) == nil })
	for _, past := range []time.Duration{302 * time.Second, -302 * time.Second} {
		r := signed("x", time.Now().Add(-past))
		if v.Verify(r) == nil || theirs.Verify(r.Raw, r.Header) == nil {
			t.Errorf("%s ago was accepted", past)
		}
	}
}

// GitHub's library only verifies; the text to sign is the body.
func TestGitHub(t *testing.T) {
	v := must(webhook.NewGitHub(webhook.SignedConfig{Secrets: []string{secret}}))
	agree(t, v, "X-Hub-Signature-256", func(body string) *webhook.Request {
		return request(body, "X-Hub-Signature-256", "sha256="+hex.EncodeToString(sum256(body)))
	}, func(r *webhook.Request) bool {
		return github.ValidateSignature(r.Header.Get("X-Hub-Signature-256"), r.Raw,
			[]byte(secret)) == nil
	})
}

func TestSlack(t *testing.T) {
	v := must(webhook.NewSlack(webhook.SignedConfig{Secrets: []string{secret}}))
	theirs := func(r *webhook.Request) bool {
		sv, err := slack.NewSecretsVerifier(r.Header, secret)
		if err != nil {
			return false
		}
		if _, err := sv.Write(r.Raw); err != nil {
			return false
		}
		return sv.Ensure() == nil
	}
	signed := func(body string, at time.Time) *webhook.Request {
		stamp := strconv.FormatInt(at.Unix(), 10)
		return request(body, "X-Slack-Request-Timestamp", stamp, "X-Slack-Signature",
			"v0="+hex.EncodeToString(sum256("v0:"+stamp+":"+body)))
	}
	agree(t, v, "X-Slack-Signature", func(body string) *webhook.Request {
		return signed(body, time.Now())
	}, theirs)
	if r := signed("x", time.Now().Add(-302*time.Second)); v.Verify(r) == nil || theirs(r) {
		t.Error("an old one was accepted")
	}
}

// twilioSign makes Twilio's signature: the URL, then the parameters, sorted.
func twilioSign(text string) string {
	m := hmac.New(sha1.New, []byte(secret))
	m.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(m.Sum(nil))
}

func TestTwilio(t *testing.T) {
	v := must(webhook.NewTwilio(webhook.SignedConfig{Secrets: []string{secret}}))
	theirs := twilio.NewRequestValidator(secret)
	params := map[string]string{"From": "+15017122661", "Body": "Grüße & so: 1+1=2", "A": "",
		"MessageSid": "SM1", "MessageStatus": "sent"}
	form := url.Values{}
	var sorted []string
	for name, value := range params {
		form.Set(name, value)
		sorted = append(sorted, name+value)
	}
	slices.Sort(sorted)
	for _, signedURL := range []string{"https://h/t?b=2&a=1", "https://h:443/t", "https://h:8443/t",
		"http://h/t", "http://h:80/t", "https://h/t?x=%20y"} {
		for _, seenURL := range []string{signedURL, "https://h/t?b=2&a=1", "https://h/t",
			"http://h:8080/t", "https://h/t?a=1&b=2"} {
			r := request(form.Encode(), "X-Twilio-Signature",
				twilioSign(signedURL+strings.Join(sorted, "")))
			r.URL = seenURL
			ours := v.Verify(r)
			if want := theirs.Validate(seenURL, params, r.Header.Get("X-Twilio-Signature")); want !=
				(ours == nil) {
				t.Errorf("%s as %s: ours %v, theirs %t", signedURL, seenURL, ours, want)
			}
		}
	}
	for _, body := range bodies() {
		u := fmt.Sprintf("https://h/t?a=1&bodySHA256=%x", sha256.Sum256([]byte(body)))
		for name, change := range changes() {
			r := request(body, "X-Twilio-Signature", twilioSign(u))
			r.URL = u
			change(r, "X-Twilio-Signature")
			ours := v.Verify(r)
			want := theirs.ValidateBody(u, r.Raw, r.Header.Get("X-Twilio-Signature"))
			if want != (ours == nil) || want != (name == "nothing") {
				t.Errorf("%s of %.40q: ours %v, theirs %t", name, body, ours, want)
			}
		}
	}
}
