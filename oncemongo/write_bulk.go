package oncemongo

import (
	"context"
	"log/slog"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/oncekit/once/write"
)

// carry takes steps 2 to 4 of events whose records this call made.
func (b *batch) carry(ctx context.Context, jobs []*writeJob) {
	var changed []*writeJob
	for _, group := range byCollection(jobs) {
		changed = append(changed, b.change(ctx, group)...)
	}
	if len(changed) == 0 {
		return
	}
	if err := b.w.stop(stepChange); err != nil {
		b.fail(changed, err)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), batchPatience*finishLimit)
	defer cancel()
	changed = b.mark(ctx, changed)
	if err := b.w.stop(stepMark); err != nil {
		b.fail(changed, err)
		return
	}
	for _, group := range byCollection(changed) {
		b.release(ctx, group)
	}
	if err := b.w.stop(stepRelease); err != nil {
		b.fail(changed, err)
	}
}

// change is step 2 of events of one collection. It returns those whose change is in their
// documents; the others have their results.
func (b *batch) change(ctx context.Context, jobs []*writeJob) (changed []*writeJob) {
	there := b.documents(ctx, jobs, func(j *writeJob) bool {
		return j.plan.insert != nil || j.plan.newer != ""
	})
	for round := 0; len(jobs) > 0; round++ {
		var err error
		if round < batchRounds {
			err = b.send(ctx, jobs, there)
		}
		seen := b.documents(ctx, jobs, func(*writeJob) bool { return true })
		applied, left := b.sort(jobs, seen)
		changed = append(changed, applied...)
		for len(left) > 0 {
			r, e := b.w.carryOn(ctx, left[0])
			b.set(left[0], r, e)
			left = left[1:]
			if err != nil && round < batchRounds {
				break // what came after the one that was refused was not tried
			}
		}
		jobs = left
	}
	return changed
}

// sort tells the events whose change is in their documents from those that are left, and gives them
// their results.
func (b *batch) sort(
	jobs []*writeJob, seen map[string]bson.Raw,
) (applied, left []*writeJob) {
	byDocument := map[string][]*writeJob{}
	for _, j := range jobs {
		key := epochKey(j)
		if !slices.Contains(ownOf(seen[key]).IDs, j.event.ID) {
			left = append(left, j)
			continue
		}
		applied = append(applied, j)
		byDocument[key] = append(byDocument[key], j)
	}
	for key, events := range byDocument {
		numbers := sums(seen[key], events)
		for i, j := range events {
			b.set(j, write.Result{Outcome: write.Applied, Numbers: numbers[i]}, nil)
		}
	}
	return applied, left
}

// send sends the changes in their order; the first that is refused ends it. Each is made only if
// the one before it, of the same document, was. there are documents that were seen: no insert is
// tried where it would only be refused.
func (b *batch) send(
	ctx context.Context, jobs []*writeJob, there map[string]bson.Raw,
) error {
	models := make([]mongo.WriteModel, 0, len(jobs))
	before := map[string]*writeJob{}
	for _, j := range jobs {
		key := epochKey(j)
		previous := before[key]
		before[key] = j
		if j.plan.insert != nil {
			if there[key] == nil && previous == nil {
				models = append(models, mongo.NewInsertOneModel().SetDocument(j.document()))
			}
			continue
		}
		filter, update := b.w.stepUpdate(j, j.epoch)
		if previous != nil {
			filter = append(filter, bson.E{Key: "$and", Value: bson.A{
				bson.D{{Key: idsPath, Value: previous.event.ID}},
			}})
		}
		models = append(models, mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(update).
			SetUpsert(j.plan.makes && j.epoch == 0 && there[key] == nil && previous == nil))
	}
	if len(models) == 0 {
		return nil
	}
	_, err := collection(b.w.db, jobs[0].target.Name).BulkWrite(ctx, models)
	if err != nil && !definite(err) {
		for _, j := range jobs {
			j.rivals = true // its command may still be on its way
		}
	}
	return err
}

