package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/queue"
	"github.com/oncekit/once/write"
)

// fakeWriter answers each write as it was told, and keeps what it was asked.
type fakeWriter struct {
	answer func(ctx context.Context) (write.Result, error)
	events []write.Event
}

func (w *fakeWriter) Write(ctx context.Context, e write.Event) (write.Result, error) {
	w.events = append(w.events, e)
	return w.answer(ctx)
}

func (w *fakeWriter) WriteAll(context.Context, []write.Event) ([]write.Result, error) {
	return nil, errors.New("nobody asks for a batch")
}

// writerOf makes a writer that always answers the same.
func writerOf(r write.Result, err error) *fakeWriter {
	return &fakeWriter{answer: func(context.Context) (write.Result, error) { return r, err }}
}

// paid is the event of a callback, with an id that doesn't count.
func paid(c inbox.Callback) (write.Event, error) {
	return write.Event{ID: "of another", In: "payments", Key: c.Key[0],
		Change: write.Increment{By: write.Fields{"n": 1}}}, nil
}

// writes is a handler for a writer.
func writes(t *testing.T, w write.Writer, change ...func(*inbox.WriteConfig)) *inbox.WriteHandler {
	t.Helper()
	cfg := inbox.WriteConfig{Writer: w, Event: paid}
	for _, f := range change {
		f(&cfg)
	}
	h, err := inbox.NewWriteHandler(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestAWritesOutcomeDecidesWhatBecomesOfTheCallback(t *testing.T) {
	first := func(o write.Outcome) *write.First {
		return &write.First{Outcome: o, At: time.Unix(1700000000, 0)}
	}
	for name, c := range map[string]struct {
		result write.Result
		state  queue.State
		reason string
	}{
		"applied": {write.Result{Outcome: write.Applied}, queue.Done, ""},
		"duplicate": {write.Result{Outcome: write.Duplicate, First: first(write.Applied)},
			queue.Done, ""},
		"stale": {write.Result{Outcome: write.Stale}, queue.Stale, "the document is newer"},
		"duplicate of a stale one": {write.Result{Outcome: write.Duplicate,
			First: first(write.Stale)}, queue.Stale, "the document is newer"},
		"conflict": {write.Result{Outcome: write.Conflict, First: first(write.Applied)}, queue.Dead,
			"another change was written under the callback's id at 2023-11-14T22:13:20Z"},
	} {
		t.Run(name, func(t *testing.T) {
			w := writerOf(c.result, nil)
			cfg := inbox.HandlerConfig{Handler: writes(t, w), HoldUnknown: true}
			for attempt := 1; attempt <= 2; attempt++ {
				s := inbox.Attempt(t.Context(), cfg, row(attempt))
				if s.State != c.state || !strings.HasPrefix(s.Error, c.reason) || s.NotTried ||
					(s.DeadCause == queue.CausePermanent) != (c.state == queue.Dead) ||
					s.Commit != nil {
					t.Errorf("settlement %+v", s)
				}
			}
			const id = "04000000000000000000000000" // of the row's identity, in base32hex
			want := write.Event{ID: id, In: "payments", Key: "REQ-1024",
				Change: write.Increment{By: write.Fields{"n": 1}}}
			for _, e := range w.events {
				if !reflect.DeepEqual(e, want) {
					t.Errorf("the event was %+v, want %+v", e, want)
				}
			}
		})
	}
}

func TestAWritesErrorIsRetriedUnlessItNeverSucceeds(t *testing.T) {
	const secret = "amount 4711"
	for name, c := range map[string]struct {
		err   error
		state queue.State
		shown string
	}{
		"an event that can't be written": {&write.EventError{Field: "Set.n", Reason: "is empty"},
			queue.Dead, "event: Set.n is empty"},
		"an event that is too large": {fmt.Errorf("%s: %w", secret, once.ErrTooLarge), queue.Dead,
			"the handler turned it down for good"},
		"a document of another shape": {&write.ShapeError{In: "payments", Field: "n",
			Reason: "holds a text, not a number", Err: errors.New(secret)}, queue.Dead,
			"document is not of the shape that the change expects: payments, n: holds a text," +
				" not a number"},
		"a document that is there": {fmt.Errorf("%s: %w", secret, write.ErrExists), queue.Dead,
			"the handler turned it down for good"},
		"a state from which it may not start": {&write.StateError{State: secret}, queue.Pending,
			"the write did not succeed"},
		"others at the same document": {fmt.Errorf("%s: %w", secret, write.ErrBusy), queue.Pending,
			"the write did not succeed"},
		"no answer": {fmt.Errorf("%s: %w", secret, context.DeadlineExceeded), queue.Pending,
			"no answer in time"},
		"anything else": {errors.New(secret), queue.Pending, "the write did not succeed"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := inbox.HandlerConfig{Handler: writes(t, writerOf(write.Result{}, c.err)),
				HoldUnknown: true}
			s := inbox.Attempt(t.Context(), cfg, row(1))
			if s.State != c.state || s.NotTried || s.Error == "" || s.Public != c.shown {
				t.Errorf("settlement %+v, shown %q, want %s, %q", s, s.Public, c.state, c.shown)
			}
			inBatch := inbox.HandlerConfig{
				Handler: writes(t, writerOf(write.Result{Err: c.err}, nil))}
			if s := inbox.Attempt(t.Context(), inBatch, row(1)); s.State != c.state {
				t.Errorf("as a result's error: %+v", s)
			}
		})
	}
}

func TestAWriteThatHasNoEndInTimeIsTriedAgainAndNeverUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fakeWriter{answer: func(ctx context.Context) (write.Result, error) {
			<-ctx.Done()
			return write.Result{}, ctx.Err()
		}}
		s := inbox.Attempt(t.Context(), inbox.HandlerConfig{Handler: writes(t, w),
			HoldUnknown: true, Timeout: time.Second}, row(1))
		if s.State != queue.Pending || s.Public != "no answer in time" {
			t.Errorf("settlement %+v", s)
		}
	})
}

