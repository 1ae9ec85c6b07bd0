package server

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/url"
	"os"

	_ "github.com/ncruces/go-sqlite3/driver" // "sqlite3"

	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/oncesqlite"
	"github.com/oncekit/once/write"
)

func (s *Server) sqlite(d *config.DatabaseConfig, targets []write.Target) (connect, io.Closer,
	error,
) {
	file := url.URL{Scheme: "file", OmitHost: true, Path: d.Path,
		RawQuery: url.Values{"mode": {"rw"}}.Encode()}
	db, err := sql.Open("sqlite3", file.String())
	if err != nil {
		return nil, nil, err
	}
	w, err := oncesqlite.NewWriter(db, oncesqlite.WriterConfig{
		Targets: targets, Retention: d.Retention, Logger: s.log.With("database", d.Name),
	})
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return func(ctx context.Context) (write.Writer, error) {
		if _, err := os.Stat(d.Path); err != nil {
			return nil, err // SQLite says no more than that it can't open it
		}
		return w, w.Open(ctx)
	}, db, nil
}
