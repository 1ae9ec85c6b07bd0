package inbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/queue"
)

// row is a leased callback in its nth attempt.
func row(attempt int) queue.Row {
	return queue.Row{
		Seq: 7, Fence: 3, Identity: once.Identity{1}, Kind: queue.Callback, Source: "rcs",
		Event: "finishFE", Key: []string{"REQ-1024"}, Attempt: attempt,
		ReceivedAt: time.Unix(1000, 0), TraceParent: "00-parent",
		Meta: []byte(`{"method":"POST","path":"/in/rcs","query":"a=1","header":{"X-A":["1","2"]}}`),
		Body: []byte("\xef\xbb\xbf" + `{"n":9007199254740993}`),
	}
}

func TestAttempt_HandsOverTheWholeCallback(t *testing.T) {
	var got inbox.Callback
	h := inbox.WorkFunc(func(_ context.Context, c inbox.Callback) (any, error) {
		got = c
		return nil, nil
	})
	s := inbox.Attempt(t.Context(), inbox.HandlerConfig{Handler: h}, row(2))
	if s.State != queue.Done || s.Grant != (queue.Grant{Seq: 7, Fence: 3}) || s.Commit != nil {
		t.Errorf("settlement %+v", s)
	}
	const id = "04" + "000000000000000000000000" // 0x01, then zeros, in base32hex
	if got.ID != id || got.IdempotencyKey() != id || got.Source != "rcs" ||
		got.Event != "finishFE" || got.Key[0] != "REQ-1024" || got.Attempt != 2 ||
		got.Header.Values("X-A")[1] != "2" || got.Query.Get("a") != "1" ||
		!got.ReceivedAt.Equal(time.Unix(1000, 0)) || got.TraceParent != "00-parent" ||
		!bytes.Equal(got.Body, row(2).Body) {
		t.Errorf("callback %+v", got)
	}
	var body struct{ N any }
	if err := got.Decode(&body); err != nil || body.N != json.Number("9007199254740993") {
		t.Errorf("decoded %v, %v", body, err)
	}
	got.Body = []byte(`{} {}`)
	if got.Decode(&body) == nil {
		t.Error("a second value was accepted")
	}
}

func TestAttempt_CommitHasTheValuesOfItsAttemptAndTheEndOfTheStore(t *testing.T) {
	type key struct{}
	attempt, end := context.WithCancel(context.WithValue(t.Context(), key{}, "span"))
	var got context.Context
	h := inbox.CommitFunc(func(ctx context.Context, _ queue.Tx, _ inbox.Callback) error {
		got = ctx
		return nil
	})
	s := inbox.Attempt(attempt, inbox.HandlerConfig{Handler: h}, row(1))
	end() // the try is over, its Commit is not
	limit, stop := context.WithTimeout(context.WithValue(t.Context(), key{}, nil), time.Minute)
	defer stop()
	if err := s.Commit(limit, nil); err != nil {
		t.Fatal(err)
	}
	want, _ := limit.Deadline()
	if deadline, ok := got.Deadline(); !ok || !deadline.Equal(want) || got.Err() != nil ||
		got.Value(key{}) != "span" {
		t.Errorf("deadline %v, error %v, value %v", deadline, got.Err(), got.Value(key{}))
	}
	stop()
	if got.Err() == nil {
		t.Error("it does not end with the store's limit")
	}
}

func TestAttempt_ResultReachesCommit(t *testing.T) {
	boom := errors.New("boom")
	cfg := inbox.HandlerConfig{Handler: both{commit: func(result any) error {
		if result != "result" {
			t.Errorf("result %v", result)
		}
		return boom
	}}}
	s := inbox.Attempt(t.Context(), cfg, row(1))
	if s.State != queue.Done || s.Commit == nil {
		t.Fatalf("settlement %+v", s)
	}
	if err := s.Commit(t.Context(), nil); !errors.Is(err, boom) {
		t.Errorf("commit gave %v", err)
	}
	called := false
	cfg.Handler = inbox.CommitFunc(func(context.Context, queue.Tx, inbox.Callback) error {
		called = true
		return nil
	})
	s = inbox.Attempt(t.Context(), cfg, row(1))
	if err := s.Commit(t.Context(), nil); err != nil || !called {
		t.Errorf("commit gave %v, called %v", err, called)
	}
}

type both struct{ commit func(result any) error }

func (b both) Work(context.Context, inbox.Callback) (any, error) { return "result", nil }

func (b both) Commit(_ context.Context, _ queue.Tx, _ inbox.Callback, result any) error {
	return b.commit(result)
}

