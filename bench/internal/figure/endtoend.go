package figure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncekit/once/bench/internal/load"
	"github.com/oncekit/once/bench/internal/serving"
)

// work is a kind of load that is worked to its end.
type work struct {
	kind, path string
	events     []string
	// down is true where the destination is.
	down bool
	// backlog reads what was accepted and is not worked.
	backlog func(serving.Metrics) int64
	// serve runs fn with a server on a new, empty store; nil: on a file.
	serve func(ctx context.Context, sink string, fn func(*serving.Server) error) error
	// kept checks what the store has of the requests that were answered: all of them, and if done is
	// true all of them worked. Nil: there is nothing to be looked into.
	kept func(ctx context.Context, answered int64, done bool) error
}

func robots(down bool) work {
	return work{kind: "once", path: "/in/rcs", events: load.RobotEvents(), down: down,
		backlog: func(m serving.Metrics) int64 { return backlog(m, "rcs") }}
}

func single() work {
	return work{kind: "once", path: "/in/single", events: []string{"tell"},
		backlog: func(m serving.Metrics) int64 { return backlog(m, "single") }}
}

func river() work {
	return work{kind: "river", path: "/in/rcs", events: load.RobotEvents(),
		backlog: func(m serving.Metrics) int64 { return int64(m["river_jobs_backlog"]) }}
}

// endToEnd finds the highest rates at which once and river keep up, beside their intake.
func endToEnd(ctx context.Context, b *Bench) error {
	flow, err := b.closed(ctx, "once", "/in/rcs", 256)
	if err != nil {
		return err
	}
	stored, err := b.closed(ctx, "once", "/in/stored", 256)
	if err != nil {
		return err
	}
	rate, err := b.sustained(ctx, robots(false), stored.Rate)
	if err != nil {
		return err
	}
	intake, err := b.closed(ctx, "river", "/in/rcs", 64)
	if err != nil {
		return err
	}
	peer, err := b.sustained(ctx, river(), intake.Rate)
	if err != nil {
		return err
	}
	b.add("end-to-end.intake", rate/flow.Rate)
	b.add("end-to-end.stored", rate/stored.Rate)
	b.add("end-to-end.river", rate/peer)
	b.add("end-to-end.rate", rate)
	b.add("end-to-end.river-rate", peer)
	return nil
}

func endToEndDead(ctx context.Context, b *Bench) error {
	return b.endToEndOf(ctx, "end-to-end-dead", robots(true))
}

func endToEndEffects(ctx context.Context, b *Bench) error {
	return b.endToEndOf(ctx, "end-to-end-effects", single())
}

func (b *Bench) endToEndOf(ctx context.Context, name string, w work) error {
	stored, err := b.closed(ctx, "once", "/in/stored", 256)
	if err != nil {
		return err
	}
	rate, err := b.sustained(ctx, w, stored.Rate)
	if err != nil {
		return err
	}
	b.add(name+".stored", rate/stored.Rate)
	b.add(name+".rate", rate)
	return nil
}

// Steps of the search for a sustained rate.
const (
	// backOff is the step down after a rate that held for a short phase did not for a long one.
	backOff = .92
	// maxBackOffs bounds the steps down.
	maxBackOffs = 10
)

// sustained finds the highest rate at which the backlog does not grow: by halving with short
// phases, then one long phase that has to hold.
func (b *Bench) sustained(ctx context.Context, w work, highest float64) (float64, error) {
	low, high := 0.0, highest
	for range b.Probes {
		middle := (low + high) / 2
		ok, err := b.keepsUp(ctx, w, middle, b.Phase, false)
		if err != nil {
			return 0, err
		}
		if ok {
			low = middle
		} else {
			high = middle
		}
	}
	if low == 0 {
		low = high
	}
	for range maxBackOffs {
		ok, err := b.keepsUp(ctx, w, low, b.Long, true)
		if err != nil || ok {
			return low, err
		}
		low *= backOff
	}
	return 0, fmt.Errorf("%s keeps up with no rate: not even with %.0f/s", w.kind, low)
}

// What "not above" means. The backlog jumps by the callbacks that one transaction works, and by
// those that came in while one is written.
const (
	batch = 256
	// sampleEvery is the pause between two looks at the backlog.
	sampleEvery = 100 * time.Millisecond
	// lateShare is the part of the phase that the 99th percentile of the answers may take: what
	// waits before the door is a backlog too.
	lateShare = 12
)

