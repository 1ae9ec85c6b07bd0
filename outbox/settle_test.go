package outbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

func half(n int64) int64 { return n / 2 }

func testRow(attempt int) queue.Row {
	return queue.Row{
		Seq: 7, Fence: 3, Attempt: attempt, Kind: queue.Effect,
		Identity: once.Identity{1, 2, 3}, Source: "plant", Event: "unlock",
	}
}

func TestSettleSaysWhatBecomesOfARow(t *testing.T) {
	cause := errors.New("boom")
	wrap := func(c Class) error { return fmt.Errorf("outer: %w", &Failure{Class: c, Err: cause}) }
	hold := &Destination{HoldUnknown: true, Block: true, Retry: Retry{Attempts: 3}}
	plain := &Destination{Retry: Retry{Base: time.Second, Cap: 10 * time.Second, Attempts: 6}}
	asked := &Failure{Class: Transient, RetryAfter: 8 * time.Second, Err: cause}
	tooLong := &Failure{Class: Transient, RetryAfter: time.Hour, Err: cause}
	transient, unknown := wrap(Transient), wrap(Unknown)
	permanent, refused := wrap(Permanent), wrap(Pause)
	late, zero := context.DeadlineExceeded, &Destination{}
	const (
		again  = queue.Pending
		usedUp = queue.CauseTransient
		never  = queue.CausePermanent
		ms     = time.Millisecond
	)
	tests := map[string]struct {
		d       *Destination
		attempt int
		err     error
		state   queue.State
		dead    queue.Cause
		retryIn time.Duration
		block   bool
		free    bool // not tried
	}{
		"acknowledged":              {plain, 1, nil, queue.Done, "", 0, false, false},
		"first failure":             {plain, 1, transient, again, "", 500 * ms, false, false},
		"third failure":             {plain, 3, transient, again, "", 2000 * ms, false, false},
		"capped":                    {plain, 5, transient, again, "", 5000 * ms, false, false},
		"last attempt":              {plain, 6, transient, queue.Dead, usedUp, 0, false, false},
		"no limit":                  {zero, 1_000_000, cause, again, "", 150e3 * ms, false, false},
		"asked to wait":             {plain, 1, asked, again, "", 9 * 1000 * ms, false, false},
		"asked to wait too long":    {plain, 1, tooLong, again, "", 11250 * ms, false, false},
		"an ordinary error":         {plain, 1, cause, again, "", 500 * ms, false, false},
		"permanent":                 {plain, 1, permanent, queue.Dead, never, 0, false, false},
		"permanent, blocking":       {hold, 1, permanent, queue.Dead, never, 0, true, false},
		"unknown":                   {plain, 1, unknown, again, "", 500 * ms, false, false},
		"unknown, last attempt":     {plain, 6, unknown, queue.Dead, usedUp, 0, false, false},
		"unknown, held":             {hold, 3, unknown, queue.Held, "", 0, true, false},
		"out of time, held":         {hold, 1, late, queue.Held, "", 0, true, false},
		"last attempt, blocking":    {hold, 3, transient, queue.Dead, usedUp, 0, true, false},
		"refused by the other side": {hold, 3, refused, again, "", 1000 * ms, false, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Settle(test.d, testRow(test.attempt), test.err, half)
			if got.Grant != (queue.Grant{Seq: 7, Fence: 3}) {
				t.Errorf("grant %v", got.Grant)
			}
			if got.State != test.state || got.DeadCause != test.dead || got.Block != test.block ||
				got.NotTried != test.free {
				t.Errorf("got %+v", got)
			}
			if d := got.RetryIn - test.retryIn; d < -time.Microsecond || d > time.Microsecond {
				t.Errorf("retry in %v, want %v", got.RetryIn, test.retryIn)
			}
			if (got.Error == "") != (test.err == nil) {
				t.Errorf("error %q", got.Error)
			}
		})
	}
}

func TestD10_RetriesOfRowsThatFailedTogetherAreSpread(t *testing.T) {
	asked := &Failure{Class: Transient, RetryAfter: 40 * time.Second, Err: errors.New("busy")}
	const rows, window = 10_000, 64 // seconds: 500 ms doubled seven times
	for name, test := range map[string]struct {
		err  error
		from int // the first second
		span int // seconds
	}{
		"backoff":     {errors.New("down"), 0, window},
		"retry-after": {asked, 40, 10},
	} {
		t.Run(name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(1, 2)).Int64N
			var perSecond [120]int
			for range rows {
				s := Settle(&Destination{}, testRow(8), test.err, rnd)
				perSecond[s.RetryIn/time.Second]++
			}
			mean := rows / test.span
			total := 0
			for second, n := range perSecond {
				if n >= 2*mean {
					t.Errorf("%d rows in second %d, the mean is %d", n, second, mean)
				}
				if second >= test.from && second <= test.from+test.span {
					total += n
				}
			}
			if total != rows {
				t.Errorf("%d of %d rows in the window", total, rows)
			}
		})
	}
}

func TestNewMessageReadsTheAddressing(t *testing.T) {
	row := testRow(2)
	row.Meta = []byte(`{"topic":"roadway/17/unlock","fence":9,"header":{"a":"b"},"retain":true}`)
	row.Body, row.TraceParent, row.TraceState = []byte("x"), "00-1-2-01", "a=1"
	m, err := NewMessage(row)
	if err != nil {
		t.Fatal(err)
	}
	// 0x01 0x02 0x03 then zeros, in base32hex: 00000 00100 00001 00000 00110 00000 ...
	if m.ID != "0410600000000000000000000"+"0" {
		t.Errorf("id %q", m.ID)
	}
	if m.Name != "unlock" || m.Destination != "plant" || m.Attempt != 2 || m.Fence != 9 ||
		m.TraceParent != "00-1-2-01" || m.TraceState != "a=1" || string(m.Payload) != "x" ||
		m.Meta.Topic != "roadway/17/unlock" || m.Meta.Header["a"] != "b" || !m.Meta.Retain {
		t.Errorf("got %+v", m)
	}
	row.Meta = []byte(`{"topic":`)
	if _, err := NewMessage(row); err == nil {
		t.Error("broken addressing was accepted")
	}
}

func TestContentTypeFollowsThePayload(t *testing.T) {
	for payload, want := range map[string]string{
		"": "", `{"a":1}`: "application/json", "hello": "text/plain; charset=utf-8",
		"\xff\xfe": "application/octet-stream",
	} {
		m := Message{Payload: []byte(payload)}
		if got := m.contentType(); got != want {
			t.Errorf("%q: %q, want %q", payload, got, want)
		}
	}
}