func TestAttempt_ClassifiesFailures(t *testing.T) {
	boom := errors.New("boom")
	type want struct {
		state    queue.State
		cause    queue.Cause
		min, max time.Duration // of the wait
		block    bool
	}
	retry := want{state: queue.Pending, min: 1, max: 4 * time.Second} // base 1 s, third try
	dead := want{state: queue.Dead, cause: queue.CausePermanent, block: true}
	usedUp := want{state: queue.Dead, cause: queue.CauseTransient, block: true}
	held := want{state: queue.Held, block: true}
	minute := want{state: queue.Pending, min: time.Minute, max: 75 * time.Second}
	day := want{state: queue.Pending, min: 24 * time.Hour, max: 30 * time.Hour}
	for name, c := range map[string]struct {
		err      error
		attempts int
		hold     bool
		want     want
	}{
		"plain":                      {boom, 0, false, retry},
		"plain, hold":                {boom, 0, true, retry},
		"plain, tries left":          {boom, 4, false, retry},
		"plain, tries used up":       {boom, 3, false, usedUp},
		"permanent":                  {inbox.Permanent(boom), 0, false, dead},
		"wrapped permanent":          {errors.Join(inbox.Permanent(boom)), 9, true, dead},
		"retry after":                {inbox.RetryAfter(time.Minute, boom), 0, false, minute},
		"retry after, hold":          {inbox.RetryAfter(time.Minute, boom), 0, true, minute},
		"retry after a year":         {inbox.RetryAfter(9999*time.Hour, boom), 0, false, day},
		"retry after 0":              {inbox.RetryAfter(0, boom), 0, false, retry},
		"retry after, tries used up": {inbox.RetryAfter(time.Minute, boom), 3, false, usedUp},
		"unknown":                    {inbox.Unknown(boom), 0, false, retry},
		"unknown, tries used up":     {inbox.Unknown(boom), 3, false, usedUp},
		"unknown, hold":              {inbox.Unknown(boom), 3, true, held},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := inbox.HandlerConfig{
				Handler: inbox.WorkFunc(func(context.Context, inbox.Callback) (any, error) {
					return nil, c.err
				}),
				Retry:       inbox.Retry{Base: time.Second, Cap: time.Hour, Attempts: c.attempts},
				HoldUnknown: c.hold, Block: true,
			}
			s := inbox.Attempt(t.Context(), cfg, row(3))
			if s.State != c.want.state || s.DeadCause != c.want.cause ||
				s.RetryIn < c.want.min || s.RetryIn > c.want.max || s.Block != c.want.block ||
				s.Error != "boom" || s.Grant.Fence != 3 || s.NotTried {
				t.Errorf("settlement %+v", s)
			}
		})
	}
}

func TestD10_CallbacksThatAServiceTurnedAwayTogetherAreSpread(t *testing.T) {
	cfg := inbox.HandlerConfig{Handler: inbox.WorkFunc(
		func(context.Context, inbox.Callback) (any, error) {
			return nil, inbox.RetryAfter(40*time.Second, errors.New("busy"))
		})}
	const rows, seconds = 2000, 10
	var perSecond [seconds + 1]int
	for range rows {
		late := inbox.Attempt(t.Context(), cfg, row(1)).RetryIn - 40*time.Second
		if late < 0 || late > seconds*time.Second {
			t.Fatalf("it waits %v longer than asked for", late)
		}
		perSecond[late/time.Second]++
	}
	for second, n := range perSecond {
		if n >= 2*rows/seconds {
			t.Errorf("%d of %d callbacks in second %d", n, rows, second)
		}
	}
}

func TestMarks_OfNoErrorAreNil(t *testing.T) {
	if inbox.Permanent(nil) != nil || inbox.Unknown(nil) != nil ||
		inbox.RetryAfter(time.Second, nil) != nil {
		t.Error("an error came out of nothing")
	}
}

func TestBackoff_GrowsToItsCapWithFullJitter(t *testing.T) {
	cfg := inbox.HandlerConfig{
		Handler: inbox.WorkFunc(func(context.Context, inbox.Callback) (any, error) {
			return nil, errors.New("boom")
		}),
		Retry: inbox.Retry{Base: 100 * time.Millisecond, Cap: time.Second},
	}
	for attempt, longest := range map[int]time.Duration{
		0: 100 * time.Millisecond, 1: 100 * time.Millisecond, 2: 200 * time.Millisecond,
		4: 800 * time.Millisecond, 5: time.Second, 33: time.Second, 64: time.Second,
		1 << 30: time.Second,
	} {
		var least, most time.Duration = time.Hour, 0
		for range 2000 {
			s := inbox.Attempt(t.Context(), cfg, row(attempt))
			least, most = min(least, s.RetryIn), max(most, s.RetryIn)
		}
		if least <= 0 || least > longest/10 || most > longest || most < longest*9/10 {
			t.Errorf("attempt %d: waits from %s to %s, want up to %s", attempt, least, most,
				longest)
		}
	}
}

func TestPanic_IsAFailedAttempt(t *testing.T) {
	var logged bytes.Buffer
	cfg := inbox.HandlerConfig{
		Name:   "h",
		Logger: slog.New(slog.NewTextHandler(&logged, nil)),
		Handler: inbox.WorkFunc(func(context.Context, inbox.Callback) (any, error) {
			panic("at the disco")
		}),
	}
	s := inbox.Attempt(t.Context(), cfg, row(1))
	if s.State != queue.Pending || s.RetryIn <= 0 || s.Error != "handler panicked: at the disco" {
		t.Errorf("settlement %+v", s)
	}
	if !strings.Contains(logged.String(), "attempt_test.go") {
		t.Error("no stack was logged")
	}
	cfg.HoldUnknown = true
	if s = inbox.Attempt(t.Context(), cfg, row(1)); s.State != queue.Held {
		t.Errorf("with hold: %+v", s)
	}
}

