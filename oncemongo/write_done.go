package oncemongo

import (
	"context"
	"errors"
	"log/slog"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/oncekit/once/write"
)

// done is steps 3 and 4 of an event whose change is in the document: they are done although the
// caller may have gone.
func (w *Writer) done(
	ctx context.Context, j *writeJob, numbers write.Fields,
) (write.Result, error) {
	if err := w.stop(stepChange); err != nil {
		return write.Result{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishLimit)
	defer cancel()
	result, err := w.markApplied(ctx, j, numbers)
	if err != nil {
		return write.Result{}, err
	}
	if err := w.stop(stepMark); err != nil {
		return write.Result{}, err
	}
	if err := w.release(ctx, j, j.rivals); err != nil {
		// The id is taken out when the list is full, or when the record is forgotten.
		w.conf.Logger.Warn("an event's id stays in its document for now",
			slog.String("collection", j.target.Name), slog.Any("error", err))
	}
	return result, w.stop(stepRelease)
}

// markApplied is step 3. If somebody else was faster, the result is theirs.
func (w *Writer) markApplied(
	ctx context.Context, j *writeJob, numbers write.Fields,
) (write.Result, error) {
	text, err := write.EncodeNumbers(numbers)
	if err != nil {
		return write.Result{}, err
	}
	retry := newRetry()
	for {
		before, err := w.mark(ctx, markUpdate(stateApplied, text), append(byID(j.event.ID),
			bson.E{Key: "owner", Value: j.owner},
			bson.E{Key: "state", Value: bson.D{{Key: "$ne", Value: stateApplied}}}))
		switch {
		case err == nil && before != nil:
			j.rivals = j.rivals || before.Tries > j.tries
			return write.Result{Outcome: write.Applied, Numbers: numbers}, nil
		case err == nil:
			j.rivals = true
			known, err := w.recall(ctx, j.event.ID)
			if err != nil || known == nil || known.Owner != j.owner {
				return write.Result{}, noAnswer(ctx, "mark event", err)
			}
			return known.result()
		}
		j.rivals = true // it may have been marked, and the tries are not known
		if definite(err) || !retry.wait(ctx) {
			return write.Result{}, noAnswer(ctx, "mark event", err)
		}
	}
}

// mark ends the record that a filter finds, and returns it as it was; nil if the filter finds none.
func (w *Writer) mark(
	ctx context.Context, update, filter bson.D,
) (*eventRecord, error) {
	var before eventRecord
	err := w.events.FindOneAndUpdate(ctx, filter, update).Decode(&before)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &before, nil
}

// markUpdate moves a record to its end, with the server's time.
func markUpdate(state, numbers string) bson.D {
	set := bson.D{{Key: "state", Value: state}}
	if numbers != "" {
		set = append(set, bson.E{Key: "numbers", Value: numbers})
	}
	return bson.D{
		{Key: "$set", Value: set},
		{Key: "$currentDate", Value: bson.D{{Key: "at", Value: true}}},
		{Key: "$unset", Value: bson.D{{Key: "change", Value: ""}}},
	}
}

// raiseEpoch bars all attempts that were made for the document as it was.
func raiseEpoch() bson.E {
	return bson.E{Key: "$inc", Value: bson.D{{Key: epochPath, Value: int64(1)}}}
}

// release is step 4: it takes the event's id out of the document. Where attempts at the event may
// still be on their way, the epoch rises, and they find another one.
func (w *Writer) release(ctx context.Context, j *writeJob, raise bool) error {
	update := bson.D{{Key: "$pull", Value: bson.D{{Key: idsPath, Value: j.event.ID}}}}
	if raise {
		update = append(update, raiseEpoch())
	}
	filter := append(j.self(), bson.E{Key: idsPath, Value: j.event.ID})
	retry := newRetry()
	for {
		_, err := collection(w.db, j.target.Name).UpdateOne(ctx, filter, update)
		if err == nil || definite(err) || !retry.wait(ctx) {
			return err
		}
	}
}

// decide ends an event whose change can't be made to the document as it was read. If it is to be
// remembered, attempts of others are barred first: none of them must change a document that was
// found to be newer.
func (w *Writer) decide(
	ctx context.Context, j *writeJob, judged verdict, reason error, epoch int64,
) (write.Result, bool, error) {
	if judged == refusedNow {
		result, err := w.refuse(ctx, j, reason)
		return result, true, err
	}
	if j.rivals {
		up, err := collection(w.db, j.target.Name).UpdateOne(ctx,
			append(j.self(), epochIs(epoch),
				bson.E{Key: idsPath, Value: bson.D{{Key: "$ne", Value: j.event.ID}}}),
			bson.D{raiseEpoch()})
		if err != nil || up.MatchedCount == 0 {
			return write.Result{}, false, err
		}
	}
	before, err := w.mark(ctx, markUpdate(stateStale, ""), append(byID(j.event.ID),
		bson.E{Key: "state", Value: statePending}, bson.E{Key: "owner", Value: j.owner},
		triesAre(j.tries)))
	if err != nil || before == nil {
		j.rivals = true
		return write.Result{}, false, err
	}
	return write.Result{Outcome: write.Stale}, true, nil
}

// triesAre holds for records that nobody has registered in since.
func triesAre(tries int64) bson.E {
	if tries == 0 {
		return bson.E{Key: "tries", Value: bson.D{{Key: "$exists", Value: false}}}
	}
	return bson.E{Key: "tries", Value: tries}
}

// refuse ends an event whose change the document or the server does not take, and returns why. It
// is not remembered. If somebody else has brought it to its end meanwhile, that counts. If nothing
// can be written, the record stays pending and is tried again by who meets it: it is as if the
// event came again.
func (w *Writer) refuse(
	ctx context.Context, j *writeJob, reason error,
) (write.Result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishLimit)
	defer cancel()
	update := markUpdate(stateRefused, "")
	if j.rivals {
		// A command of this call may still be on its way: who takes the record over has to bar it.
		update = append(update, bson.E{Key: "$inc", Value: bson.D{{Key: "tries", Value: int64(1)}}})
	}
	before, err := w.mark(ctx, update, append(byID(j.event.ID),
		bson.E{Key: "state", Value: statePending}, bson.E{Key: "owner", Value: j.owner}))
	if err != nil {
		return write.Result{}, noAnswer(ctx, "refuse event", errors.Join(reason, err))
	}
	if before != nil {
		return write.Result{}, reason
	}
	known, err := w.recall(ctx, j.event.ID)
	switch {
	case err != nil:
		return write.Result{}, err
	case known != nil && known.Owner == j.owner && known.State != stateRefused:
		return known.result()
	}
	return write.Result{}, reason
}
