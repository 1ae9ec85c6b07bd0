package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/oncemongo"
	"github.com/oncekit/once/oncesqlite"
	"github.com/oncekit/once/queue"
)

// store is what holds the rows, the tasks and, unless the file says otherwise, the gateway's
// records.
type store interface {
	queue.Store
	queue.Transactor
	queue.Browser
	queue.Operator
	queue.Rejecter
	held
	migrating
	// Created reports whether it was made when it was opened.
	Created() bool
	// Ping reports whether it can be written.
	Ping(context.Context) error
	// gatewayRecords are the gateway's, if the store keeps them.
	gatewayRecords() once.Store
	// Close is safe to call twice.
	Close() error
}

// migrating is what carries out what a file says of things that it no longer names. Each returns
// how many it changed, and may be called again after an error.
type migrating interface {
	SavePlan(ctx context.Context, plan []byte) error
	MoveTasks(ctx context.Context, flow, state string,
		move func(queue.View, queue.Task) (queue.Settlement, error)) (int64, error)
	DiscardFlow(ctx context.Context, flow string,
		release func(queue.View, queue.Task) (queue.Settlement, error)) (int64, error)
	RenameEvent(ctx context.Context, flow, from, to string) (int64, error)
	DiscardEvent(ctx context.Context, flow, event, reason string) (int64, error)
	RenameDestination(ctx context.Context, from, to, lane string) (int64, error)
	DiscardDestination(ctx context.Context, destination, reason string,
		then func(queue.View, queue.Row) queue.Settlement) (int64, error)
	DiscardSource(ctx context.Context, source, reason string) (int64, error)
	MoveSource(ctx context.Context, from, to string,
		route func(queue.Row) (queue.Arrival, error)) (int64, error)
	RerouteSource(ctx context.Context, source, lane, flow string,
		route func(queue.Row) (queue.Arrival, error)) (int64, error)
}

// openStore opens the store that the file names.
func (s *Server) openStore(ctx context.Context) (store, error) {
	switch c := s.cfg.Store; {
	case c.InPostgreSQL():
		return s.openPostgres(ctx, c)
	case c.InMongoDB():
		return s.openMongo(ctx, c)
	}
	c := s.cfg.Store
	opened, err := oncesqlite.Open(ctx, oncesqlite.Config{
		Path: c.Path, NoCreate: !c.Create, Logger: s.log,
		RejectedPerSource: s.cfg.Limits.Rejected, Probe: s.opts.Probe, Now: s.opts.Now,
	})
	if err != nil {
		return nil, err
	}
	return sqliteStore{opened}, nil
}

// sqliteStore is a file.
type sqliteStore struct{ *oncesqlite.Store }

func (s sqliteStore) gatewayRecords() once.Store { return s.Records() }

// mongoStore is a database, with the client through which it is reached.
type mongoStore struct {
	*oncemongo.Store
	client mongoClient
}

func (s mongoStore) gatewayRecords() once.Store { return s.Records() }

// Close ends the store, then its connections.
func (s mongoStore) Close() error {
	return errors.Join(s.Store.Close(), s.client.Close())
}

func (s *Server) openMongo(ctx context.Context, c config.Store) (store, error) {
	client, err := connectMongo(c.URL)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", c.Name(), err)
	}
	limit, cancel := context.WithTimeout(ctx, mongoOpenLimit)
	defer cancel()
	opened, err := oncemongo.OpenStore(limit, client.c.Database(c.Database), oncemongo.Config{
		NoCreate: !c.Create, Logger: s.log, RejectedPerSource: s.cfg.Limits.Rejected,
		Now: s.opts.Now, MaxOutcome: s.maxOutcome(),
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("store %s: %w", c.Name(), err), client.Close())
	}
	return mongoStore{opened, client}, nil
}

// openReader opens what a store holds, to be looked at; [once.ErrNotFound] if there is none.
func openReader(ctx context.Context, c config.Store) (held, func() error, error) {
	if c.InPostgreSQL() {
		return openPostgresReader(ctx, c)
	}
	if !c.InMongoDB() {
		r, err := oncesqlite.OpenReader(c.Path)
		if err != nil {
			return nil, nil, err
		}
		return r, r.Close, nil
	}
	client, err := connectMongo(c.URL)
	if err != nil {
		return nil, nil, err
	}
	r, err := oncemongo.OpenReader(ctx, client.c.Database(c.Database))
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return r, client.Close, nil
}
