package oncepg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// Reader looks into a store that others may be using. It changes nothing. It is safe for concurrent
// use.
type Reader struct{ s *Store }

// OpenReader opens the store of a schema for looking; empty: [DefaultSchema]. It is
// [once.ErrNotFound] if there is none, and a *[SchemaError] for one that this program can't read.
// The pool stays its caller's.
func OpenReader(ctx context.Context, pool *pgxpool.Pool, schema string) (*Reader, error) {
	s, err := NewStore(pool, StoreConfig{Schema: schema})
	if err != nil {
		return nil, err
	}
	isNew, err := s.isNew(ctx)
	if err != nil {
		return nil, away(err)
	}
	if isNew {
		return nil, once.ErrNotFound
	}
	cfg, err := MigrateConfig{Schema: s.cfg.Schema}.withDefaults()
	if err == nil {
		err = checkSchema(ctx, poolMigrator{pool}, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("open store: %w", unavailable(err))
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
