package inbox

import (
	"errors"
	"time"
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
)

// Error returns the text of the cause.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.err }

// Permanent says that no other try will help: the callback becomes a dead letter now.
// Permanent(nil) is nil.
func Permanent(err error) error { return mark(permanent, 0, err) }

// RetryAfter says that the work had no effect and should be tried again after d instead of the
// backoff, at most 24 h. The number of tries is limited all the same. RetryAfter(d, nil) is nil.
func RetryAfter(d time.Duration, err error) error { return mark(retryAfter, d, err) }

// Unknown says that nobody can know whether the work had its effect. With HoldUnknown the callback
// is held for a person, else it is tried again. Unknown(nil) is nil.
func Unknown(err error) error { return mark(unknown, 0, err) }

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
