package once

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Result is what [Do] returns.
type Result[T any] struct {
	// Value is what the function returned, in this call or in the first one.
	Value T
	// Replayed is true if the function did not run in this call.
	Replayed bool
	// NotStored is why the value could not be stored, although the function ran and the value is
	// true; nil if it was. [ErrTooLarge], or an error of encoding/json alone: it will not be run
	// again, and a repeat gets [ErrNotKept]. Otherwise the record is unknown.
	NotStored error
}

// NoEffect marks an error as one of work that is known to have had no effect, such as a connection
// that was never made: the key is freed, and a repeat runs the work again. Any other error of the
// work is a lost attempt, since nobody can know how far it came. It returns nil for nil.
func NoEffect(err error) error {
	if err == nil {
		return nil
	}
	return &noEffectError{err}
}

// HadNoEffect reports whether an error was marked by [NoEffect].
func HadNoEffect(err error) bool {
	_, ok := errors.AsType[*noEffectError](err)
	return ok
}

type noEffectError struct{ err error }

func (e *noEffectError) Error() string { return e.err.Error() }
func (e *noEffectError) Unwrap() error { return e.err }

// Do runs fn once for an operation, however often it is called, and returns what fn returned then.
// The value is stored as encoding/json writes it.
//
// An error of fn ends the attempt: one marked by [NoEffect] frees the key; any other one, a panic
// and a call of runtime.Goexit make the attempt a lost one, which the guard's OnUnknown lets run
// again or holds. A result that is final, such as a refusal, belongs into T, not into the error.
//
// Without a result it returns the errors of [Guard.Begin], of fn, and [ErrNotKept] for work that is
// done and whose value was not kept. It is safe for concurrent use.
func Do[T any](
	ctx context.Context, g *Guard, op Operation, fn func(ctx context.Context) (T, error),
) (Result[T], error) {
	w, err := g.Begin(ctx, op)
	if replay, ok := errors.AsType[*ReplayError](err); ok {
		return replayed[T](replay.Outcome)
	}
	if err != nil {
		return Result[T]{}, err
	}
	done := false
	defer func() {
		if !done {
			_ = w.Lose() // what ends this goroutine goes on; the guard logs and counts
		}
	}()
	value, err := fn(w.Context())
	result, err := finish(w, value, err)
	done = true // not earlier: the encoding of a value may panic too
	return result, err
}

// finish settles the work by what its function returned.
func finish[T any](w *Work, value T, err error) (Result[T], error) {
	switch {
	case HadNoEffect(err):
		return Result[T]{}, join(err, w.Release())
	case err != nil:
		return Result[T]{}, join(err, w.Lose())
	}
	data, err := json.Marshal(value)
	if err != nil {
		err = fmt.Errorf("encode result: %w", err)
		return Result[T]{
			Value: value, NotStored: join(err, w.Complete(Outcome{Kind: Tombstone})),
		}, nil
	}
	return Result[T]{Value: value, NotStored: w.Complete(Outcome{Data: data})}, nil
}

// join returns the error itself where there is no other.
func join(err, other error) error {
	if other == nil {
		return err
	}
	return errors.Join(err, other)
}

func replayed[T any](o Outcome) (Result[T], error) {
	if o.Kind == Tombstone {
		return Result[T]{}, ErrNotKept
	}
	r := Result[T]{Replayed: true}
	if err := json.Unmarshal(o.Data, &r.Value); err != nil {
		return Result[T]{}, fmt.Errorf("decode stored result: %w: %w", ErrCorrupt, err)
	}
	return r, nil
}
