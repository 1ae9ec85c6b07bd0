package server_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/testserver"
)

// keys lists the keys of a source, latest first.
func (s *service) keys(source string) []string {
	s.t.Helper()
	var keys []string
	for _, c := range s.callbacks("source=" + source) {
		keys = append(keys, strings.Join(c.Key, " "))
	}
	return keys
}

// awaitRepeats waits until the only callback of a query has n duplicates: they are counted a little
// behind their answers.
func (s *service) awaitRepeats(query string, n int64) callback {
	s.t.Helper()
	testserver.Until(s.t, patience, "the repeats are counted", func() bool {
		return s.callback(query).Duplicates == n
	})
	return s.callback(query)
}

func TestI11_SlacksRetryIsTheEventIfTheFirstTryNeverCame(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), webhooks(t), handles(inbox.WorkFunc(accept)))
	// The retry first, then the event five minutes and a second later.
	for _, name := range []string{"slack.retry", "slack"} {
		if a := s.wire(golden(t, name)); a.status != 200 {
			t.Fatalf("%s: %d %s", name, a.status, a.body)
		}
	}
	if c := s.awaitRepeats("source=slack", 1); len(c.Receipts) != 2 ||
		c.Receipts[0].Outcome != "accepted" || c.Receipts[1].Outcome != "duplicate" {
		t.Errorf("%+v", c)
	}
}

func TestI12_AKeyOfOnesOwnMakesElevenIDsOneMessage(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), `
sources:
  slack:
    preset: slack
    auth: none
    key: ["body.team_id", "body.event.channel", "body.event.ts", "body.event.type"]
    ignore: [body.event_id, body.event_time]
    to: {handler: h}
`, handles(inbox.WorkFunc(accept)))
	for i := range 11 {
		s.post(200, "slack", fmt.Sprintf(`{"team_id":"T1","event_id":"Ev%d","event_time":%d,"event":`+
			`{"type":"message","channel":"C1","ts":"1515449522.000016"}}`, i, 1515449522+i))
	}
	if c := s.awaitRepeats("source=slack", 10); c.Conflicts != 0 {
		t.Errorf("%+v", c)
	}
}

func TestI13_AMessageOfTwilioHasARowForEachState(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), webhooks(t), handles(inbox.WorkFunc(accept)))
	for _, name := range []string{"twilio", "twilio.delivered", "twilio"} {
		if a := s.wire(golden(t, name)); a.status != 200 {
			t.Fatalf("%s: %d %s", name, a.status, a.body)
		}
	}
	const sid = "SM1f0e8ae6ade43cb3c0ce4525424e404f"
	if got := strings.Join(s.keys("twilio"), ", "); got != sid+" delivered, "+sid+" sent" {
		t.Errorf("callbacks %s", got)
	}
}

// However often it comes: a provider that is told of an error switches the webhook off.
func TestI18_ARepeatIsAnsweredLikeTheFirst(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), webhooks(t), handles(inbox.WorkFunc(accept)))
	for range 10 {
		a := s.wire(golden(t, "adyen"))
		if a.status != 200 || a.body != "[accepted]" {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	if n := len(s.callbacks("source=adyen")); n != 2 {
		t.Errorf("%d callbacks", n)
	}
}

func TestI24_ShopifySendsAgainInParallelAndItsHeadersAreKept(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), webhooks(t), handles(inbox.WorkFunc(accept)))
	request := golden(t, "shopify")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if a := s.wire(request); a.status != 200 {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	wg.Wait()
	c := s.awaitCallback("source=shopify", "done")
	if a := s.wire(request); a.status != 200 { // later
		t.Errorf("%d %s", a.status, a.body)
	}
	for _, name := range []string{"X-Shopify-Webhook-Id", "X-Shopify-Event-Id",
		"X-Shopify-Hmac-Sha256"} {
		if len(c.Headers[name]) != 1 {
			t.Errorf("%s is not kept: %v", name, c.Headers)
		}
	}
}