func TestK11_ATimeoutIsUnknownAndTriedAgainOrHeld(t *testing.T) {
	for hold, want := range map[bool]queue.State{false: queue.Pending, true: queue.Held} {
		synctest.Test(t, func(t *testing.T) {
			cfg := inbox.HandlerConfig{
				HoldUnknown: hold,
				Handler: inbox.WorkFunc(func(ctx context.Context, _ inbox.Callback) (any, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}),
			}
			start := time.Now()
			s := inbox.Attempt(t.Context(), cfg, row(1))
			if s.State != want || !strings.HasPrefix(s.Error, "handler timed out") {
				t.Errorf("settlement %+v", s)
			}
			if d := time.Since(start); d != 5*time.Minute {
				t.Errorf("it took %s", d)
			}
		})
	}
}

func TestStopping_DoesNotUseUpTheTries(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cfg := inbox.HandlerConfig{
		Retry: inbox.Retry{Attempts: 1},
		Handler: inbox.WorkFunc(func(ctx context.Context, _ inbox.Callback) (any, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}),
	}
	s := inbox.Attempt(ctx, cfg, row(1))
	if s.State != queue.Pending || s.NotTried ||
		!strings.HasPrefix(s.Error, "handler was stopped") {
		t.Errorf("settlement %+v", s)
	}
	s = inbox.Attempt(ctx, cfg, row(1)) // never begun
	if s.State != queue.Pending || !s.NotTried || s.Grant.Seq != 7 {
		t.Errorf("settlement %+v", s)
	}
}

func TestSweptOrBrokenRow_IsADeadLetter(t *testing.T) {
	cfg := inbox.HandlerConfig{
		Handler: inbox.WorkFunc(func(context.Context, inbox.Callback) (any, error) {
			t.Error("it was worked")
			return nil, nil
		}),
	}
	for name, change := range map[string]func(*queue.Row){
		"no longer kept": func(r *queue.Row) { r.Body, r.Meta = nil, nil },
		"decode request": func(r *queue.Row) { r.Meta = []byte("{") },
	} {
		r := row(1)
		change(&r)
		s := inbox.Attempt(t.Context(), cfg, r)
		if s.State != queue.Dead || s.DeadCause != queue.CausePermanent ||
			!strings.Contains(s.Error, name) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestCommitFailed_IsTriedAgainOrDead(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		err      error
		attempts int
		want     queue.State
	}{
		{boom, 0, queue.Pending},
		{boom, 2, queue.Dead},
		{inbox.Unknown(boom), 0, queue.Pending}, // it was undone
		{inbox.Permanent(boom), 0, queue.Dead},
	} {
		cfg := inbox.HandlerConfig{HoldUnknown: true, Retry: inbox.Retry{Attempts: c.attempts}}
		s := inbox.CommitFailed(cfg, row(2), &queue.CommitError{Err: c.err})
		if s.State != c.want || s.Error != "commit handler: boom" || s.Commit != nil ||
			s.Grant.Fence != 3 {
			t.Errorf("%v: %+v", c, s)
		}
	}
}

func TestLongError_IsCutAtACharacter(t *testing.T) {
	cfg := inbox.HandlerConfig{
		Handler: inbox.WorkFunc(func(context.Context, inbox.Callback) (any, error) {
			return nil, errors.New("x" + strings.Repeat("é", 2000))
		}),
	}
	if s := inbox.Attempt(t.Context(), cfg, row(1)); len(s.Error) != 1023 {
		t.Errorf("%d bytes", len(s.Error))
	}
}

func TestAttempt_AHandlerThatEndsItsGoroutineIsUnknown(t *testing.T) {
	cfg := inbox.HandlerConfig{HoldUnknown: true, Handler: inbox.WorkFunc(
		func(context.Context, inbox.Callback) (any, error) {
			runtime.Goexit()
			return nil, nil
		})}
	s := inbox.Attempt(t.Context(), cfg, row(1))
	if s.State != queue.Held || s.Error != "handler ended its goroutine: runtime.Goexit" {
		t.Errorf("settlement %+v", s)
	}
}

func TestAttempt_AHandlerThatDoesNotObeyItsContextIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		defer close(hold)
		var log strings.Builder
		cfg := inbox.HandlerConfig{Timeout: time.Second, HoldUnknown: true,
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Handler: inbox.WorkFunc(func(context.Context, inbox.Callback) (any, error) {
				<-hold
				return nil, nil
			})}
		begun := time.Now()
		s := inbox.Attempt(t.Context(), cfg, row(1))
		if took := time.Since(begun); took != 4*time.Second || s.State != queue.Held {
			t.Errorf("after %v: %+v", took, s)
		}
		if !strings.Contains(log.String(), "left behind") ||
			!strings.Contains(log.String(), "callback=04000000000000000000000000") {
			t.Errorf("logged %s", &log)
		}
	})
}
