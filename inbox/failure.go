package inbox

import (
	"errors"
	"time"

	"github.com/oncekit/once/queue"
)

// failure is an error of a handler together with what it means for the callback.
type failure struct {
	kind  failureKind
	after time.Duration
	err   error
}

type failureKind uint8

const (
	transient failureKind = iota // another try after a backoff
	retryAfter
	refused // it had no effect, and the refusal is not of this callback
	permanent
	unknown
	stale // it came too late
)

// Error returns the text of the cause.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.err }

// Permanent says that no other try will help: the callback becomes a dead letter now.
// Permanent(nil) is nil.
func Permanent(err error) error { return mark(permanent, 0, err) }

// RetryAfter says that the work had no effect and should be tried again after d instead of the
// backoff, at most 24 h, and up to a quarter more: what was turned away together shall not come
// again together. The number of tries is limited all the same. RetryAfter(d, nil) is nil.
func RetryAfter(d time.Duration, err error) error { return mark(retryAfter, d, err) }

// Unknown says that nobody can know whether the work had its effect. With HoldUnknown the callback
// is held for a person, else it is tried again. Unknown(nil) is nil.
func Unknown(err error) error { return mark(unknown, 0, err) }

// Stale says that the callback came too late to have an effect: something newer was there. It
// becomes stale and is kept. Stale(nil) is nil.
func Stale(err error) error { return mark(stale, 0, err) }

// shownError is an error with the part of it that a log may show.
type shownError struct {
	shown string
	err   error // nil: there is no more to say
}

// Error returns the whole text.
func (e *shownError) Error() string {
	if e.err == nil {
		return e.shown
	}
	return e.shown + ": " + e.err.Error()
}

// Public returns the part that may be shown: see [queue.Public].
func (e *shownError) Public() string { return e.shown }

// Unwrap returns the rest; nil: there is none.
func (e *shownError) Unwrap() error { return e.err }

// shown returns what a log may show of the error of an attempt. The own text of a handler in Go may
// hold a part of the message.
func (f *failure) shown() string {
	if s := queue.Public(f.err); s != "" {
		return s
	}
	switch f.kind {
	case permanent:
		return "the handler turned it down for good"
	case stale:
		return "it came too late"
	case unknown:
		return "the handler does not know whether it had its effect"
	}
	return "the handler failed"
}

func mark(kind failureKind, d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &failure{kind: kind, after: d, err: err}
}

// failureOf returns what an error means; an unmarked one is transient.
func failureOf(err error) failure {
	var f *failure
	if errors.As(err, &f) {
		return failure{kind: f.kind, after: f.after, err: err}
	}
	return failure{kind: transient, err: err}
}
