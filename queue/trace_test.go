package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekit/once"
)

// follower is a Tracer that keeps what it is told.
type follower struct {
	mu    sync.Mutex
	ended []string
}

func (f *follower) Try(ctx context.Context, row Row) Trying {
	return Trying{
		Context:     WithAnswer(ctx, func(code int) { f.note("answer %d", code) }),
		TraceParent: "own of " + row.TraceParent, TraceState: "own",
		End: func(set Settlement, err error) { f.note("%s %v", set.State, err) },
	}
}

func (f *follower) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = append(f.ended, fmt.Sprintf(format, args...))
}

func (f *follower) told() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.ended, "; ")
}

func TestATracerGivesTheTryItsContextAndIsToldOfItsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		attempt func() Settlement
		settle  func() error
		want    string
	}{
		"done": {func() Settlement { return Settlement{State: Done} }, nil,
			"answer 204; done <nil>"},
		"a lost lease": {func() Settlement { return Settlement{State: Done} },
			func() error { return once.ErrLeaseLost }, "answer 204; done lease is lost"},
		"a panic": {func() Settlement { panic("x") }, nil, "answer 204; pending <nil>"},
		"a failed Commit": {func() Settlement { return Settlement{State: Done} },
			failsOnce(&CommitError{errors.New("no")}), "answer 204; pending <nil>"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newFake(1, "work")
			s.rows[0].row.TraceParent = "sender"
			s.settleErr = c.settle
			f := &follower{}
			var parent, state string
			stop := running(t, s, Worker{Attempt: func(ctx context.Context, r Row) Settlement {
				parent, state = r.TraceParent, r.TraceState
				Answered(ctx, 204)
				return c.attempt()
			}}, Config{Tracer: f})
			time.Sleep(100 * time.Millisecond)
			stop()
			if parent != "own of sender" || state != "own" {
				t.Errorf("%s: the try has %q %q", name, parent, state)
			}
			if got := f.told(); got != c.want {
				t.Errorf("%s: told %q, want %q", name, got, c.want)
			}
		})
	}
}

// failsOnce fails once with an error.
func failsOnce(err error) func() error {
	return func() error {
		defer func() { err = nil }()
		return err
	}
}

func TestAnAnswerThatNobodyAsksForIsNoFault(t *testing.T) {
	Answered(t.Context(), 200)
}
