package oncemongo

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/oncekit/once/write"
)

// The four steps of an event, where there are no transactions. They are named for tests, which stop
// a writer after one.
const (
	stepRecord  = "record"  // 1: the record says what is to be done
	stepChange  = "change"  // 2: the document is changed and holds the event's id
	stepMark    = "mark"    // 3: the record says that it is done
	stepRelease = "release" // 4: the id is out of the document
	// stepLook is before step 2 of whoever has looked at the document and the record.
	stepLook = "look"
)

// inSteps writes an event in steps: its record, then all that follows from it.
func (w *Writer) inSteps(ctx context.Context, j *writeJob) (write.Result, error) {
	for ctx.Err() == nil {
		j.epoch = w.epochs.get(j) // before the record is there
		known, err := w.remember(ctx, j)
		if err != nil {
			return write.Result{}, err
		}
		if known == nil {
			return w.carry(ctx, j)
		}
		result, again, err := w.meet(ctx, j, known)
		if !again {
			return result, err
		}
	}
	return write.Result{}, noAnswer(ctx, "write event", nil)
}

// remember is step 1: it inserts the event's record, or returns the one that is there. An insert
// whose answer was lost is sent again; the owner in the record tells that it is this call's.
func (w *Writer) remember(ctx context.Context, j *writeJob) (*eventRecord, error) {
	retry := newRetry()
	for {
		_, err := w.events.InsertOne(ctx, j.record(statePending))
		switch {
		case err == nil:
			return nil, w.stop(stepRecord)
		case hasCode(err, codeDuplicateKey):
			known, err := w.recall(ctx, j.event.ID)
			if err != nil {
				return nil, err
			}
			if known != nil && known.Owner == j.owner && known.State == statePending {
				return nil, w.stop(stepRecord)
			}
			if known != nil {
				return known, nil
			}
			// It was forgotten between the two calls.
		case definite(err):
			return nil, w.refusal(ctx, j, err)
		}
		if !retry.wait(ctx) {
			return nil, noAnswer(ctx, "remember event", err)
		}
	}
}

// recall reads an event's record; nil if there is none.
func (w *Writer) recall(ctx context.Context, id string) (*eventRecord, error) {
	retry := newRetry()
	for {
		var r eventRecord
		err := w.events.FindOne(ctx, byID(id)).Decode(&r)
		switch {
		case err == nil:
			return &r, nil
		case errors.Is(err, mongo.ErrNoDocuments):
			return nil, nil
		case definite(err) || !retry.wait(ctx):
			return nil, noAnswer(ctx, "recall event", err)
		}
	}
}

func byID(id string) bson.D { return bson.D{{Key: "_id", Value: id}} }

// meet answers an event whose id is known. One that is pending is finished first, whoever began
// it; one that was refused is taken over, or tried again from its record.
func (w *Writer) meet(
	ctx context.Context, j *writeJob, known *eventRecord,
) (result write.Result, again bool, err error) {
	switch known.State {
	case statePending:
		other, err := w.jobOf(known, w.now())
		if err != nil {
			return write.Result{}, false, err
		}
		if _, err := w.carry(ctx, other); err != nil && other.digest == j.digest {
			return write.Result{}, false, err
		} else if errors.Is(err, write.ErrBusy) || ctx.Err() != nil {
			return write.Result{}, false, noAnswer(ctx, "finish event", err)
		}
		return write.Result{}, true, nil
	case stateRefused:
		taken, err := w.takeOver(ctx, j, known)
		if err != nil || !taken {
			return write.Result{}, err == nil, err
		}
		if err := w.stop(stepRecord); err != nil {
			return write.Result{}, false, err
		}
		result, err := w.carry(ctx, j)
		return result, false, err
	}
	if known.Owner == j.owner { // the answer to its insert was lost, and somebody has finished it
		result, err := known.result()
		return result, false, err
	}
	r, err := known.record()
	if err != nil {
		return write.Result{}, false, err
	}
	return r.Answer(j.digest), false, nil
}

// takeOver makes a refused record this call's, unless another call was faster. Its tries stay: an
// attempt of former times may still be on its way.
func (w *Writer) takeOver(ctx context.Context, j *writeJob, known *eventRecord) (bool, error) {
	set := bson.D{
		{Key: "state", Value: statePending},
		{Key: "digest", Value: bson.Binary{Data: j.digest[:]}},
		{Key: "in", Value: j.event.In},
		{Key: "key", Value: keyToBSON(j.event.Key)},
		{Key: "change", Value: j.change},
		{Key: "owner", Value: j.owner},
	}
	filter := append(byID(known.ID),
		bson.E{Key: "state", Value: stateRefused}, bson.E{Key: "owner", Value: known.Owner})
	up, err := w.events.UpdateOne(ctx, filter, bson.D{{Key: "$set", Value: set}})
	if err != nil {
		return false, noAnswer(ctx, "remember event", err)
	}
	j.tries, j.rivals = known.Tries, known.Tries > 0
	return up.MatchedCount == 1, nil
}