// keepsUp reports whether a server works what comes in at a rate: whether the backlog at the end of
// the phase is not above that after a sixth of it.
func (b *Bench) keepsUp(ctx context.Context, w work, rate float64, phase time.Duration,
	check bool) (ok bool, err error) {
	run := func(sink *serving.Server) error {
		addr := ""
		if sink != nil {
			addr = sink.Addr
		}
		return b.serveWork(ctx, w, addr, func(s *serving.Server) error {
			held, answered, err := b.probe(ctx, w, s, rate, phase)
			ok = held
			done := check && ok
			if err == nil && done && w.kind == "once" {
				err = b.allWorked(ctx, w, s, sink)
			}
			if err != nil || w.kept == nil {
				return err
			}
			return w.kept(ctx, answered, done)
		})
	}
	if w.down || w.kind != "once" {
		err = run(nil)
	} else {
		err = b.withSink(ctx, run)
	}
	return ok, err
}

// serveWork runs fn with the server of a kind of load on an empty store.
func (b *Bench) serveWork(ctx context.Context, w work, sink string,
	fn func(*serving.Server) error) error {
	if w.serve != nil {
		return w.serve(ctx, sink, fn)
	}
	return b.with(ctx, w.kind, "", sink, fn)
}

// probe reports whether a server works what comes in at a rate, and how many requests it answered.
func (b *Bench) probe(ctx context.Context, w work, s *serving.Server, rate float64,
	phase time.Duration) (ok bool, answered int64, err error) {
	p := b.plan(s, 256)
	p.Path, p.Events = w.path, w.events
	p.First = b.numbers(&p)
	p.Rate, p.Warm, p.Measure = rate, 0, phase
	watch, stop := context.WithCancel(ctx)
	defer stop()
	type seen struct {
		early, late float64
		err         error
	}
	begun := time.Now()
	watched := make(chan seen, 1)
	go func() {
		early, err1 := b.backlogAt(watch, w, s, begun.Add(phase/6), phase/12)
		late, err2 := b.backlogAt(watch, w, s, begun.Add(phase-phase/24), phase/12)
		watched <- seen{early, late, errors.Join(err1, err2)}
	}()
	r, err := b.Load(ctx, p)
	stop()
	got := <-watched
	if err != nil {
		return false, 0, err
	}
	if got.err != nil {
		return false, 0, got.err
	}
	ok = got.late <= got.early+batch && r.P99 < max(phase/lateShare, time.Second) && r.Unsent == 0
	b.logf("%-5s %-10s %6.0f/s for %v: backlog %.0f → %.0f  p99 %v  keeps up: %v", w.kind, w.path,
		rate, phase, got.early, got.late, short(r.P99), ok)
	return ok, r.Answered, nil
}

// backlogAt returns the mean backlog in a span of time around a moment.
func (b *Bench) backlogAt(ctx context.Context, w work, s *serving.Server, at time.Time,
	span time.Duration) (float64, error) {
	select {
	case <-time.After(time.Until(at.Add(-span / 2))):
	case <-ctx.Done():
		return 0, fmt.Errorf("watch backlog: the load ended too early: %w", ctx.Err())
	}
	sum, n := 0.0, 0.0
	for n == 0 || time.Now().Before(at.Add(span/2)) {
		m, err := s.Metrics(ctx)
		if err != nil {
			return 0, err
		}
		sum, n = sum+float64(w.backlog(m)), n+1
		select {
		case <-time.After(sampleEvery):
		case <-ctx.Done():
			return sum / n, nil
		}
	}
	return sum / n, nil
}

// allWorked checks that everything is done, and that the destination got each effect that is.
func (b *Bench) allWorked(ctx context.Context, w work, s, sink *serving.Server) error {
	if err := b.worked(ctx, s, w.path[len("/in/"):]); err != nil {
		return err
	}
	if sink == nil {
		return nil
	}
	var m serving.Metrics
	var failed error
	err := s.Until(ctx, workedTime, 50*time.Millisecond, func() bool {
		m, failed = s.Metrics(ctx)
		return failed != nil || m.Effects("wms", "pending", "sending") == 0
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	got, err := sink.Metrics(ctx)
	if err != nil {
		return err
	}
	if done := m.Effects("wms", "done"); done == 0 || int64(got["sink_effects_total"]) != done {
		return fmt.Errorf("%d effects are done, and the destination got %.0f", done,
			got["sink_effects_total"])
	}
	return nil
}