func TestAChangeThatCantBeMadeOfACallbackIsADeadLetter(t *testing.T) {
	w := writerOf(write.Result{Outcome: write.Applied}, nil)
	h := writes(t, w, func(c *inbox.WriteConfig) {
		c.Event = func(inbox.Callback) (write.Event, error) {
			return write.Event{}, errors.New("set n: body.n is missing")
		}
	})
	s := inbox.Attempt(t.Context(), inbox.HandlerConfig{Handler: h}, row(1))
	if s.State != queue.Dead || s.DeadCause != queue.CausePermanent ||
		s.Error != "no change can be made of the callback: set n: body.n is missing" ||
		s.Public != "no change can be made of the callback" || len(w.events) != 0 {
		t.Errorf("settlement %+v, events %v", s, w.events)
	}
}

// A database that refuses us refuses each callback: none of them uses up its tries, and one is
// tried after each pause until the reason is gone.
func TestAMissingIndexAndARefusalPauseTheHandlerAndUseUpNoTry(t *testing.T) {
	login := errors.New("login refused")
	for name, refusal := range map[string]error{
		"index": &write.IndexError{In: "payments", Key: "id", Command: "CREATE UNIQUE INDEX",
			Duplicates: []write.DuplicateKey{{Key: "4711", Count: 2}}},
		"login": login,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				w := writerOf(write.Result{}, refusal)
				h := writes(t, w, func(c *inbox.WriteConfig) {
					c.Refuses = func(err error) bool { return errors.Is(err, login) }
					c.Probe = time.Minute
					c.Logger = slog.New(slog.NewTextHandler(&log, nil))
				})
				cfg := inbox.HandlerConfig{Handler: h, Retry: inbox.Retry{Attempts: 1}}
				worker := inbox.NewWorker("source/s", cfg)
				for range 3 {
					if s := inbox.Attempt(t.Context(), cfg, row(1)); !s.NotTried {
						t.Errorf("settlement %+v", s)
					}
				}
				p, paused := h.Paused()
				if !paused || p.Reason != refusal.Error() || worker.Limit() != 0 ||
					len(w.events) != 1 {
					t.Errorf("paused %v: %+v after %d writes", paused, p, len(w.events))
				}
				time.Sleep(time.Minute) // of the test's own clock
				w.answer = func(context.Context) (write.Result, error) {
					return write.Result{Outcome: write.Applied}, nil
				}
				if n := worker.Limit(); n != 1 {
					t.Errorf("%d callbacks are let through as a probe", n)
				}
				if s := inbox.Attempt(t.Context(), cfg, row(1)); s.State != queue.Done {
					t.Errorf("the probe: %+v", s)
				}
				if _, paused := h.Paused(); paused || worker.Limit() < 2 {
					t.Error("it is still paused")
				}
				if got := log.String(); strings.Contains(got, "4711") ||
					!strings.Contains(got, "database paused") ||
					!strings.Contains(got, "database resumed") {
					t.Errorf("the log: %s", got)
				}
			})
		})
	}
}

func TestAWriteHandlerNeedsAWriterAndAnEvent(t *testing.T) {
	if _, err := inbox.NewWriteHandler(inbox.WriteConfig{Event: paid}); err == nil {
		t.Error("made without a writer")
	}
	if _, err := inbox.NewWriteHandler(inbox.WriteConfig{
		Writer: writerOf(write.Result{}, nil)}); err == nil {
		t.Error("made without an event")
	}
}

func TestAHandlerCanSayThatACallbackIsStale(t *testing.T) {
	h := inbox.WorkFunc(func(context.Context, inbox.Callback) (any, error) {
		return nil, inbox.Stale(errors.New("version 3 is there"))
	})
	s := inbox.Attempt(t.Context(), inbox.HandlerConfig{Handler: h, Block: true}, row(1))
	if s.State != queue.Stale || s.Error != "version 3 is there" ||
		s.Public != "it came too late" || s.Block || s.DeadCause != "" {
		t.Errorf("settlement %+v", s)
	}
	if inbox.Stale(nil) != nil {
		t.Error("Stale(nil) is an error")
	}
}
