package queue

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/oncekit/once"
)

// Worker says how the rows of one lane are worked.
type Worker struct {
	Lane string
	// Attempt tries a row and says what came of it. It is called by many goroutines at once. Its
	// context ends when the lease is lost, or when draining came to its limit.
	Attempt func(context.Context, Row) Settlement
	// CommitFailed says what becomes of a row whose settlement's Commit failed, or whose Attempt
	// panicked. Nil: another try after a second.
	CommitFailed func(Row, error) Settlement
	// Limit is how many rows may be in hand now, if that is less than Concurrency: 0 takes none, 1
	// lets one be tried while the others wait. Nil: Concurrency. Changed is signalled when it may
	// have changed.
	Limit   func() int
	Changed <-chan struct{}
	// Concurrency is the number of tries at the same moment. Default 16.
	Concurrency int
	// Lease is renewed at a third while the attempt runs. Default 30s.
	Lease time.Duration
	// MaxLost, HoldLost and Block as in LeaseRequest; Block is the same for all rows.
	MaxLost  int
	HoldLost bool
	Block    bool
	// Backoff bounds the pace at which a lane is probed while every try fails: from its Base up to
	// its Cap. Default 500ms and 1m.
	Backoff Backoff
}

// Stepping says how the rows of a lane are decided inside the store's transaction.
type Stepping struct {
	StepRequest
}

// Config says how a Dispatcher behaves. The zero value works.
type Config struct {
	// Poll is how often a lane is looked at that nothing rang for. Default 1s.
	Poll time.Duration
	// Drain is how long tries that run may go on after Run's context ended. Default 30s.
	Drain time.Duration
	// SweepEvery is the pause between two looks for what is past its retention. Default 10s.
	SweepEvery time.Duration
	// Logger gets what an operator should know. Default: discards.
	Logger *slog.Logger
	// Observe is told of each try that was settled. It is called by many goroutines at once.
	// Default: nobody is told.
	Observe func(Row, Settlement, time.Duration)
	// Tracer follows the tries of workers. What is decided inside the store's transaction is told
	// by StepRequest.Settled instead. Default: nobody does.
	Tracer Tracer
}

func (c Config) withDefaults() Config {
	if c.Poll <= 0 {
		c.Poll = time.Second
	}
	if c.Drain <= 0 {
		c.Drain = 30 * time.Second
	}
	if c.SweepEvery <= 0 {
		c.SweepEvery = 10 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Observe == nil {
		c.Observe = func(Row, Settlement, time.Duration) {}
	}
	return c
}

// Dispatcher takes due rows lane by lane, has them worked, and settles them. One lane never waits
// for another.
type Dispatcher struct {
	store   Store
	bells   Notifier // nil: lanes are polled
	cfg     Config
	workers []Worker
	steps   []Stepping
}

// NewDispatcher returns a dispatcher over a store. It returns an error for a worker without a lane
// or an Attempt, for two that share a lane, and for steps over a store that is no Transactor.
func NewDispatcher(store Store, workers []Worker, steps []Stepping, cfg Config) (*Dispatcher,
	error) {
	d := &Dispatcher{store: store, cfg: cfg.withDefaults()}
	d.bells, _ = store.(Notifier)
	seen := map[string]bool{}
	for _, w := range workers {
		if w.Lane == "" || w.Attempt == nil || seen[w.Lane] {
			return nil, errors.New("new dispatcher: each worker needs an Attempt and a lane of " +
				"its own")
		}
		seen[w.Lane] = true
		d.workers = append(d.workers, w.withDefaults())
	}
	if _, ok := store.(Transactor); !ok && len(steps) > 0 {
		return nil, errors.New("new dispatcher: this store can't decide inside its transactions")
	}
	for _, s := range steps {
		if s.Lane == "" || s.Decide == nil || seen[s.Lane] {
			return nil, errors.New("new dispatcher: each step needs a Decide and a lane of its own")
		}
		seen[s.Lane] = true
		d.steps = append(d.steps, s)
	}
	return d, nil
}

func (w Worker) withDefaults() Worker {
	if w.Concurrency <= 0 {
		w.Concurrency = 16
	}
	if w.Lease <= 0 {
		w.Lease = 30 * time.Second
	}
	w.Backoff = w.Backoff.withDefaults()
	if w.CommitFailed == nil {
		w.CommitFailed = func(_ Row, err error) Settlement {
			return Settlement{State: Pending, RetryIn: time.Second, Error: err.Error(),
				Public: Public(err)}
		}
	}
	return w
}

// Run works the lanes until ctx ends, then lets running tries end within Config.Drain. What was not
// begun stays due.
func (d *Dispatcher) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, w := range d.workers {
		l := newLane(d, w)
		wg.Go(func() { l.run(ctx) })
	}
	for _, s := range d.steps {
		wg.Go(func() { d.step(ctx, s) })
	}
	wg.Go(func() { d.sweep(ctx) })
	wg.Wait()
}

// bell returns the lane's bell; nil, which never rings, for a store without.
func (d *Dispatcher) bell(lane string) <-chan struct{} {
	if d.bells == nil {
		return nil
	}
	return d.bells.Notify(lane)
}

// step works a lane whose rows are decided inside the store's transaction.
func (d *Dispatcher) step(ctx context.Context, s Stepping) {
	store := d.store.(Transactor) // NewDispatcher made sure
	bell, failures := d.bell(s.Lane), 0
	for ctx.Err() == nil {
		done, err := store.Step(ctx, s.StepRequest)
		wait := d.cfg.Poll
		switch {
		case err != nil && ctx.Err() != nil:
			return
		case err != nil:
			failures++
			wait = Backoff{}.withDefaults().Bound(failures)
			d.cfg.Logger.Error("step a lane", "lane", s.Lane, "error", err, "next_try_in", wait)
			pause(ctx, nil, wait)
			continue
		case done.More:
			wait = 0
		case !done.NextAt.IsZero():
			wait = min(wait, max(time.Until(done.NextAt), 0))
		}
		failures = 0
		if wait > 0 {
			pause(ctx, bell, wait)
		}
	}
}

// sweepBatch is how much one sweep may remove; sweepPause lets others have the store between two.
const (
	sweepBatch = 200
	sweepPause = 20 * time.Millisecond
)

// sweep removes what is past its retention, in small steps.
func (d *Dispatcher) sweep(ctx context.Context) {
	for {
		n, err := d.store.Sweep(ctx, sweepBatch)
		if err != nil && ctx.Err() == nil && !errors.Is(err, once.ErrUnavailable) {
			d.cfg.Logger.Error("sweep", "error", err)
		}
		wait := d.cfg.SweepEvery
		if err == nil && n >= sweepBatch {
			wait = sweepPause
		}
		if !pause(ctx, nil, wait) {
			return
		}
	}
}

// pause waits for a bell, or until the time has passed. It reports false when ctx ended.
func pause(ctx context.Context, bell <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-bell:
	case <-t.C:
	}
	return ctx.Err() == nil
}
