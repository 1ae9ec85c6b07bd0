package webhook

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// Whatever a header says: no panic, an *Error with a reason, and never an acceptance, since nobody
// finds the signature of another text.
func FuzzHeaders(f *testing.F) {
	for _, s := range []string{"", "t=1492774577,v1=" + stripeSignature[:10], "v0=", "sha256=",
		"t=,v1=", ",,,", "v1, v1,", standardSignature[:20], "\xff", "t=1492774577,v1=%"} {
		f.Add(s, "1492774577", "body")
	}
	messages := signedMessages()
	f.Fuzz(func(t *testing.T, value, stamp, body string) {
		for name, s := range messages {
			r := s.request()
			r.Raw = append(r.Raw, body...)
			r.Raw = append(r.Raw, '!') // not what was signed
			r.Header[s.header] = []string{value}
			for _, h := range []string{"X-Slack-Request-Timestamp", "Webhook-Timestamp"} {
				if r.Header[h] != nil {
					r.Header[h] = []string{stamp}
				}
			}
			err := s.verifier.Verify(r)
			var e *Error
			if !errors.As(err, &e) || e.Kind == 0 || e.Reason == "" {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func FuzzAdyenBody(f *testing.F) {
	f.Add(`{"notificationItems":[` + adyenItem + `]}`)
	f.Add(`{"notificationItems":[{"NotificationRequestItem":{"additionalData":1}}]}`)
	f.Add(strings.Repeat("[", 40))
	v := must(NewAdyen(SignedConfig{Secrets: []string{adyenKey}}))
	f.Fuzz(func(t *testing.T, body string) {
		err := v.Verify(request(time.Time{}, body))
		if err == nil && !strings.Contains(body, adyenSignature[:8]) && !strings.Contains(body, `\`) {
			t.Errorf("accepted without the signature: %s", body)
		}
	})
}

func FuzzSignedTemplate(f *testing.F) {
	f.Add("v0:{timestamp}:{body}")
	f.Add("{{{header:a}{")
	f.Fuzz(func(t *testing.T, text string) {
		ps, err := parseParts(text)
		if err == nil && !strings.Contains(text, "{") && len(ps) > 1 {
			t.Errorf("%q has %d parts", text, len(ps))
		}
	})
}

func FuzzTimestamps(f *testing.F) {
	for _, s := range []string{"", "0", "1492774577", "2016-02-18T20:01:35Z", "-1", "١"} {
		f.Add(s)
	}
	now := time.Unix(stripeTime, 0)
	f.Fuzz(func(t *testing.T, text string) {
		for _, format := range []string{"seconds", "milliseconds", "rfc3339"} {
			c := must(newClock(format, 0))
			at, ok := c.parse(text)
			near := ok && at.After(now.Add(-301*time.Second)) && at.Before(now.Add(301*time.Second))
			if err := c.judge("X", text, now); err == nil && !near {
				t.Errorf("%s: %q is taken for %s", format, text, at)
			}
		}
	})
}
