package oncepg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekit/once/write"
)

// recordSQL records an event of Apply, unless it is there. A rival that is writing the same one is
// waited for.
const recordSQL = `INSERT INTO %s (id, digest, owner, outcome, at)
VALUES ($1::text, $2::bytea, $3::bytea, 'applied', clock_timestamp())
ON CONFLICT (id) DO NOTHING RETURNING id`

// recordedSQL reads an event's record, with the columns of an answer.
const recordedSQL = "SELECT '" + isOld + "', v.id, v.outcome, v.numbers, " +
	"(extract(epoch FROM v.at) * 1000000)::bigint::text, encode(v.digest, 'hex'), " +
	"encode(v.owner, 'hex'), v.target, v.key, " +
	standbyBarrier + " FROM %s v WHERE v.id = ANY ($1::text::text[])"

// Apply runs a function once for an event: what it does in its transaction, and the record of the
// event, are committed together or not at all. Contents are compared as once.ContentID sees them.
// The result's outcome is Applied, Duplicate or Conflict.
//
// The transaction is READ COMMITTED. do may run more than once where rivals get into each other's
// way, each time in a new transaction: it should do nothing outside of it, and neither commit nor
// roll back. Its error is returned after the roll-back. Apply needs a writer over a pool.
func (w *Writer) Apply(
	ctx context.Context, id string, content any, do func(ctx context.Context, tx pgx.Tx) error,
) (write.Result, error) {
	if w.pool == nil {
		return write.Result{}, errors.New("apply event: the writer has no pool")
	}
	digest, err := write.ContentDigest(id, content)
	if err != nil {
		return write.Result{}, fmt.Errorf("apply event: %w", err)
	}
	var token [16]byte
	_, _ = rand.Read(token[:]) // never fails: crypto/rand ends the program instead
	j := &job{
		Event:  write.Event{ID: id},
		digest: digest, owner: token, result: &write.Result{},
	}
	v := solver{shared: w.shared, runner: w.own, until: time.Now().Add(w.conf.Patience)}
	for {
		err := w.applyOnce(ctx, j, do)
		var own *workError
		switch {
		case j.done && err == nil:
			return *j.result, nil
		case errors.As(err, &own) && own.isFinal():
			return write.Result{}, own.err
		}
		if err := v.meet(ctx, err); err != nil {
			return write.Result{}, err
		}
	}
}

// workError is an error of the user's function.
type workError struct {
	err error
	// cut is true if the transaction's connection was closed.
	cut bool
}

// isFinal reports whether the function is not tried again. A time-out or a broken connection is
// PostgreSQL's only if the transaction's own connection is gone: the function may call others.
func (e *workError) isFinal() bool {
	t := troubleOf(e.err)
	return t == noTrouble || t == lost && !e.cut && codeOf(e.err) == ""
}

func (e *workError) Error() string { return e.err.Error() }
func (e *workError) Unwrap() error { return e.err }

// applyOnce tries once. j is done if it is recorded, now or before.
func (w *Writer) applyOnce(
	ctx context.Context, j *job, do func(ctx context.Context, tx pgx.Tx) error,
) error {
	j.done = false // the time before, the commit may have had no answer
	return BeginTxFunc(ctx, w.pool, readCommitted, func(tx pgx.Tx) error {
		recorded, err := pipeline(ctx, tx, []query{{
			fmt.Sprintf(recordSQL, w.events),
			[]any{j.ID, j.digest[:], j.owner[:]},
		}})
		if err != nil {
			return err
		}
		if len(recorded[0]) == 0 {
			// Its snapshot may be older than the rival's commit: only a second statement sees it.
			found, err := pipeline(ctx, tx, []query{{
				fmt.Sprintf(recordedSQL, w.events), []any{arrayText([]*string{&j.ID})},
			}})
			if err != nil || len(found[0]) == 0 { // swept meanwhile
				return err
			}
			return j.take(found[0][0])
		}
		if err := do(ctx, tx); err != nil {
			return &workError{err, tx.Conn().IsClosed()}
		}
		*j.result = write.Result{Outcome: write.Applied}
		j.done = true
		return nil
	})
}
