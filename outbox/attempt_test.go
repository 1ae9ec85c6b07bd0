package outbox

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekit/once/queue"
)

// fakeSender is a Sender and a Gate that does as it is told.
type fakeSender struct {
	send    func(context.Context, Message) error
	closed  bool
	changed chan struct{}
	sent    int
}

func (f *fakeSender) Send(ctx context.Context, m Message) error { f.sent++; return f.send(ctx, m) }
func (f *fakeSender) Open() bool                                { return !f.closed }
func (f *fakeSender) Changed() <-chan struct{}                  { return f.changed }

func always(err error) *fakeSender {
	return &fakeSender{
		send:    func(context.Context, Message) error { return err },
		changed: make(chan struct{}, 1),
	}
}

func TestAttemptDoesNotSendWhatHasExpired(t *testing.T) {
	s := always(nil)
	d := &Destination{Sender: s}
	row := testRow(1)
	row.StartedAt = time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC) // the store's clock is not ours
	row.ExpiresAt = row.StartedAt
	if got := Attempt(t.Context(), d, row); got.State != queue.Expired || s.sent != 0 {
		t.Errorf("state %q after %d sends", got.State, s.sent)
	}
	row.ExpiresAt = row.StartedAt.Add(time.Microsecond)
	if got := Attempt(t.Context(), d, row); got.State != queue.Done {
		t.Errorf("state %q", got.State)
	}
}

func TestAttemptEndsAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeSender{send: func(ctx context.Context, _ Message) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		start := time.Now()
		got := Attempt(t.Context(), &Destination{Sender: s, HoldUnknown: true}, testRow(1))
		if took := time.Since(start); took != 10*time.Second || got.State != queue.Held {
			t.Errorf("%q after %v", got.State, took)
		}
	})
}

func TestAttemptSurvivesAPanicAndLogsIt(t *testing.T) {
	var log bytes.Buffer
	s := &fakeSender{send: func(context.Context, Message) error { panic("nil pump") }}
	d := &Destination{Name: "plant", Sender: s, Log: slog.New(slog.NewTextHandler(&log, nil))}
	got := Attempt(t.Context(), d, testRow(1))
	if got.State != queue.Pending || got.NotTried || got.Error != "sender panicked: nil pump" {
		t.Errorf("got %+v", got)
	}
	if strings.Contains(log.String(), "nil pump") || !strings.Contains(log.String(), "plant") ||
		!strings.Contains(log.String(), "a value of type string") { // it may hold the payload
		t.Errorf("log: %s", log.String())
	}
	d.HoldUnknown = true // nobody knows what a sender that panicked had done by then
	if got := Attempt(t.Context(), d, testRow(1)); got.State != queue.Held {
		t.Errorf("got %+v", got)
	}
}

func TestD14_ARowThatWasNotBegunIsNotCounted(t *testing.T) {
	away := always(nil)
	away.closed = true
	lost := always(failf(Transient, "publish: %w", ErrNotConnected))
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx  context.Context
		s    *fakeSender
		sent int
	}{
		"gate closed":     {t.Context(), away, 0},
		"connection lost": {t.Context(), lost, 1},
		"stopped":         {stopped, always(nil), 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := &Destination{Sender: test.s, Retry: Retry{Attempts: 1}}
			got := Attempt(test.ctx, d, testRow(1))
			if got.State != queue.Pending || !got.NotTried || got.RetryIn <= 0 ||
				test.s.sent != test.sent {
				t.Errorf("got %+v after %d sends", got, test.s.sent)
			}
		})
	}
	during, stop := context.WithCancel(t.Context())
	s := &fakeSender{send: func(context.Context, Message) error {
		stop()
		return failf(Transient, "dial: stopped")
	}}
	if got := Attempt(during, &Destination{Sender: s}, testRow(1)); !got.NotTried {
		t.Errorf("stopped while dialling: %+v", got)
	}
}

func TestPausedDestinationHealsByItsProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := always(failf(Pause, "destination answered 401 Unauthorized"))
		d := &Destination{Sender: s, Retry: Retry{Attempts: 1}}
		if d.Limit() != 16 || !d.Open() || d.Err() != nil {
			t.Fatal("a new destination is not open")
		}
		got := Attempt(t.Context(), d, testRow(1))
		if got.State != queue.Pending || !got.NotTried {
			t.Fatalf("got %+v", got)
		}
		p, paused := d.Paused()
		if !paused || p.Reason != "destination answered 401 Unauthorized" ||
			!p.Since.Equal(time.Now()) || d.Pauses() != 1 || d.Open() {
			t.Fatalf("paused %v: %+v, %d pauses", paused, p, d.Pauses())
		}
		<-d.Changed()
		Attempt(t.Context(), d, testRow(1))
		if s.sent != 1 {
			t.Fatal("a row was sent while paused")
		}

		<-d.Changed() // the probe is due
		if time.Since(p.Since) != time.Minute || d.Limit() != 1 {
			t.Fatalf("limit %d after %v", d.Limit(), time.Since(p.Since))
		}
		Attempt(t.Context(), d, testRow(1))
		if _, paused := d.Paused(); !paused || s.sent != 2 || d.Pauses() != 1 || d.Open() {
			t.Fatal("a refused probe must go on with the same pause")
		}

		time.Sleep(time.Minute)
		s.send = func(context.Context, Message) error {
			if other := Attempt(t.Context(), d, testRow(1)); !other.NotTried {
				t.Error("a second row was tried beside the probe")
			}
			return nil
		}
		if got := Attempt(t.Context(), d, testRow(1)); got.State != queue.Done {
			t.Fatalf("got %+v", got)
		}
		if _, paused := d.Paused(); paused || d.Limit() != 16 {
			t.Fatal("a probe that was accepted must end the pause")
		}
	})
}

func TestProbeThatFailsOtherwiseKeepsThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := always(failf(Pause, "no"))
		d := &Destination{Sender: s, Probe: time.Second}
		Attempt(t.Context(), d, testRow(1))
		others := []error{failf(Transient, "busy"), failf(Unknown, "cut"), errors.New("x")}
		for _, err := range others {
			time.Sleep(time.Second)
			s.send = func(context.Context, Message) error { return err }
			if got := Attempt(t.Context(), d, testRow(1)); got.NotTried {
				t.Fatalf("the probe was not made: %+v", got)
			}
			if p, paused := d.Paused(); !paused || p.Reason != "no" || d.Open() {
				t.Fatalf("after %v: paused %v, %+v", err, paused, p)
			}
		}
		time.Sleep(time.Second)
		s.send = func(context.Context, Message) error { return failf(Permanent, "404") }
		if got := Attempt(t.Context(), d, testRow(1)); got.State != queue.Dead {
			t.Fatalf("got %+v", got)
		}
		if _, paused := d.Paused(); paused {
			t.Error("the login was accepted; the pause must end")
		}
	})
}

func TestResumeOpensAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := always(failf(Pause, "no"))
		d := &Destination{Sender: s}
		d.Resume() // not paused: nothing happens
		Attempt(t.Context(), d, testRow(1))
		<-d.Changed()
		d.Resume()
		<-d.Changed()
		if _, paused := d.Paused(); paused || !d.Open() {
			t.Error("still paused")
		}
	})
}

func TestRunPassesTheSendersChangesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := always(nil)
		d := &Destination{Sender: s}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- d.Run(ctx) }()
		s.closed = true
		s.changed <- struct{}{}
		<-d.Changed()
		if d.Open() || d.Err() == nil {
			t.Error("open, though its sender is closed")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
