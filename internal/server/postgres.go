package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/oncepg"
)

const (
	// postgresOpenLimit bounds the first calls: a server that is away is told at the start. A
	// migration of a large table may take longer: `once migrate up` has no such limit.
	postgresOpenLimit = 2 * time.Minute
	// recordsConns are the connections for the records, where the URL says nothing of them. Each
	// has one step at a time, and one commit flushes several of them.
	recordsConns = 16
)

// readPostgres reads the URL of a PostgreSQL, and the name of the schema in it. It connects to
// nothing.
func readPostgres(url string) (*pgxpool.Config, string, error) {
	driver, schema := config.SplitSchema(url)
	cfg, err := pgxpool.ParseConfig(driver)
	if err != nil {
		return nil, "", hideAddress(err)
	}
	oncepg.Watch(cfg)
	return cfg, schema, nil
}

// ConnectPostgres makes a pool of up to conns connections, unless the URL says how many, and
// returns the name of the schema in the URL, which may be empty. It connects to nothing yet.
func ConnectPostgres(url string, conns int) (*pgxpool.Pool, string, error) {
	cfg, schema, err := readPostgres(url)
	if err != nil {
		return nil, "", err
	}
	if !strings.Contains(url, "pool_max_conns") {
		cfg.MaxConns = int32(conns)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	return pool, schema, err
}

// openPostgresRecords opens a PostgreSQL that keeps the gateway's records.
func (s *Server) openPostgresRecords(ctx context.Context, url string, maxOutcome int) error {
	pool, schema, err := ConnectPostgres(url, recordsConns)
	if err != nil {
		return fmt.Errorf("the PostgreSQL of the records: %w", err)
	}
	s.closers = append(s.closers, closeFunc(func() error { pool.Close(); return nil }))
	records, err := oncepg.NewRecords(pool, oncepg.RecordsConfig{
		Schema: schema, MaxOutcome: maxOutcome, NoMigrate: !s.cfg.Store.Create, Logger: s.log,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, postgresOpenLimit)
	defer cancel()
	if err := records.Open(ctx); err != nil {
		var schema *oncepg.SchemaError
		if errors.As(err, &schema) {
			return schema
		}
		return err
	}
	s.recordsReady = cached(records.Ping, recordsPingLimit)
	s.records, s.recordsSweep = records, records
	return nil
}