// errMissed: the conditions of a change did not hold.
var errMissed = errors.New("the conditions do not hold")

// takenError is errMissed of a change that would have made the document: a unique index has what it
// would make, that of the key or another one.
type takenError struct{ err error }

func (e *takenError) Error() string       { return e.err.Error() }
func (e *takenError) Unwrap() error       { return e.err }
func (e *takenError) Is(other error) bool { return other == errMissed }

// attempt is step 2: one update of the document that makes the change and writes the event's id
// into it, if the id is not there, the epoch is the one given, and the list has room. The error is
// errMissed, a definite one, or one after which nobody knows; j.rivals then says so.
func (w *Writer) attempt(ctx context.Context, j *writeJob, epoch int64) (bson.Raw, error) {
	// Only documents of the first epoch can be missing.
	doc, err := w.changeOnce(ctx, j, epoch, j.plan.makes && epoch == 0)
	if hasCode(err, codeDuplicateKey) && (j.plan.makes || j.plan.insert != nil) && epoch == 0 {
		// The document is there, and its conditions don't hold; or it came between the server's
		// search and its insert, and the same change as a plain update finds it. What is refused
		// again is so by another index.
		taken := &takenError{err: err}
		if j.plan.insert != nil {
			return nil, taken
		}
		if doc, err = w.changeOnce(ctx, j, epoch, false); errors.Is(err, errMissed) {
			err = taken
		}
	}
	if err != nil && !errors.Is(err, errMissed) && !definite(err) {
		j.rivals = true
	}
	return doc, err
}

// changeOnce sends the change with what makes it a step. The document that it returns has the
// members that were added to; it is nil where there are none.
func (w *Writer) changeOnce(
	ctx context.Context, j *writeJob, epoch int64, upsert bool,
) (bson.Raw, error) {
	if j.plan.insert != nil {
		_, err := collection(w.db, j.target.Name).InsertOne(ctx, j.document())
		return nil, err
	}
	filter, update := w.stepUpdate(j, epoch)
	return w.update(ctx, j, filter, update, upsert)
}

// update sends an update of one document; errMissed if the filter finds none. The document that it
// returns has the members that were added to; it is nil where there are none.
func (w *Writer) update(
	ctx context.Context, j *writeJob, filter, update bson.D, upsert bool,
) (bson.Raw, error) {
	c := collection(w.db, j.target.Name)
	if len(j.plan.numbers) == 0 {
		up, err := c.UpdateOne(ctx, filter, update, options.UpdateOne().SetUpsert(upsert))
		if err == nil && up.MatchedCount+up.UpsertedCount == 0 {
			err = errMissed
		}
		return nil, err
	}
	after := options.FindOneAndUpdate().SetReturnDocument(options.After).SetUpsert(upsert)
	if !w.now().whole {
		after.SetProjection(j.plan.needs(j.target.Key))
	}
	doc, err := c.FindOneAndUpdate(ctx, filter, update, after).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		err = errMissed
	}
	return doc, err
}

// document is what an Insert makes, with the event's id in it.
func (j *writeJob) document() bson.D {
	doc := append(j.self(), j.plan.insert...)
	return append(doc, bson.E{Key: ownMember, Value: bson.D{
		{Key: "ids", Value: bson.A{j.event.ID}},
	}})
}

// The members of ownMember.
const (
	idsPath   = ownMember + ".ids"
	epochPath = ownMember + ".e"
)

// stepUpdate is the change with the conditions under which it is made once.
func (w *Writer) stepUpdate(j *writeJob, epoch int64) (filter, update bson.D) {
	filter = append(j.self(),
		bson.E{Key: idsPath, Value: bson.D{{Key: "$ne", Value: j.event.ID}}},
		epochIs(epoch),
		// The list has room: it has no last place.
		bson.E{Key: idsPath + "." + strconv.Itoa(w.conf.Pending-1),
			Value: bson.D{{Key: "$exists", Value: false}}},
	)
	filter = append(filter, j.plan.conditions...)
	return filter, j.plan.onDocument(bson.D{{Key: idsPath, Value: j.event.ID}})
}

// epochIs holds for documents of an epoch. The first one is not written down.
func epochIs(epoch int64) bson.E {
	if epoch == 0 {
		return bson.E{Key: epochPath, Value: bson.D{{Key: "$exists", Value: false}}}
	}
	return bson.E{Key: epochPath, Value: bson.D{{Key: "$eq", Value: epoch}}}
}

// retryPause is the time between two tries: it doubles, with full jitter.
type retryPause struct{ next time.Duration }

const (
	firstRetry = 2 * time.Millisecond
	lastRetry  = 200 * time.Millisecond
)

func newRetry() *retryPause { return &retryPause{next: firstRetry} }

// wait waits; false if the context ended first.
func (p *retryPause) wait(ctx context.Context) bool {
	timer := time.NewTimer(rand.N(p.next) + 1)
	defer timer.Stop()
	p.next = min(2*p.next, lastRetry)
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
