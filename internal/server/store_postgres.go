package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/oncepg"
)

// storeConns are the connections for the store, where the URL says nothing of them: one has the
// turn, some commit arrivals, and the others are for records and for people who look.
const storeConns = 16

// postgresStore is a schema of a database, with the pool through which it is reached.
type postgresStore struct {
	*oncepg.Store
	pool *pgxpool.Pool
}

func (s postgresStore) gatewayRecords() once.Store { return s.Records() }

// Close ends the store, then its connections.
func (s postgresStore) Close() error {
	err := s.Store.Close()
	s.pool.Close()
	return err
}

func (s *Server) openPostgres(ctx context.Context, c config.Store) (store, error) {
	wrong := func(err error) error {
		return fmt.Errorf("store %s: %w", c.Name(), hideAddress(err))
	}
	pool, schema, err := ConnectPostgres(c.URL, storeConns)
	if err != nil {
		return nil, wrong(err)
	}
	opened, err := oncepg.NewStore(pool, oncepg.StoreConfig{
		Schema: schema, NoMigrate: !c.Create, Logger: s.log,
		RejectedPerSource: s.cfg.Limits.Rejected, Now: s.opts.Now, MaxOutcome: s.maxOutcome(),
	})
	if err != nil {
		pool.Close()
		return nil, wrong(err)
	}
	limit, cancel := context.WithTimeout(ctx, postgresOpenLimit)
	defer cancel()
	out := postgresStore{opened, pool}
	if err := opened.Open(limit); err != nil {
		return nil, errors.Join(wrong(err), out.Close())
	}
	return out, nil
}

// openPostgresReader opens what a store holds, to be looked at; [once.ErrNotFound] if there is
// none.
func openPostgresReader(ctx context.Context, c config.Store) (held, func() error, error) {
	pool, schema, err := ConnectPostgres(c.URL, storeConns)
	if err != nil {
		return nil, nil, err
	}
	r, err := oncepg.OpenReader(ctx, pool, schema)
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return r, func() error { pool.Close(); return nil }, nil
}
