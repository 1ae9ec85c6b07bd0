package oncemongo

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// maxRecordSweep bounds the records of one sweep.
const maxRecordSweep = 1000

// Sweep implements [once.Sweeper]. It is needed where the server has no TTL indexes; elsewhere it
// does what the server would do within a minute or so. One call removes at most 1000 records.
func (r *Records) Sweep(ctx context.Context, limit int) (int, error) {
	if limit < 1 {
		return 0, fmt.Errorf("sweep records: limit %d, want at least 1", limit)
	}
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	n, err := r.sweep(ctx, min(limit, maxRecordSweep))
	if err != nil {
		return 0, fmt.Errorf("sweep records: %w", unavailable(err))
	}
	return n, nil
}

func (r *Records) sweep(ctx context.Context, limit int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	now, err := r.now(ctx)
	if err != nil {
		return 0, err
	}
	past := bson.E{Key: "expires_at", Value: bson.D{{Key: "$lte", Value: bson.DateTime(now)}}}
	cursor, err := r.c.Find(ctx, bson.D{past}, options.Find().
		SetProjection(bson.D{{Key: "_id", Value: 1}}).SetLimit(int64(limit)))
	if err != nil {
		return 0, err
	}
	var found []struct {
		ID bson.RawValue `bson:"_id"`
	}
	if err := cursor.All(ctx, &found); err != nil || len(found) == 0 {
		return 0, err
	}
	ids := make(bson.A, len(found))
	for i := range found {
		ids[i] = found[i].ID
	}
	// The date is compared again: who came back meanwhile has prolonged it.
	res, err := r.c.DeleteMany(ctx, bson.D{
		{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}, past,
	})
	if err != nil {
		return 0, err
	}
	return int(res.DeletedCount), nil
}
