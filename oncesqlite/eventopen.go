package oncesqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncekit/once/write"
)

// EventsSQL is what creates the table of the events' records, for those who let Open create
// nothing. Ids compare byte for byte.
func (w *Writer) EventsSQL() string {
	return fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %[1]s (
	id TEXT NOT NULL PRIMARY KEY,
	digest BLOB NOT NULL,
	target TEXT,
	key TEXT,
	outcome TEXT NOT NULL,
	numbers TEXT,
	at INTEGER NOT NULL -- microseconds since 1970
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS %[2]s ON %[1]s (at);`,
		w.events, quoteName(w.conf.Events+"_at"))
}

// Open prepares the database: it creates the table of the events' records unless it is there, and
// looks for the unique index over the key of each target. A target without one is a
// *write.IndexError, a table or a key that can't be used a *write.ShapeError; of several the first.
// A database that stays locked is a write.ErrBusy.
func (w *Writer) Open(ctx context.Context) error {
	err := w.patiently(ctx, w.patience(), func(ctx context.Context) error {
		if err := w.openEvents(ctx); err != nil {
			return err
		}
		for _, target := range w.targets.All() {
			if err := w.openTarget(ctx, target); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("open writer: %w", err)
	}
	return nil
}

func (w *Writer) openEvents(ctx context.Context) error {
	var there int
	err := w.db.QueryRowContext(ctx,
		"SELECT count(*) FROM pragma_table_info(?1)", w.conf.Events).Scan(&there)
	switch {
	case err != nil:
		return err
	case there > 0:
	case w.conf.NoCreate:
		return fmt.Errorf("the table %s is missing: create it with: %s",
			w.conf.Events, w.EventsSQL())
	default:
		err := w.transact(ctx, w.patience(), func(ctx context.Context, tx *sql.Tx) (bool, error) {
			for text := range strings.SplitSeq(w.EventsSQL(), ";\n") {
				if _, err := tx.ExecContext(ctx, text); err != nil {
					return false, err
				}
			}
			return true, nil
		})
		if err != nil {
			return fmt.Errorf("create %s: %w", w.conf.Events, err)
		}
	}
	rows, err := w.db.QueryContext(ctx,
		"SELECT id, digest, target, key, outcome, numbers, at FROM "+w.events+" LIMIT 0")
	if err != nil {
		return fmt.Errorf("the table %s is another one: %w", w.conf.Events, err)
	}
	return rows.Close()
}

// uniqueSQL finds the collations of the unique indexes over one column alone.
const uniqueSQL = `
SELECT max(x.coll) FROM pragma_index_list(?1) i JOIN pragma_index_xinfo(i.name) x
WHERE i."unique" AND NOT i.partial AND x.key
GROUP BY i.name HAVING count(*) = 1 AND max(x.name) = ?2`

func (w *Writer) openTarget(ctx context.Context, target write.Target) error {
	w.tables.forget(target.Name)
	t, err := w.tables.get(ctx, w.db, target)
	if err != nil {
		return err
	}
	if t.rowid {
		return nil
	}
	collations, err := w.texts(ctx, uniqueSQL, target.Name, target.Key)
	if err != nil {
		return fmt.Errorf("read indexes of %s: %w", target.Name, err)
	}
	blurred := ""
	for _, c := range collations {
		if strings.EqualFold(c, "BINARY") {
			return nil
		}
		blurred = c
	}
	if blurred != "" {
		return t.wrong(target.Key,
			"a key with the collation "+blurred+" takes different keys for one")
	}
	missing := &write.IndexError{
		In: target.Name, Key: target.Key,
		Command: fmt.Sprintf("CREATE UNIQUE INDEX %s ON %s (%s)",
			quoteName(target.Name+"_"+target.Key), quoteName(target.Name), quoteName(target.Key)),
	}
	missing.Duplicates, err = w.duplicates(ctx, t)
	if err != nil {
		return errors.Join(missing, err)
	}
	return missing
}

func (w *Writer) texts(ctx context.Context, text string, args ...any) (list []string, err error) {
	rows, err := w.db.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, rows.Err()
}

// duplicates are keys that are there more than once.
func (w *Writer) duplicates(
	ctx context.Context, t *eventTable,
) (list []write.DuplicateKey, err error) {
	key := quoteName(t.key)
	rows, err := w.db.QueryContext(ctx, fmt.Sprintf(
		"SELECT CAST(%s AS TEXT), count(*) FROM %s WHERE %s IS NOT NULL GROUP BY %s "+
			"HAVING count(*) > 1 ORDER BY 2 DESC, 1 LIMIT %d",
		key, quoteName(t.name), key, key, write.MaxDuplicates))
	if err != nil {
		return nil, fmt.Errorf("look for duplicates in %s: %w", t.name, err)
	}
	defer rows.Close()
	for rows.Next() {
		var d write.DuplicateKey
		if err := rows.Scan(&d.Key, &d.Count); err != nil {
			return nil, fmt.Errorf("look for duplicates in %s: %w", t.name, err)
		}
		list = append(list, d)
	}
	return list, rows.Err()
}

// Apply runs a function once for an event: what it does in its transaction, and the record of the
// event, are committed together or not at all. Contents are compared as once.ContentID sees them.
// The result's outcome is Applied, Duplicate or Conflict.
//
// do should be short: nobody else writes meanwhile, and Patience counts for it too. It may run more
// than once, each time in a new transaction, should do nothing outside of it, and neither commit
// nor roll back. Its error is returned after the roll-back.
func (w *Writer) Apply(
	ctx context.Context, id string, content any, do func(ctx context.Context, tx *sql.Tx) error,
) (result write.Result, err error) {
	digest, err := write.ContentDigest(id, content)
	if err != nil {
		return result, fmt.Errorf("apply event: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return result, err
	}
	err = w.transact(ctx, w.patience(), func(ctx context.Context, tx *sql.Tx) (bool, error) {
		k := eventTx{eventShared: w.eventShared, tx: tx}
		n, err := k.exec(ctx, k.recordSQL(),
			id, digest[:], nil, nil, string(write.Applied), nil, time.Now().UnixMicro())
		if err != nil {
			return false, err
		}
		if n == 0 {
			record, err := k.recorded(ctx, id)
			result = record.Answer(digest)
			return false, err
		}
		result = write.Result{Outcome: write.Applied}
		return true, do(ctx, tx)
	})
	if err != nil {
		return write.Result{}, err
	}
	return result, nil
}

// Sweep forgets up to limit events whose retention is over, the oldest first, and returns how many.
// Call it now and then, for example every minute, again at once while it returns limit.
func (w *Writer) Sweep(ctx context.Context, limit int) (swept int, err error) {
	if limit <= 0 {
		return 0, nil
	}
	before := time.Now().Add(-w.conf.Retention).UnixMicro()
	err = w.transact(ctx, w.patience(), func(ctx context.Context, tx *sql.Tx) (bool, error) {
		done, err := tx.ExecContext(ctx, fmt.Sprintf("DELETE FROM %[1]s WHERE id IN "+
			"(SELECT id FROM %[1]s WHERE at < ?1 ORDER BY at LIMIT ?2)", w.events), before, limit)
		if err != nil {
			return false, err
		}
		n, err := done.RowsAffected()
		swept = int(n)
		return n > 0, err
	})
	if err != nil {
		return 0, fmt.Errorf("sweep events: %w", err)
	}
	return swept, nil
}
