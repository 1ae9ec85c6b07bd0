package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/oncepg"
	"github.com/oncekit/once/write"
)

// connect opens a writer; it may be called again while it fails.
type connect func(ctx context.Context) (write.Writer, error)

// closeFunc is an io.Closer.
type closeFunc func() error

// Close calls f.
func (f closeFunc) Close() error { return f() }

// connector prepares a database. It connects to nothing.
func (s *Server) connector(d *config.DatabaseConfig, targets []write.Target) (connect, io.Closer,
	error,
) {
	switch d.Kind {
	case config.PostgreSQL:
		return s.postgres(d, targets)
	case config.MongoDB:
		return s.mongo(d, targets)
	}
	return s.sqlite(d, targets)
}

func (s *Server) postgres(d *config.DatabaseConfig, targets []write.Target) (connect, io.Closer,
	error,
) {
	cfg, err := pgxpool.ParseConfig(d.URL)
	if err != nil {
		return nil, nil, hideAddress(err)
	}
	if !strings.Contains(d.URL, "pool_max_conns") {
		cfg.MaxConns = int32(s.writesAtOnce(d.Name))
	}
	oncepg.Watch(cfg)
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, nil, err
	}
	closes := closeFunc(func() error { pool.Close(); return nil })
	w, err := oncepg.NewWriter(pool, oncepg.WriterConfig{
		Targets: targets, Retention: d.Retention, Logger: s.log.With("database", d.Name),
	})
	if err != nil {
		return nil, nil, errors.Join(err, closes())
	}
	return func(ctx context.Context) (write.Writer, error) { return w, w.Open(ctx) }, closes, nil
}

// The connections to a PostgreSQL whose URL says nothing of them: as many as there are tries at the
// same time, but no more than a small server gives without a thought.
const (
	fewestConns = 2 // one writes while the other sweeps
	mostConns   = 16
)

// writesAtOnce is how many writes to a database may run at the same time.
func (s *Server) writesAtOnce(database string) int {
	n := 0
	for _, src := range s.cfg.SourceSettings {
		if h := src.Handler; h != nil && h.Document != nil && h.Document.Database == database {
			n += h.Policy.Concurrency
		}
	}
	return min(max(n, fewestConns), mostConns)
}

// unfitDatabases tells URLs that their drivers don't understand. It connects to nothing.
func unfitDatabases(list []config.DatabaseConfig) []config.Problem {
	var found []config.Problem
	for i := range list {
		d := &list[i]
		var err error
		switch d.Kind {
		case config.PostgreSQL:
			_, err = pgxpool.ParseConfig(d.URL)
			err = hideAddress(err)
		case config.MongoDB:
			err = checkMongo(d.URL)
		}
		if err != nil {
			found = append(found, d.Wrong(fmt.Sprintf("url can't be used: %v; expected one that"+
				" the driver for %s reads", err, d.Kind)))
		}
	}
	return found
}

// hideAddress keeps a URL with its password out of an error.
func hideAddress(err error) error {
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) && parse.Unwrap() != nil {
		err = parse.Unwrap()
	}
	if err != nil && (strings.Contains(err.Error(), "://") || strings.Contains(err.Error(), "@")) {
		return errors.New("it can't be read")
	}
	return err
}

// MongoDB's errors of a login that is turned down, and of one that may not write.
const (
	mongoUnauthorized = 13
	mongoLoginFailed  = 18
)

// refusesLogin reports whether a database turns us down, and not the event: SQLSTATE 28 (invalid
// authorization) and 42501 (insufficient privilege), and what is the same in MongoDB.
func refusesLogin(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return strings.HasPrefix(pg.Code, "28") || pg.Code == "42501"
	}
	var server mongo.ServerError
	return errors.As(err, &server) &&
		(server.HasErrorCode(mongoUnauthorized) || server.HasErrorCode(mongoLoginFailed))
}
