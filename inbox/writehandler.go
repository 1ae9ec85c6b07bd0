package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
	"github.com/oncekit/once/write"
)

// WriteConfig says what callbacks change in a database. Writer and Event are required.
type WriteConfig struct {
	Writer write.Writer
	// Event makes the change that a callback is. Its ID is set to that of the callback: the same in
	// every attempt and of each repeat, whatever the content is. It has to make the same change of
	// the same callback. An error is permanent.
	Event func(Callback) (write.Event, error)
	// Refuses reports whether an error is about us and not about the event: a login that is turned
	// down. A missing index is one in any case. Default: no other one is.
	Refuses func(error) bool
	// Probe is how long after a refusal one callback is tried, to see whether it still stands.
	// Default 1 min.
	Probe time.Duration
	// Logger is told when a refusal begins and ends. Default: discards.
	Logger *slog.Logger
}

// WriteHandler is a Handler that changes a document or a row for each callback, once in effect:
// what was written before the process ended, or before an answer was lost, is known by the
// callback's id when it is written again. So no attempt of it is ever unknown.
//
// Applied and duplicate are done. A callback that is older than its document is stale. An event
// that can't be written, a document that is not as the change expects and another content under the
// same id are permanent. A missing index and what WriteConfig.Refuses pause the handler, which uses
// up no tries. A transition that the document's state doesn't allow yet, and everything else, is
// tried again after a backoff.
type WriteHandler struct {
	*gated
	cfg WriteConfig
}

var (
	_ Handler  = (*WriteHandler)(nil)
	_ workOnly = (*WriteHandler)(nil)
	_ pauser   = (*WriteHandler)(nil)
)

// NewWriteHandler returns a WriteHandler. It does no I/O.
func NewWriteHandler(cfg WriteConfig) (*WriteHandler, error) {
	if cfg.Writer == nil || cfg.Event == nil {
		return nil, errors.New("make write handler: Writer and Event are required")
	}
	setDefault(&cfg.Probe, defaultProbe)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Refuses == nil {
		cfg.Refuses = func(error) bool { return false }
	}
	return &WriteHandler{cfg: cfg,
		gated: &gated{other: "database", probe: cfg.Probe, logger: cfg.Logger}}, nil
}

// Work writes the callback's change. While the database refuses us it does nothing but for the
// probes.
func (h *WriteHandler) Work(ctx context.Context, c Callback) (any, error) {
	return nil, h.try(func() error { return h.write(ctx, c) })
}

// Commit does nothing.
func (h *WriteHandler) Commit(context.Context, queue.Tx, Callback, any) error { return nil }

func (h *WriteHandler) workOnly() {}

func (h *WriteHandler) write(ctx context.Context, c Callback) error {
	e, err := h.cfg.Event(c)
	if err != nil {
		return Permanent(&shownError{"no change can be made of the callback", err})
	}
	e.ID = c.ID
	r, err := h.cfg.Writer.Write(ctx, e)
	if err == nil {
		err = r.Err
	}
	if err != nil {
		return h.judge(err)
	}
	outcome := r.Outcome
	if outcome == write.Duplicate && r.First != nil {
		outcome = r.First.Outcome // what became of the callback in an earlier attempt
	}
	switch outcome {
	case write.Applied, write.Duplicate:
		return nil
	case write.Stale:
		return Stale(&shownError{shown: "the document is newer"})
	case write.Conflict:
		at := ""
		if r.First != nil {
			at = " at " + r.First.At.UTC().Format(time.RFC3339)
		}
		return Permanent(&shownError{shown: "another change was written under the callback's id" +
			at + "; nothing was changed now"})
	}
	return Permanent(fmt.Errorf("the writer answered %q, which is no outcome", outcome))
}

// judge says what an error of a writer means for the callback. The errors of package write hold no
// value of the event.
func (h *WriteHandler) judge(err error) error {
	var event *write.EventError
	var shape *write.ShapeError
	var index *write.IndexError
	switch {
	case errors.As(err, &index):
		return mark(refused, pausedWait, shownAs(index.In+" has no unique index over "+
			index.Key+" alone", err)) // the whole text lists keys
	case h.cfg.Refuses(err):
		return mark(refused, pausedWait, shownAs("the database refuses us", err))
	case errors.As(err, &event):
		return Permanent(shownAs(event.Error(), err))
	case errors.As(err, &shape):
		return Permanent(shownAs(shape.Error(), err))
	case errors.Is(err, write.ErrEvent), errors.Is(err, write.ErrShape),
		errors.Is(err, once.ErrTooLarge), errors.Is(err, write.ErrExists):
		return Permanent(err)
	}
	if queue.Public(err) == "" {
		err = shownAs("the write did not succeed", err)
	}
	return RetryAfter(0, err) // not unknown: the next try finds out
}

// shownAs lets a log show only a part of an error, whose whole text stays as it is.
func shownAs(shown string, err error) error { return &partlyShown{shown, err} }

type partlyShown struct {
	shown string
	err   error
}

// Error returns the whole text.
func (e *partlyShown) Error() string { return e.err.Error() }

// Public returns the part that may be shown: see [queue.Public].
func (e *partlyShown) Public() string { return e.shown }

// Unwrap returns the cause.
func (e *partlyShown) Unwrap() error { return e.err }
