package webhook

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// header makes a header from names and values.
func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// request is one whose body is not encoded.
func request(now time.Time, body string, pairs ...string) *Request {
	return &Request{Method: http.MethodPost, Header: header(pairs...), Raw: []byte(body),
		Content: []byte(body), Now: now}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// wantKind fails unless the error is an *Error of the kind.
func wantKind(t *testing.T, what string, err error, want Kind) {
	t.Helper()
	var e *Error
	if want == 0 && err == nil {
		return
	}
	if !errors.As(err, &e) || e.Kind != want || e.Reason == "" {
		t.Errorf("%s: got %v (%+v), want kind %d", what, err, e, want)
	}
}

// The bytes and the signature that Slack's documentation shows.
const (
	slackSecret = "8f742231b10e8888abcd99yyyzzz85a5"
	slackBody   = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow" +
		"&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner" +
		"&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com" +
		"%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN" +
		"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
	slackSignature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
	slackTime      = 1531420618
)

// A message whose signature was made with
// printf '1492774577.{"id":"evt_1"}' | openssl dgst -sha256 -hmac SECRET
const (
	stripeSecret    = "whsec_0123456789abcdefghijklmnopqrstuv"
	stripeBody      = `{"id":"evt_1"}`
	stripeTime      = 1492774577
	stripeSignature = "6cdb05e2c4d532c9a58aaaf292aa2872cfc62cfeb32a0db86f1ce50a0f2805bc"
)

// The message that the README of Standard Webhooks' libraries shows.
const (
	standardSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	standardID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	standardTime      = 1614265330
	standardBody      = `{"test": 2432232314}`
	standardSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

// signed is a message that is right for its verifier, and the header that has its signature.
type signed struct {
	verifier Verifier
	request  func() *Request
	header   string
}

func signedMessages() map[string]signed {
	return map[string]signed{
		"slack": {must(NewSlack(SignedConfig{Secrets: []string{slackSecret}})),
			func() *Request {
				return request(time.Unix(slackTime, 0), slackBody,
					"X-Slack-Signature", slackSignature,
					"X-Slack-Request-Timestamp", strconv.Itoa(slackTime))
			}, "X-Slack-Signature"},
		"stripe": {must(NewStripe(SignedConfig{Secrets: []string{stripeSecret}})),
			func() *Request {
				return request(time.Unix(stripeTime, 0), stripeBody, "Stripe-Signature",
					"t=1492774577,v1="+stripeSignature+",v0=00")
			}, "Stripe-Signature"},
		"standard": {must(NewStandard(StandardConfig{Secrets: []string{standardSecret}})),
			func() *Request {
				return request(time.Unix(standardTime, 0), standardBody, "webhook-id", standardID,
					"webhook-timestamp", strconv.Itoa(standardTime),
					"webhook-signature", standardSignature)
			}, "Webhook-Signature"},
		// https://docs.github.com/webhooks, "Testing the webhook payload validation"
		"github": {must(NewGitHub(SignedConfig{Secrets: []string{"It's a Secret to Everybody"}})),
			func() *Request {
				return request(time.Time{}, "Hello, World!", "X-Hub-Signature-256", "sha256="+
					"757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
			}, "X-Hub-Signature-256"},
		// openssl dgst -sha256 -hmac shpss_0123456789abcdef0123456789 -binary | base64
		"shopify": {
			must(NewShopify(SignedConfig{Secrets: []string{"shpss_0123456789abcdef0123456789"}})),
			func() *Request {
				return request(time.Time{}, `{"id":820982911946154508}`, "X-Shopify-Hmac-Sha256",
					"qqfwflME38OT3YDA0RuUL1jm2LMNIPu4l9+VsnpHyto=")
			}, "X-Shopify-Hmac-Sha256"},
		// The vector of github.com/bold-commerce/go-shopify, its secret shorter than ours may be.
		"shopify, short": {must(newHMAC(HMACConfig{Secrets: []string{"hush"}, Encoding: "base64",
			Header: "X-Shopify-Hmac-Sha256"}, 4)),
			func() *Request {
				return request(time.Time{}, `"my secret message"`, "X-Shopify-Hmac-Sha256",
					"hMTq0K2x7oyOjoBwGYeTj5oxfnaVYXzbanUG9aajpKI=")
			}, "X-Shopify-Hmac-Sha256"},
		// RFC 4231, test case 1: the key is 20 times 0x0b, the data "Hi There"
		"hmac": {must(NewHMAC(HMACConfig{Secrets: []string{strings.Repeat("0b", 20)},
			SecretEncoding: "hex", Algorithm: "sha384", Header: "x-sig", Prefix: "sha384:"})),
			func() *Request {
				return request(time.Time{}, "Hi There", "X-Sig", "sha384:"+
					"afd03944d84895626b0825f4ab46907f15f9dadbe4101ec682aa034c7cebc59c"+
					"faea9ea9076ede7f4af152e8b2fa9cb6")
			}, "X-Sig"},
		// The vectors of Twilio's libraries, whose token is shorter than ours may be.
		"twilio": {must(newTwilio([]string{"12345"}, 5)),
			func() *Request {
				r := request(time.Time{}, "Digits=1234&CallSid=CA1234567890ABCDE"+
					"&To=%2B18005551212&Caller=%2B14158675309&From=%2B14158675309",
					"X-Twilio-Signature", "RSOYDt4T1cUTdK1PDd93/VVr8B8=")
				r.URL = "https://mycompany.com/myapp.php?foo=1&bar=2"
				return r
			}, "X-Twilio-Signature"},
		"twilio json": {must(newTwilio([]string{"12345"}, 5)),
			func() *Request {
				r := request(time.Time{}, `{"property": "value", "boolean": true}`,
					"X-Twilio-Signature", "a9nBmqA0ju/hNViExpshrM61xv4=")
				r.URL = "https://mycompany.com/myapp.php?foo=1&bar=2&bodySHA256=" +
					"0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620"
				return r
			}, "X-Twilio-Signature"},
	}
}

func TestI01_AMessageIsRightAsItCameAndInNoOtherForm(t *testing.T) {
	for name, s := range signedMessages() {
		if err := s.verifier.Verify(s.request()); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for what, change := range map[string]func(*Request){
			"a line break more": func(r *Request) { r.Raw = append(r.Raw, '\n') },
			"a byte less":       func(r *Request) { r.Raw = r.Raw[:len(r.Raw)-1] },
			"another byte":      func(r *Request) { r.Raw[len(r.Raw)/2] ^= 1 },
			"no body":           func(r *Request) { r.Raw = nil },
		} {
			r := s.request()
			change(r)
			wantKind(t, name+", "+what, s.verifier.Verify(r), Mismatch)
		}
	}
}

func TestSignatureHeadersThatAreNotRightAreRefusedWithTheReason(t *testing.T) {
	for name, s := range signedMessages() {
		right := s.request().Header.Get(s.header)
		last := strings.LastIndexAny(right, "0123456789abcdefghijklmnopqrstuvwxyz")
		if i := strings.Index(right, ",v0="); i > 0 {
			last = i - 1
		}
		other := byte('1')
		if right[last] == other {
			other = '2'
		}
		for what, tt := range map[string]struct {
			values []string
			want   []Kind
		}{
			"missing":         {nil, []Kind{Missing}},
			"empty":           {[]string{""}, []Kind{Missing}},
			"blank":           {[]string{"  "}, []Kind{Missing}},
			"doubled":         {[]string{right, right}, []Kind{Doubled}},
			"right and wrong": {[]string{right, "x"}, []Kind{Doubled}},
			"truncated":       {[]string{right[:last-5]}, []Kind{Malformed}},
			"no signature":    {[]string{"x"}, []Kind{Malformed, Missing}},
			"longer":          {[]string{right[:last+1] + "00000000"}, []Kind{Malformed}},
			"very long":       {[]string{right + strings.Repeat("00", 5000)}, []Kind{Malformed}},
			"another": {[]string{right[:last] + string(other) + right[last+1:]},
				[]Kind{Mismatch, Malformed}},
		} {
			if what == "very long" && name == "stripe" {
				continue // it is the v0, which nobody looks at
			}
			r := s.request()
			delete(r.Header, s.header)
			if tt.values != nil {
				r.Header[s.header] = tt.values
			}
			err := s.verifier.Verify(r)
			var e *Error
			if !errors.As(err, &e) {
				t.Errorf("%s, %s: %v", name, what, err)
				continue
			}
			ok := false
			for _, k := range tt.want {
				ok = ok || e.Kind == k
			}
			if !ok {
				t.Errorf("%s, %s: %v (kind %d), want one of %v", name, what, err, e.Kind, tt.want)
			}
			if strings.Contains(e.Reason, right[last-8:last]) {
				t.Errorf("%s, %s: the reason shows a signature: %s", name, what, e.Reason)
			}
		}
	}
}

// A signature that differs in its first byte and one that differs in its last have one reason.
func TestTheReasonDoesNotTellWhichByteWasWrong(t *testing.T) {
	reason := func(sig string) string {
		s := signedMessages()["stripe"]
		r := s.request()
		r.Header.Set("Stripe-Signature", "t=1492774577,v1="+sig)
		err := s.verifier.Verify(r)
		if err == nil {
			t.Fatalf("%s was accepted", sig)
		}
		return err.Error()
	}
	first, last := "7"+stripeSignature[1:], stripeSignature[:63]+"d"
	if a, b, c := reason(first), reason(last), reason(strings.Repeat("0", 64)); a != b || b != c {
		t.Errorf("%q, %q, %q", a, b, c)
	}
}

func TestTimeStampsAreNearEnoughInBothDirections(t *testing.T) {
	for name, at := range map[string]int64{
		"slack": slackTime, "stripe": stripeTime, "standard": standardTime,
	} {
		s := signedMessages()[name]
		for seconds, want := range map[int64]Kind{
			0: 0, 299: 0, 300: 0, 301: Expired, -300: 0, -301: Expired, 86400: Expired,
		} {
			r := s.request()
			r.Now = time.Unix(at+seconds, 0)
			wantKind(t, name+" after "+strconv.FormatInt(seconds, 10), s.verifier.Verify(r), want)
		}
	}
}

func TestTimeStampsThatAreNoneAreRefused(t *testing.T) {
	for text, want := range map[string]Kind{
		"": Missing, "now": Malformed, "1531420618.5": Malformed, "-1531420618": Malformed,
		"+1531420618": Malformed, " 1531420618": Malformed, "0x5b47": Malformed, "1e9": Malformed,
		"99999999999999999999": Malformed, "2018-07-12T18:36:58Z": Malformed,
		"1531420618000": Expired, "0": Expired,
	} {
		s := signedMessages()["slack"]
		r := s.request()
		r.Header.Set("X-Slack-Request-Timestamp", text)
		wantKind(t, "slack "+text, s.verifier.Verify(r), want)
		if text == "" {
			continue
		}
		s = signedMessages()["stripe"]
		r = s.request()
		r.Header.Set("Stripe-Signature", "t="+text+",v1="+stripeSignature)
		wantKind(t, "stripe "+text, s.verifier.Verify(r), want)
	}
	s := signedMessages()["slack"]
	r := s.request()
	r.Header.Add("X-Slack-Request-Timestamp", strconv.Itoa(slackTime))
	wantKind(t, "doubled", s.verifier.Verify(r), Doubled)
	s = signedMessages()["stripe"]
	for value, want := range map[string]Kind{
		"v1=" + stripeSignature:                           Missing,
		"t=1492774577,t=1492774577,v1=" + stripeSignature: Doubled,
		"t=1492774577":                                    Missing,
		"t=1492774577,v0=" + stripeSignature:              Missing,
		"t=1492774577,v1":                                 Malformed,
		"t=1492774577" + strings.Repeat(",v1="+stripeSignature[:2]+"x", 17): Malformed,
		"t=1492774577, v1=" + stripeSignature:                               0,
		"t=1492774577,v1=00,v1=" + stripeSignature:                          0,
		"v1=" + strings.ToUpper(stripeSignature) + ",t=1492774577":          0,
	} {
		r := s.request()
		r.Header.Set("Stripe-Signature", value)
		wantKind(t, value, s.verifier.Verify(r), want)
	}
}

func TestSecretsCanBeExchanged(t *testing.T) {
	s := signedMessages()["stripe"]
	for name, secrets := range map[string][]string{
		"new first": {"whsec_another-one-0123456789", stripeSecret},
		"old first": {stripeSecret, "whsec_another-one-0123456789"},
	} {
		v := must(NewStripe(SignedConfig{Secrets: secrets}))
		wantKind(t, name, v.Verify(s.request()), 0)
	}
	v := must(NewStripe(SignedConfig{Secrets: []string{"whsec_another-one-0123456789"}}))
	wantKind(t, "the old one is gone", v.Verify(s.request()), Mismatch)
	// The sender signs with both while it exchanges them.
	standard := signedMessages()["standard"]
	r := standard.request()
	r.Header.Set("webhook-signature", "v1,"+strings.Repeat("A", 43)+"= v1a,xyz "+standardSignature)
	wantKind(t, "two signatures", standard.verifier.Verify(r), 0)
	r.Header.Set("webhook-signature", "v2,"+strings.TrimPrefix(standardSignature, "v1,"))
	wantKind(t, "another version", standard.verifier.Verify(r), Malformed)
}
