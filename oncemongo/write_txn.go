package oncemongo

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/oncekit/once/write"
)

// The labels by which a server says what may be done after an error in a transaction.
const (
	labelTransient = "TransientTransactionError"
	labelUnknown   = "UnknownTransactionCommitResult"
)

// errBegin: the transaction has to be begun again.
var errBegin = errors.New("begin the transaction again")

// inTransaction writes an event and its change as one.
func (w *Writer) inTransaction(ctx context.Context, j *writeJob) (write.Result, error) {
	retry := newRetry()
	for {
		var result write.Result
		err := w.transaction(ctx, j.event.ID, j.owner, func(ctx context.Context) error {
			var err error
			result, err = w.changeAndRemember(ctx, j)
			return err
		})
		if err == nil {
			return result, nil
		}
		result, again, err := w.afterAbort(ctx, j, err)
		if !again {
			return result, err
		}
		if !retry.wait(ctx) {
			if isUnavailable(err) {
				return write.Result{}, err
			}
			return write.Result{}, noAnswer(ctx, "write event", err)
		}
	}
}

// changeAndRemember is what an event's transaction does. A decided error aborts it for good; what
// the server says is looked at by afterAbort.
func (w *Writer) changeAndRemember(ctx context.Context, j *writeJob) (write.Result, error) {
	upsert := j.plan.makes
	if upsert && j.plan.newer != "" {
		// An upsert of a document that is newer would be an insert that fails, and a server
		// aborts a transaction in which anything fails.
		doc, err := w.readDocument(ctx, j)
		if err != nil {
			return write.Result{}, err
		}
		upsert = doc == nil
	}
	doc, err := w.changePlainly(ctx, j, upsert)
	if err != nil && !errors.Is(err, errMissed) {
		return write.Result{}, err
	}
	result := write.Result{Outcome: write.Applied, Numbers: numbersOf(doc, j.plan.numbers)}
	if err != nil {
		if result, err = w.missedInTransaction(ctx, j); err != nil {
			return write.Result{}, err
		}
	}
	if err := w.rememberDone(ctx, j, result); err != nil {
		return write.Result{}, err
	}
	return result, w.stop(stepChange)
}

// changePlainly makes the change if its conditions hold; else it is errMissed.
func (w *Writer) changePlainly(
	ctx context.Context, j *writeJob, upsert bool,
) (bson.Raw, error) {
	if j.plan.insert != nil {
		_, err := collection(w.db, j.target.Name).
			InsertOne(ctx, append(j.self(), j.plan.insert...))
		return nil, err
	}
	return w.update(ctx, j, append(j.self(), j.plan.conditions...), j.plan.onDocument(nil), upsert)
}

// decidedError is why an event is not written, or a record that is to be answered from; no server
// said it.
type decidedError struct {
	err   error
	known *eventRecord
}

func (e *decidedError) Error() string { return "decided" }
func (e *decidedError) Unwrap() error { return e.err }

// missedInTransaction finds out why the conditions of a change don't hold. What is remembered comes
// first: the document may be as it is because of this very event.
func (w *Writer) missedInTransaction(ctx context.Context, j *writeJob) (write.Result, error) {
	var known eventRecord
	err := w.events.FindOne(ctx, byID(j.event.ID)).Decode(&known)
	switch {
	case err == nil && known.State != stateRefused:
		return write.Result{}, &decidedError{known: &known}
	case err != nil && !errors.Is(err, mongo.ErrNoDocuments):
		return write.Result{}, err
	}
	doc, err := w.readDocument(ctx, j)
	if err != nil {
		return write.Result{}, err
	}
	judged, reason := j.plan.judge(j.event.In, doc)
	switch judged {
	case stale:
		return write.Result{Outcome: write.Stale}, nil
	case refusedNow:
		return write.Result{}, &decidedError{err: reason}
	}
	return write.Result{}, errBegin
}

// rememberDone writes the event's record, with the server's time.
func (w *Writer) rememberDone(ctx context.Context, j *writeJob, r write.Result) error {
	filter, update, err := j.doneUpdate(r)
	if err != nil {
		return err
	}
	_, err = w.events.UpdateOne(ctx, filter, update, options.UpdateOne().SetUpsert(true))
	return err
}

