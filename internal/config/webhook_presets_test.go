package config

import (
	"strings"
	"testing"
	"time"
)

// How long each provider sends an event again, by itself or by hand, in its own documentation.
func TestI21_WebhookPresetsRememberLongerThanTheirProvidersResend(t *testing.T) {
	const day = 24 * time.Hour
	for preset, resends := range map[string]time.Duration{
		"stripe":            30 * day, // stripe events resend, the API
		"adyen":             30 * day, // the retry queue
		"paypal":            3 * day,  // 25 tries
		"github":            30 * day, // deliveries that can be sent again
		"shopify":           4 * time.Hour,
		"slack":             day, // delayed events
		"twilio":            day,
		"standard-webhooks": 5 * day, // Svix's schedule is the longest that is known
	} {
		text := "sources:\n  s:\n    preset: " + preset + "\n    auth: none\n    to: {handler: h}\n"
		if got := mustParse(t, text, Env{}).Sources[0].Retention; got <= resends {
			t.Errorf("%s remembers %s, and resends for %s", preset, got, resends)
		}
	}
}

func TestWebhookPresets_AskHowTheSenderProvesItself(t *testing.T) {
	for _, preset := range []string{"stripe", "adyen", "paypal", "github", "shopify", "slack",
		"twilio", "standard-webhooks"} {
		text := "sources:\n  s:\n    preset: " + preset + "\n    to: {handler: h}\n"
		_, err := Parse("f.yaml", []byte(text), Env{})
		if err == nil || !strings.Contains(err.Error(), "needs the field `auth`") ||
			!strings.HasPrefix(err.Error(), "f.yaml:3:13: ") {
			t.Errorf("%s without auth: %v", preset, err)
		}
	}
}
