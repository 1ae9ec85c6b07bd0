package fill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/oncekit/once/oncesqlite"
)

const (
	// indexLag is how many rows the search index may lag behind: less than two of its segments.
	indexLag = 8192
	// indexStall is how long it may stand still.
	indexStall = time.Minute
)

// index lets the store write its search index, which it does behind the rows, until it is done.
func index(ctx context.Context, path string) (err error) {
	s, err := oncesqlite.Open(ctx, oncesqlite.Config{Path: path, NoCreate: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	db, err := sqlite3.OpenFlags(path, sqlite3.OPEN_READONLY)
	if err != nil {
		return fmt.Errorf("watch index: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	last, moved := int64(0), time.Now()
	for {
		lag, err := number(db, "SELECT (SELECT max(seq) FROM rows) - "+
			"coalesce((SELECT max(last) FROM segments), 0)")
		switch {
		case err != nil:
			return err
		case lag < indexLag:
			return nil
		case lag != last:
			last, moved = lag, time.Now()
		case time.Since(moved) > indexStall:
			return fmt.Errorf("watch index: it lags %d rows behind and stands still", lag)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// number returns the only value of a query.
func number(db *sqlite3.Conn, query string) (n int64, err error) {
	q, _, err := db.Prepare(query)
	if err != nil {
		return 0, fmt.Errorf("prepare %.40q: %w", query, err)
	}
	defer q.Close()
	if q.Step() {
		n = q.ColumnInt64(0)
	}
	return n, q.Err()
}
