package fill

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncesqlite"
)

// outcomeSize is the size of the outcomes of filled records, in bytes: a short answer of an API.
const outcomeSize = 100

// Claim is the claim of record n, whether it was filled or is new. All have one fingerprint.
func Claim(n int64) once.Claim {
	return once.Claim{
		Identity: recordIdentity(n), Owner: once.NewOwner(), Lease: time.Minute,
		Fingerprint: once.FingerprintRaw([]byte("order")), Retention: retention,
		Note: once.Note{Scope: []string{"account-17"}, Key: "3f0c9f6e", Request: "POST /orders"},
	}
}

func recordIdentity(n int64) once.Identity {
	return once.DeriveIdentity(once.Identity{1},
		string(binary.BigEndian.AppendUint64([]byte("record"), uint64(n))), 0)
}

// pattern completes record 0 in a store: the others are made in its likeness, so that nothing here
// has to know how the store writes one.
func pattern(ctx context.Context, s once.Store) error {
	grant, err := s.Claim(ctx, Claim(0))
	if err != nil {
		return err
	}
	return s.Complete(ctx, grant, once.Outcome{Data: make([]byte, outcomeSize)})
}

// Records makes a SQLite store with n completed records: those of Claim(0) to Claim(n-1).
func Records(ctx context.Context, path string, n int64) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("fill records: %w", err), remove(path))
		}
	}()
	s, err := oncesqlite.Open(ctx, oncesqlite.Config{Path: path})
	if err != nil {
		return err
	}
	if !s.Created() {
		return errors.Join(fmt.Errorf("%s is there already", path), s.Close())
	}
	if err := errors.Join(pattern(ctx, s.Records()), s.Close()); err != nil {
		return err
	}
	db, indexes, err := openTable(path, "records")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := copyRecord(ctx, db, n, indexes); err != nil {
		return err
	}
	// Only record 0 is counted so far.
	if err := db.Exec(fmt.Sprintf("UPDATE counters SET n = %d WHERE n = 1", n)); err != nil {
		return fmt.Errorf("write counters: %w", err)
	}
	return closeTable(db)
}

// packed is how many of 100 records are there when the indexes are made. SQLite makes them of full
// pages, each of which the next record would split; in a store that grew pages are about two thirds
// full. The others come in the order of their identities, which writes each page once.
const packed = 70

// copyRecord writes the one record there is under n-1 further identities, and makes the indexes.
func copyRecord(ctx context.Context, db *sqlite3.Conn, n int64, indexes []string) error {
	columns, err := texts(db, "SELECT name FROM pragma_table_info('records') "+
		"WHERE name NOT IN ('seq', 'identity')")
	if err != nil {
		return err
	}
	rest := strings.Join(columns, ",")
	if err := db.Exec("CREATE TEMP TABLE pattern AS SELECT " + rest + " FROM records"); err != nil {
		return fmt.Errorf("copy record: %w", err)
	}
	q, _, err := db.Prepare("INSERT INTO records (identity," + rest + ") SELECT ?," + rest +
		" FROM temp.pattern")
	if err != nil {
		return fmt.Errorf("copy record: %w", err)
	}
	defer q.Close()
	write := func(id once.Identity, i int64) error {
		if err := errors.Join(q.BindBlob(1, id[:]), q.Exec()); err != nil {
			return fmt.Errorf("write record: %w", err)
		}
		if i%partRows == 0 {
			return ctx.Err()
		}
		return nil
	}
	first := n * packed / 100
	for i := int64(1); i < first; i++ {
		if err := write(recordIdentity(i), i); err != nil {
			return err
		}
	}
	if err := carryOut(db, indexes); err != nil {
		return err
	}
	var others []once.Identity
	for i := max(first, 1); i < n; i++ {
		others = append(others, recordIdentity(i))
	}
	slices.SortFunc(others, func(a, b once.Identity) int { return bytes.Compare(a[:], b[:]) })
	for i, id := range others {
		if err := write(id, int64(i)); err != nil {
			return err
		}
	}
	return db.Exec("DROP TABLE temp.pattern")
}
