package oncemongo

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/oncekit/once/write"
)

// batchInTransaction writes new events in one transaction, if all of them can be; else it returns
// them all, and each is written by itself.
func (w *Writer) batchInTransaction(
	ctx context.Context, b *batch, jobs []*writeJob,
) (left []*writeJob) {
	if len(jobs) < 2 {
		return jobs
	}
	err := w.transaction(ctx, jobs[0].event.ID, jobs[0].owner, func(ctx context.Context) error {
		for rest := jobs; len(rest) > 0; {
			n := b.wave(rest)
			for _, group := range byCollection(rest[:n]) {
				if err := b.changeAll(ctx, group); err != nil {
					return err
				}
			}
			rest = rest[n:]
		}
		return b.rememberAll(ctx, jobs)
	})
	if err == nil {
		return nil
	}
	return jobs
}

// changeAll makes changes of one collection, in the transaction of the context. One that can't be
// made ends it.
func (b *batch) changeAll(ctx context.Context, jobs []*writeJob) error {
	// An upsert of a document that is newer would be an insert that fails, and abort it all.
	there := b.documents(ctx, jobs, func(j *writeJob) bool { return j.plan.newer != "" })
	var models []mongo.WriteModel
	for _, j := range jobs {
		if j.plan.insert != nil {
			models = append(models, mongo.NewInsertOneModel().
				SetDocument(append(j.self(), j.plan.insert...)))
			continue
		}
		models = append(models, mongo.NewUpdateOneModel().
			SetFilter(append(j.self(), j.plan.conditions...)).
			SetUpdate(j.plan.onDocument(nil)).
			SetUpsert(j.plan.makes && there[epochKey(j)] == nil))
	}
	done, err := collection(b.w.db, jobs[0].target.Name).BulkWrite(ctx, models)
	if err != nil {
		return err
	}
	if done.InsertedCount+done.MatchedCount+done.UpsertedCount != int64(len(jobs)) {
		return errMissed
	}
	seen := b.documents(ctx, jobs, func(j *writeJob) bool { return len(j.plan.numbers) > 0 })
	byDocument := map[string][]*writeJob{}
	for _, j := range jobs {
		byDocument[epochKey(j)] = append(byDocument[epochKey(j)], j)
	}
	for key, events := range byDocument {
		for i, numbers := range sums(seen[key], events) {
			if len(events[i].plan.numbers) > 0 && seen[key] == nil {
				return errors.New("the sums can't be read")
			}
			b.set(events[i], write.Result{Outcome: write.Applied, Numbers: numbers}, nil)
		}
	}
	return nil
}

// rememberAll writes the records of all, in the transaction of the context.
func (b *batch) rememberAll(ctx context.Context, jobs []*writeJob) error {
	models := make([]mongo.WriteModel, len(jobs))
	for i, j := range jobs {
		filter, update, err := j.doneUpdate(b.results[j.place])
		if err != nil {
			return err
		}
		models[i] = mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(update).SetUpsert(true)
	}
	_, err := b.w.events.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(true))
	return err
}

// doneUpdate makes the record of an event that is done, or overwrites that of a refused one. An id
// that is taken is a duplicate key.
func (j *writeJob) doneUpdate(r write.Result) (filter, update bson.D, err error) {
	numbers, err := write.EncodeNumbers(r.Numbers)
	if err != nil {
		return nil, nil, err
	}
	set := bson.D{
		{Key: "state", Value: stateApplied},
		{Key: "digest", Value: bson.Binary{Data: j.digest[:]}},
		{Key: "in", Value: j.event.In},
		{Key: "key", Value: keyToBSON(j.event.Key)},
		{Key: "owner", Value: j.owner},
	}
	if r.Outcome == write.Stale {
		set[0].Value = stateStale
	}
	if numbers != "" {
		set = append(set, bson.E{Key: "numbers", Value: numbers})
	}
	// Two states, so that an upsert takes none of them into the record.
	filter = append(byID(j.event.ID), bson.E{Key: "state", Value: bson.D{
		{Key: "$in", Value: bson.A{stateRefused, "none"}},
	}})
	return filter, bson.D{
		{Key: "$set", Value: set},
		{Key: "$currentDate", Value: bson.D{{Key: "at", Value: true}}},
	}, nil
}
