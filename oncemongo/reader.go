package oncemongo

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// Reader looks into a store that others may be using. It changes nothing. It is safe for concurrent
// use.
type Reader struct{ s *Store }

// OpenReader opens the store of a database for looking; [once.ErrNotFound] if there is none. The
// client stays its caller's.
func OpenReader(ctx context.Context, db *mongo.Database) (*Reader, error) {
	records, err := NewRecords(db, RecordsConfig{})
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, cfg: Config{}.withDefaults(), records: records}
	found, err := s.find(ctx, meta, bson.D{{Key: "_id", Value: turnID}}, nil, 1,
		bson.D{{Key: "schema", Value: 1}})
	if err != nil {
		return nil, asUnavailable(err)
	}
	if len(found) == 0 {
		return nil, once.ErrNotFound
	}
	if err := rightSchema(found[0]); err != nil {
		return nil, err
	}
	return &Reader{s}, nil
}

// Plan returns what [Store.Plan] does.
func (r *Reader) Plan(ctx context.Context) ([]byte, error) { return r.s.Plan(ctx) }

// Counts returns what [Store.Counts] does.
func (r *Reader) Counts(ctx context.Context) (queue.Counts, error) { return r.s.Counts(ctx) }

// RecordCounts returns what [Store.RecordCounts] does.
func (r *Reader) RecordCounts(ctx context.Context) (map[once.RecordState]int64, error) {
	return r.s.RecordCounts(ctx)
}

// EventInUse returns what [Store.EventInUse] does.
func (r *Reader) EventInUse(ctx context.Context, flow, event string) (bool, error) {
	return r.s.EventInUse(ctx, flow, event)
}
