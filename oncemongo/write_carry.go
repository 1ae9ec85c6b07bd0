package oncemongo

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/oncekit/once/write"
)

// finishLimit is how long the steps after the change may take: they go on when the caller's context
// has ended.
const finishLimit = 10 * time.Second

// carry makes the change of an event whose record is pending, and marks the record.
//
// A document has an epoch. Whoever remembered the event changes the document at once, if its epoch
// is one that it had before the record was there: then nobody has finished the event since. Who
// comes later (or whose first attempt missed) reads the document, then looks whether the record is
// pending still, and then changes the document if it still has the epoch that was read. Everybody
// but the owner registers in the record by that look, and takes the event's id out of the document
// in the end only by raising the epoch; so does the owner if somebody had registered when it marked
// the record, or if an answer was lost and a command of its own may still be on its way. So no
// attempt that comes late, however long it was on its way, finds the id gone and the epoch as it
// was.
func (w *Writer) carry(ctx context.Context, j *writeJob) (write.Result, error) {
	if !j.rivals {
		doc, err := w.attempt(ctx, j, j.epoch)
		if err == nil {
			return w.done(ctx, j, numbersOf(doc, j.plan.numbers))
		}
		if definite(err) && !errors.Is(err, errMissed) {
			return w.refuse(ctx, j, w.refusal(ctx, j, err))
		}
		j.missed = err
	}
	return w.carryOn(ctx, j)
}

// carryOn is carry after the first attempt.
func (w *Writer) carryOn(ctx context.Context, j *writeJob) (write.Result, error) {
	retry := newRetry()
	for {
		result, finished, err := w.look(ctx, j)
		if finished {
			return result, err
		}
		if !retry.wait(ctx) {
			if errors.Is(j.missed, errMissed) && err == nil {
				return write.Result{}, write.ErrBusy
			}
			return write.Result{}, noAnswer(ctx, "write event", errors.Join(err, j.missed))
		}
	}
}

// look reads the document and does what follows from it, once. finished is false if it has to be
// done again: somebody was faster, the list is full, or an answer was lost.
func (w *Writer) look(
	ctx context.Context, j *writeJob,
) (result write.Result, finished bool, err error) {
	doc, err := w.readDocument(ctx, j)
	if err != nil {
		return write.Result{}, false, err
	}
	own := ownOf(doc)
	w.epochs.put(j, own.Epoch)
	there := slices.Contains(own.IDs, j.event.ID)
	if there && j.rivals {
		result, err := w.done(ctx, j, numbersOf(doc, j.plan.numbers))
		return result, true, err
	}
	judged, reason := j.plan.judge(j.event.In, doc)
	if !j.rivals && !there && judged != may {
		return w.decide(ctx, j, judged, reason, own.Epoch)
	}
	before, err := w.register(ctx, j)
	if err != nil || before == nil {
		return w.ended(ctx, j, err)
	}
	j.rivals = j.rivals || before.Tries > 0
	switch {
	case there && j.rivals:
		return write.Result{}, false, nil // somebody's attempt: the next look finishes it
	case there:
		// Nobody else has tried, and this call's attempts missed: the id is left from an earlier
		// record of it, which was forgotten.
		return write.Result{}, false, w.release(ctx, j, true)
	case judged != may:
		return w.decide(ctx, j, judged, reason, own.Epoch)
	case len(own.IDs) >= w.conf.Pending:
		j.missed = errMissed
		return write.Result{}, false, w.clear(ctx, j, own)
	case doc == nil && otherIndex(j):
		result, err := w.refuse(ctx, j, w.refusal(ctx, j, j.missed))
		return result, true, err
	}
	if err := w.stop(stepLook); err != nil {
		return write.Result{}, true, err
	}
	changed, err := w.attempt(ctx, j, own.Epoch)
	j.missed = err
	switch {
	case err == nil:
		result, err := w.done(ctx, j, numbersOf(changed, j.plan.numbers))
		return result, true, err
	case definite(err) && !errors.Is(err, errMissed):
		result, err := w.refuse(ctx, j, w.refusal(ctx, j, err))
		return result, true, err
	}
	return write.Result{}, false, nil
}

// otherIndex tells whether a document could not be made although none has its key.
func otherIndex(j *writeJob) bool {
	var taken *takenError
	if !errors.As(j.missed, &taken) {
		return false
	}
	j.taken++
	return j.taken > 1 // at the first time, it may have been deleted meanwhile
}

// ownMembers is what the steps leave in a document.
type ownMembers struct {
	IDs   []string `bson:"ids"`
	Epoch int64    `bson:"e"`
}

// ownOf reads a document's; what is no such thing is none.
func ownOf(doc bson.Raw) ownMembers {
	var own ownMembers
	if sub, ok := doc.Lookup(ownMember).DocumentOK(); ok {
		_ = bson.Unmarshal(sub, &own)
	}
	return own
}

// readDocument reads what decides about a change; nil if there is no document.
func (w *Writer) readDocument(ctx context.Context, j *writeJob) (bson.Raw, error) {
	doc, err := collection(w.db, j.target.Name).
		FindOne(ctx, j.self(), options.FindOne().SetProjection(j.plan.needs(j.target.Key))).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	return doc, err
}

// register looks whether the record is pending, and returns it as it was before; nil if it is not,
// or not this event's any more. Everybody but the owner is counted in it. It is a write also for
// the owner, who changes nothing: one that a majority confirms speaks of now, which a read may not.
func (w *Writer) register(ctx context.Context, j *writeJob) (*eventRecord, error) {
	update := bson.D{{Key: "$set", Value: bson.D{{Key: "state", Value: statePending}}}}
	if !j.mine {
		update = bson.D{{Key: "$inc", Value: bson.D{{Key: "tries", Value: int64(1)}}}}
	}
	var before eventRecord
	err := w.events.FindOneAndUpdate(ctx,
		append(byID(j.event.ID), bson.E{Key: "state", Value: statePending},
			bson.E{Key: "owner", Value: j.owner}), update).Decode(&before)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	j.tries = before.Tries
	if !j.mine {
		j.tries++
	}
	return &before, nil
}

// ended answers from a record that somebody else has brought to its end.
func (w *Writer) ended(
	ctx context.Context, j *writeJob, err error,
) (write.Result, bool, error) {
	if err != nil {
		return write.Result{}, false, err
	}
	known, err := w.recall(ctx, j.event.ID)
	switch {
	case err != nil:
		return write.Result{}, false, err
	case known == nil, known.Owner != j.owner, known.State == stateRefused:
		// Refused by who finished it, and perhaps taken over since.
		return write.Result{}, true, write.ErrBusy
	}
	result, err := known.result()
	return result, true, err
}

// result is what came of an event to whoever brought it first.
func (r *eventRecord) result() (write.Result, error) {
	kept, err := r.record()
	if err != nil {
		return write.Result{}, err
	}
	return write.Result{Outcome: kept.First.Outcome, Numbers: kept.Numbers}, nil
}
