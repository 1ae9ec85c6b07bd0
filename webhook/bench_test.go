package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkStripe verifies 1 KiB, the slowest kind that is a description: a list with a time stamp.
func BenchmarkStripe(b *testing.B) {
	body, now := strings.Repeat("x", 1<<10), time.Unix(stripeTime, 0)
	m := hmac.New(sha256.New, []byte(stripeSecret))
	m.Write([]byte(strconv.Itoa(stripeTime) + "." + body))
	r := request(now, body, "Stripe-Signature",
		"t="+strconv.Itoa(stripeTime)+",v1="+hex.EncodeToString(m.Sum(nil)))
	v := must(NewStripe(SignedConfig{Secrets: []string{stripeSecret}}))
	b.ReportAllocs()
	for b.Loop() {
		if err := v.Verify(r); err != nil {
			b.Fatal(err)
		}
	}
}

func TestVerifyingCostsFewAllocations(t *testing.T) {
	for name, s := range signedMessages() {
		limit := 12.0
		if strings.HasPrefix(name, "twilio") {
			limit = 40 // its form is decoded and sorted
		}
		r := s.request()
		if n := testing.AllocsPerRun(100, func() {
			if err := s.verifier.Verify(r); err != nil {
				t.Fatal(err)
			}
		}); n > limit {
			t.Errorf("%s: %.0f allocations, at most %.0f", name, n, limit)
		}
	}
}