// afterAbort tells what an error of a transaction means to the event. again says that it is to be
// begun anew.
func (w *Writer) afterAbort(
	ctx context.Context, j *writeJob, failed error,
) (result write.Result, again bool, err error) {
	var decided *decidedError
	switch {
	case errors.As(failed, &decided) && decided.known == nil:
		return write.Result{}, false, decided.err
	case errors.As(failed, &decided):
		return w.answerKnown(ctx, j, decided.known)
	case hasCode(failed, codeDuplicateKey):
		return w.afterDuplicate(ctx, j, failed)
	case errors.Is(failed, errBegin), !definite(failed):
		return write.Result{}, true, failed
	}
	return write.Result{}, false, w.refusal(ctx, j, failed)
}

// answerKnown answers from a record. One that is pending was begun in steps, by a writer that did
// not use transactions: it is finished in steps.
func (w *Writer) answerKnown(
	ctx context.Context, j *writeJob, known *eventRecord,
) (write.Result, bool, error) {
	switch {
	case known.State == statePending:
		result, again, err := w.meet(ctx, j, known)
		return result, again, err
	case known.Owner == j.owner:
		result, err := known.result() // its commit was heard of only now
		return result, false, err
	}
	kept, err := known.record()
	if err != nil {
		return write.Result{}, false, err
	}
	return kept.Answer(j.digest), false, nil
}

// afterDuplicate finds out what a unique index has refused: the event's id, which is known then;
// the document's key, which somebody else has made meanwhile; or something else.
func (w *Writer) afterDuplicate(
	ctx context.Context, j *writeJob, failed error,
) (write.Result, bool, error) {
	known, err := w.recall(ctx, j.event.ID)
	if err != nil {
		return write.Result{}, false, err
	}
	if known != nil && known.State != stateRefused {
		return w.answerKnown(ctx, j, known)
	}
	doc, err := w.readDocument(ctx, j)
	switch {
	case err != nil:
		return write.Result{}, true, err
	case doc != nil && j.plan.insert != nil:
		return write.Result{}, false, write.ErrExists
	}
	// Twice without a race is another index: as a plain update too, or with no document.
	if j.taken++; j.taken > duplicatesBegun {
		return write.Result{}, false, w.refusal(ctx, j, failed)
	}
	return write.Result{}, true, failed
}

// duplicatesBegun is how often a transaction is begun anew after a duplicate key that may have been
// a race.
const duplicatesBegun = 3

// transaction runs body in a transaction and commits it. A commit of which the answer is lost is
// repeated; if it stays unknown, the event's record tells by its owner whether it is there. Of an
// error of body the transaction is aborted, and the error is returned as it is.
func (w *Writer) transaction(
	ctx context.Context, id string, owner bson.ObjectID, body func(context.Context) error,
) error {
	session, err := w.db.Client().StartSession()
	if err != nil {
		return err
	}
	defer endSession(ctx, session)
	err = session.StartTransaction(options.Transaction().
		SetWriteConcern(majorityWrites()).
		SetReadConcern(readconcern.Snapshot()).
		SetReadPreference(readpref.Primary()))
	if err != nil {
		return err
	}
	if err := body(mongo.NewSessionContext(ctx, session)); err != nil {
		return err
	}
	return w.commit(ctx, session, id, owner)
}

// commit commits, again and again while nobody knows whether it is done.
func (w *Writer) commit(
	ctx context.Context, session *mongo.Session, id string, owner bson.ObjectID,
) error {
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishLimit)
	defer cancel()
	retry := newRetry()
	for {
		err := session.CommitTransaction(mongo.NewSessionContext(detached, session))
		if !hasLabel(err, labelUnknown) || !retry.wait(detached) {
			return w.committed(detached, err, id, owner)
		}
	}
}

// committed reads back what a commit has done that was not confirmed: a record of this owner is
// there only if the transaction was committed.
func (w *Writer) committed(
	ctx context.Context, failed error, id string, owner bson.ObjectID,
) error {
	if failed == nil {
		return nil
	}
	known, err := w.recall(ctx, id)
	if err != nil {
		return errors.Join(failed, err)
	}
	if known != nil && known.Owner == owner && known.State != statePending {
		return nil
	}
	return failed
}
