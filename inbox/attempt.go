package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/oncekit/once/queue"
)

const (
	defaultHandlerTimeout = 5 * time.Minute
	defaultRetryCap       = 5 * time.Minute

	// maxRetryAfter bounds what a handler can ask for, so that no row sleeps for ever.
	maxRetryAfter = 24 * time.Hour

	// maxError bounds the error that is stored with an attempt, in bytes.
	maxError = 1 << 10
)

// HandlerConfig says how callbacks are worked. Only Handler is required.
type HandlerConfig struct {
	// Name of the handler, for people.
	Name    string
	Handler Handler
	// Timeout of one Work. Default 5 min.
	Timeout time.Duration
	Retry   Retry
	// HoldUnknown holds a callback whose attempt may have had its effect (it was marked Unknown,
	// panicked, timed out or was stopped) for a person, instead of trying again
	// (on_unknown: hold).
	HoldUnknown bool
	// Block keeps later callbacks of an order key waiting behind one that is dead or held (on_dead:
	// block).
	Block bool
	// Concurrency is how many callbacks are worked at once, for whoever runs Attempt. Default 16.
	Concurrency int
	// Logger gets panics. Default: discarded.
	Logger *slog.Logger
}

// Retry is a policy of repeated tries: exponential with full jitter.
type Retry struct {
	Base     time.Duration // longest first wait; default 500ms
	Cap      time.Duration // longest wait; default 5m
	Attempts int           // tries until it is a dead letter; 0: no limit
}

// wait returns the wait after the nth try.
func (r Retry) wait(n int) time.Duration {
	setDefault(&r.Cap, defaultRetryCap)
	return queue.Backoff{Base: r.Base, Cap: r.Cap}.Jitter(n)
}

// Attempt works one leased row and returns its settlement; cfg.Handler's Commit is in it. It
// returns when Work does: Work is told to end by its context at cfg.Timeout and when ctx ends, and
// is left behind if it hasn't 3 s later. It doesn't panic. Safe for concurrent use.
func Attempt(ctx context.Context, cfg HandlerConfig, row queue.Row) queue.Settlement {
	if ctx.Err() != nil {
		return queue.Settlement{
			Grant: row.Grant(), State: queue.Pending, NotTried: true,
			Error: "stopped before the try", Public: "stopped before the try",
		}
	}
	c, err := callbackOf(&row)
	if err != nil {
		return failed(ctx, cfg, row, Permanent(err))
	}
	setDefault(&cfg.Timeout, defaultHandlerTimeout)
	workCtx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	result, err := work(workCtx, cfg, c)
	if err != nil {
		return failed(ctx, cfg, row, ended(workCtx, err))
	}
	s := queue.Settlement{Grant: row.Grant(), State: queue.Done}
	if _, only := cfg.Handler.(workOnly); !only {
		s.Commit = func(limit context.Context, tx queue.Tx) error {
			return cfg.Handler.Commit(&valuedContext{limit, ctx}, tx, c, result)
		}
	}
	return s
}

// CommitFailed returns the settlement that follows when Settle answered err, a *queue.CommitError,
// to the one of [Attempt]. Nothing of that one was applied, so the row is tried again or is dead.
func CommitFailed(cfg HandlerConfig, row queue.Row, err error) queue.Settlement {
	f := failureOf(err)
	if f.kind == unknown { // it was undone, that is known
		err = &failure{kind: transient, err: err}
	}
	return failed(context.Background(), cfg, row, err)
}

// abandonAfter is how long a Work may go on after its context has ended.
const abandonAfter = 3 * time.Second

// worked is what a Work returned.
type worked struct {
	result any
	err    error
}

// work runs the handler's Work in a goroutine of its own. One that ends its goroutine
// (runtime.Goexit) doesn't end the one that settles; one that doesn't obey its context is left
// behind, so that it holds up nothing but itself. Both are unknown.
func work(ctx context.Context, cfg HandlerConfig, c Callback) (any, error) {
	done := make(chan worked, 1)
	go func() {
		w := worked{err: Unknown(&shownError{"handler ended its goroutine",
			errors.New("runtime.Goexit")})}
		defer func() { done <- w }()
		w.result, w.err = caught(ctx, cfg, c)
	}()
	select {
	case w := <-done:
		return w.result, w.err
	case <-ctx.Done():
	}
	limit := time.NewTimer(abandonAfter)
	defer limit.Stop()
	select {
	case w := <-done:
		return w.result, w.err
	case <-limit.C:
	}
	if cfg.Logger != nil {
		cfg.Logger.Error("a handler does not end although its context has; it is left behind, and "+
			"may run beside the next try", "handler", cfg.Name, "callback", c.ID)
	}
	return nil, Unknown(&shownError{"handler did not end when its context did",
		errors.New("it was left behind")})
}

// caught runs the handler's Work. A panic may come after the effect, so it is unknown.
func caught(ctx context.Context, cfg HandlerConfig, c Callback) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			if cfg.Logger != nil {
				cfg.Logger.Error("handler panicked", "handler", cfg.Name, "callback", c.ID,
					"panic", queue.PanicText(p), "stack", string(debug.Stack()))
			}
			result = nil
			err = Unknown(&shownError{"handler panicked", errors.New(fmt.Sprint(p))})
		}
	}()
	return cfg.Handler.Work(ctx, c)
}

// ended marks an unmarked error of a Work that was told to stop: how far it came is not known.
func ended(ctx context.Context, err error) error {
	var marked *failure
	if ctx.Err() == nil || errors.As(err, &marked) {
		return err
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Unknown(&shownError{"handler timed out", err})
	}
	return Unknown(&shownError{"handler was stopped", err})
}

// failed returns the settlement of a try that failed with err.
func failed(ctx context.Context, cfg HandlerConfig, row queue.Row, err error) queue.Settlement {
	f := failureOf(err)
	s := queue.Settlement{
		Grant: row.Grant(), State: queue.Pending, Error: cutText(err.Error(), maxError),
		Public: f.shown(),
	}
	stopped := ctx.Err() != nil // by us, not by a failure: it doesn't use up the tries
	switch {
	case f.kind == refused:
		s.NotTried, s.RetryIn = true, f.after
	case f.kind == stale:
		s.State = queue.Stale
	case f.kind == permanent:
		s.State, s.DeadCause, s.Block = queue.Dead, queue.CausePermanent, cfg.Block
	case f.kind == unknown && cfg.HoldUnknown:
		s.State, s.Block = queue.Held, cfg.Block
	case cfg.Retry.Attempts > 0 && row.Attempt >= cfg.Retry.Attempts && !stopped:
		s.State, s.DeadCause, s.Block = queue.Dead, queue.CauseTransient, cfg.Block
	case f.kind == retryAfter && f.after > 0:
		s.RetryIn = queue.Spread(min(f.after, maxRetryAfter), rand.Int64N)
	default:
		s.RetryIn = cfg.Retry.wait(row.Attempt)
	}
	return s
}
