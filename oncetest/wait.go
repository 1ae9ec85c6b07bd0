package oncetest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/oncekit/once"
)

// waitBound is how long a waiter may take to notice. It is far above what any store needs.
const waitBound = 20 * time.Second

func waitCases() []Case {
	return []Case{
		{Name: "Wait/NotInFlight", Promise: "nobody waits for what isn't in flight",
			needs: waits, run: waitNotInFlight},
		{Name: "Wait/Completion", Promise: "who waits is told of the end",
			needs: waits, run: func(k *kit) {
				k.waitFor(func(g once.Grant) { k.complete(g, kept("done")) })
			}},
		{Name: "Wait/Release", Promise: "who waits is told of a release",
			needs: waits, run: func(k *kit) { k.waitFor(k.release) }},
		{Name: "Wait/Loss", Promise: "who waits is told of a loss",
			needs: waits, run: func(k *kit) { k.waitFor(k.lose) }},
		{Name: "Wait/CallerLeaves", Promise: "a wait ends with its context",
			needs: waits, run: waitLeaves},
	}
}

// wait waits for an identity, within the bound. A store may wake early, as often as it likes.
func (k *kit) wait(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, waitBound)
	defer cancel()
	return k.s.(once.Waiter).Wait(ctx, identity(name))
}

func waitNotInFlight(k *kit) {
	k.done(claim("completed"), "done")
	k.release(k.take(claim("released")))
	k.lose(k.take(claim("lost")))
	k.take(k.lapsing("lapsed"))
	k.lapse()
	for _, name := range []string{"absent", "completed", "released", "lost", "lapsed"} {
		if err := k.wait(k.ctx, name); err != nil {
			k.Errorf("%s: %v", name, err)
		}
	}
}

// waitFor lets some wait for the end of an attempt.
func (k *kit) waitFor(end func(once.Grant)) {
	k.Helper()
	g := k.take(claim("a"))
	var ended atomic.Bool
	errs := make(chan error, 5)
	for range cap(errs) {
		go func() {
			err := k.wait(k.ctx, "a")
			for i := 0; err == nil && !ended.Load(); i++ { // it may wake early
				<-time.After(min(time.Duration(i)*time.Millisecond, time.Second))
				err = k.wait(k.ctx, "a")
			}
			errs <- err
		}()
	}
	<-time.After(5 * time.Millisecond) // so that some wait; the case holds if none does yet
	end(g)
	ended.Store(true)
	for range cap(errs) {
		if err := <-errs; err != nil {
			k.Errorf("wait: %v", err)
		}
	}
}

func waitLeaves(k *kit) {
	k.take(claim("a"))
	if err := k.wait(k.ended(), "a"); !errors.Is(err, context.Canceled) {
		k.Errorf("a wait without a caller: %v", err)
	}
	ctx, cancel := context.WithTimeout(k.ctx, 20*time.Millisecond)
	defer cancel()
	for range 1000 {
		err := k.wait(ctx, "a")
		if err == nil {
			continue // early
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			k.Errorf("wait: %v", err)
		}
		return
	}
	k.Error("it woke 1000 times too early")
}
