package oncemongo

import (
	"context"
	"fmt"
	"log/slog"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// sweepPage is how many records a sweep takes at a time.
const sweepPage = 500

// fullLooks is how often a writer finds a document's list full before it looks after those that
// are in it: mostly their writers are about to.
const fullLooks = 4

// Sweep forgets up to limit events whose retention is over by the server's clock, and returns how
// many. Before that it finishes the events that writers left pending, which ended or lost their
// server in the middle; what can't be finished now stays. Call it now and then, for example every
// minute, in any number of processes, again at once while it returns limit.
func (w *Writer) Sweep(ctx context.Context, limit int) (int, error) {
	if _, err := w.opened(); err != nil || limit <= 0 {
		return 0, err
	}
	if err := w.finishPending(ctx); err != nil {
		return 0, fmt.Errorf("sweep events: %w", err)
	}
	now, err := serverTime(ctx, w.db)
	if err != nil {
		return 0, fmt.Errorf("sweep events: %w", err)
	}
	old := bson.D{
		{Key: "state", Value: bson.D{
			{Key: "$in", Value: bson.A{stateApplied, stateStale, stateRefused}},
		}},
		{Key: "at", Value: bson.D{{Key: "$lt", Value: now.Add(-w.conf.Retention)}}},
	}
	forgotten := 0
	for forgotten < limit {
		page := min(sweepPage, limit-forgotten)
		n, err := w.forget(ctx, old, page)
		forgotten += n
		if err != nil {
			return forgotten, fmt.Errorf("sweep events: %w", err)
		}
		if n < page {
			break
		}
	}
	return forgotten, nil
}

// finishPending takes up each event that is pending, once.
func (w *Writer) finishPending(ctx context.Context) error {
	last := ""
	for {
		var page []eventRecord
		cursor, err := w.events.Find(ctx,
			bson.D{
				{Key: "state", Value: statePending},
				{Key: "_id", Value: bson.D{{Key: "$gt", Value: last}}},
			},
			options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(sweepPage))
		if err == nil {
			err = cursor.All(ctx, &page)
		}
		if err != nil {
			return err
		}
		for i := range page {
			w.finish(ctx, &page[i])
			last = page[i].ID
		}
		if err := ctx.Err(); err != nil || len(page) < sweepPage {
			return err
		}
	}
}

// finish takes up one pending event. What prevents it is told to the logger; it stays pending, or
// is refused.
func (w *Writer) finish(ctx context.Context, r *eventRecord) {
	ctx, cancel := context.WithTimeout(ctx, w.conf.Patience)
	defer cancel()
	j, err := w.jobOf(r, w.now())
	if err == nil {
		_, err = w.carry(ctx, j)
	}
	if err != nil {
		w.conf.Logger.Warn("a pending event was not finished",
			slog.String("collection", r.In), slog.Any("error", err))
	}
}

// forget deletes a page of records. Ids of theirs that are still in documents, since a writer ended
// before its last step, are taken out first: a later event of the same id would be taken for done.
func (w *Writer) forget(ctx context.Context, old bson.D, limit int) (int, error) {
	var page []eventRecord
	cursor, err := w.events.Find(ctx, old, options.Find().SetLimit(int64(limit)))
	if err == nil {
		err = cursor.All(ctx, &page)
	}
	if err != nil || len(page) == 0 {
		return 0, err
	}
	pulls := map[string][]mongo.WriteModel{}
	ids := make(bson.A, len(page))
	for i, r := range page {
		ids[i] = r.ID
		for _, target := range w.targets.All() {
			if target.Name == r.In {
				pulls[r.In] = append(pulls[r.In], mongo.NewUpdateOneModel().
					SetFilter(bson.D{{Key: target.Key, Value: r.Key}, {Key: idsPath, Value: r.ID}}).
					SetUpdate(takeOut(r.ID)))
			}
		}
	}
	for name, models := range pulls {
		_, err := collection(w.db, name).
			BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
		if err != nil {
			return 0, err
		}
	}
	deleted, err := w.events.DeleteMany(ctx,
		append(bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}, old...))
	if err != nil {
		return 0, err
	}
	return int(deleted.DeletedCount), nil
}

// takeOut takes ids out of a document's list, and raises its epoch.
func takeOut(ids ...string) bson.D {
	list := make(bson.A, len(ids))
	for i, id := range ids {
		list[i] = id
	}
	return bson.D{
		{Key: "$pullAll", Value: bson.D{{Key: idsPath, Value: list}}},
		raiseEpoch(),
	}
}

// clear makes room in the list of a document: what is done is taken out, and what is pending is
// finished, should its writer have ended. The document has to be as it was read.
func (w *Writer) clear(ctx context.Context, j *writeJob, own ownMembers) error {
	if j.full++; j.full%fullLooks != 0 {
		return nil
	}
	var found []eventRecord
	cursor, err := w.events.Find(ctx,
		bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: own.IDs}}}})
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	if err != nil {
		return err
	}
	pending := map[string]bool{}
	for i := range found {
		if found[i].State == statePending {
			pending[found[i].ID] = true
		}
	}
	var done []string
	for _, id := range own.IDs {
		if !pending[id] {
			done = append(done, id)
		}
	}
	if len(done) > 0 {
		_, err := collection(w.db, j.target.Name).UpdateOne(ctx,
			append(j.self(), epochIs(own.Epoch)), takeOut(done...))
		return err
	}
	for i := range found {
		w.finish(ctx, &found[i])
	}
	return nil
}