// documents reads what decides about changes, by epochKey. Without an answer it is none: each event
// reads again.
func (b *batch) documents(
	ctx context.Context, jobs []*writeJob, wanted func(*writeJob) bool,
) map[string]bson.Raw {
	keys, needs, by := bson.A{}, bson.D{}, map[any]string{}
	for _, j := range jobs {
		if !wanted(j) {
			continue
		}
		key := keyToBSON(j.event.Key)
		if _, found := by[key]; !found {
			by[key] = epochKey(j)
			keys = append(keys, key)
		}
		for _, member := range j.plan.needs(j.target.Key) {
			if !slices.Contains(needs, member) {
				needs = append(needs, member)
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	name, key := jobs[0].target.Name, jobs[0].target.Key
	var found []bson.Raw
	cursor, err := collection(b.w.db, name).Find(ctx,
		bson.D{{Key: key, Value: bson.D{{Key: "$in", Value: keys}}}},
		options.Find().SetProjection(needs))
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	if err != nil {
		return nil
	}
	docs := make(map[string]bson.Raw, len(found))
	for _, doc := range found {
		docs[by[plainKey(doc.Lookup(key))]] = doc
	}
	return docs
}

// plainKey is a document's key as keyToBSON gives it.
func plainKey(raw bson.RawValue) any {
	if n, ok := numberFromBSON(raw); ok {
		return n
	}
	text, _ := raw.StringValueOK()
	return text
}

// mark is step 3. It returns the events that are marked; the others have their results. The changes
// are in the documents, so the records are marked whatever they say; then they are read, to see in
// which somebody has registered.
func (b *batch) mark(ctx context.Context, jobs []*writeJob) (marked []*writeJob) {
	models := make([]mongo.WriteModel, len(jobs))
	for i, j := range jobs {
		numbers, _ := write.EncodeNumbers(b.results[j.place].Numbers)
		models[i] = mongo.NewUpdateOneModel().SetFilter(byID(j.event.ID)).
			SetUpdate(markUpdate(stateApplied, numbers))
	}
	_, err := b.w.events.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	var known map[string]*eventRecord
	if err == nil {
		known, err = b.w.recallAll(ctx, jobs)
	}
	for _, j := range jobs {
		r := known[j.event.ID]
		if err == nil && r != nil && r.State == stateApplied {
			j.rivals = j.rivals || r.Tries > 0 || r.Owner != j.owner
			marked = append(marked, j)
			continue
		}
		j.rivals = true
		result, err := b.w.markApplied(ctx, j, b.results[j.place].Numbers)
		b.set(j, result, err)
		if err == nil {
			marked = append(marked, j)
		}
	}
	return marked
}

// release is step 4 of events of one collection: one update for each document.
func (b *batch) release(ctx context.Context, jobs []*writeJob) {
	var models []mongo.WriteModel
	var order []string
	byDocument := map[string][]*writeJob{}
	for _, j := range jobs {
		key := epochKey(j)
		if byDocument[key] == nil {
			order = append(order, key)
		}
		byDocument[key] = append(byDocument[key], j)
	}
	for _, key := range order {
		ids, raise := bson.A{}, false
		for _, j := range byDocument[key] {
			ids = append(ids, j.event.ID)
			raise = raise || j.rivals
		}
		update := bson.D{{Key: "$pullAll", Value: bson.D{{Key: idsPath, Value: ids}}}}
		if raise {
			update = append(update, raiseEpoch())
		}
		models = append(models, mongo.NewUpdateOneModel().
			SetFilter(byDocument[key][0].self()).SetUpdate(update))
	}
	_, err := collection(b.w.db, jobs[0].target.Name).
		BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	if err != nil {
		b.w.conf.Logger.Warn("ids of events stay in their documents for now",
			slog.String("collection", jobs[0].target.Name), slog.Any("error", err))
	}
}
