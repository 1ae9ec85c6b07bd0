package oncepg

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/oncekit/once"
	"github.com/oncekit/once/write"
)

// Open prepares the database: it creates the table of the events' records unless it is there, and
// looks for the unique index over the key of each target. A target without one is a
// *write.IndexError, a table or a key that can't be used a *write.ShapeError; of several the first.
// It may be called by many at once.
func (w *Writer) Open(ctx context.Context) error {
	if err := w.openEvents(ctx); err != nil {
		return fmt.Errorf("open writer: %w", err)
	}
	if err := warnUnwatched(ctx, w.own, w.conf.Logger); err != nil {
		return fmt.Errorf("open writer: %w", unavailable(err))
	}
	for _, target := range w.targets.All() {
		if err := w.openTarget(ctx, target); err != nil {
			return fmt.Errorf("open writer: %w", unavailable(err))
		}
	}
	return nil
}

// unavailable adds the sentinel to an error of a database that is not there.
func unavailable(err error) error {
	if troubleOf(err) == lost {
		return fmt.Errorf("%w: %w", once.ErrUnavailable, err)
	}
	return err
}

// eventsSQL creates the table of the events' records. Ids compare byte for byte. No statistics are
// made while it is small: plans that are kept would be made for a small table.
const eventsSQL = `CREATE TABLE %[1]s (
	id text COLLATE "C" CONSTRAINT %[2]s PRIMARY KEY,
	digest bytea NOT NULL,
	owner bytea NOT NULL,
	target text,
	key text,
	outcome text NOT NULL,
	numbers text,
	at timestamptz NOT NULL
) WITH (autovacuum_analyze_threshold = 5000);
CREATE INDEX %[3]s ON %[1]s (at);`

// EventsSQL is what creates the table of the events' records, for those who let Open create
// nothing.
func (w *Writer) EventsSQL() string {
	name := tableName(w.conf.Events)
	text := fmt.Sprintf(eventsSQL, w.events, quoteColumn(name+ownIndex),
		quoteColumn(name+"_once_at"))
	if schema, _, found := strings.Cut(w.conf.Events, "."); found {
		text = "CREATE SCHEMA IF NOT EXISTS " + quoteColumn(schema) + ";\n" + text
	}
	return text
}

func (w *Writer) openEvents(ctx context.Context) error {
	there, err := w.exists(ctx)
	if err != nil {
		return unavailable(err)
	}
	switch {
	case there:
	case w.conf.NoCreate:
		return fmt.Errorf("the table %s is missing: create it with: %s",
			w.conf.Events, w.EventsSQL())
	default:
		if err := w.create(ctx); err != nil {
			return fmt.Errorf("create %s: %w", w.conf.Events, unavailable(err))
		}
	}
	_, err = w.own.run(ctx, []query{{
		"SELECT id, digest, owner, target, key, outcome, numbers, at FROM " + w.events + " LIMIT 0",
		nil,
	}}, false)
	if err != nil {
		return fmt.Errorf("the table %s is another one: %w", w.conf.Events, err)
	}
	return w.checkEvents(ctx)
}

// checkEvents looks for the unique index over the ids, which a table that was copied may have lost.
// Its name tells its errors from those of the targets.
func (w *Writer) checkEvents(ctx context.Context) error {
	t, err := readTable(ctx, w.own, write.Target{Name: w.conf.Events, Key: "id"})
	if err != nil {
		return err
	}
	if typ := t.columns["numbers"].typ; typ != "text" {
		return fmt.Errorf("the table %s was made by an earlier version: ALTER TABLE %s "+
			"ALTER numbers TYPE text", w.conf.Events, w.events)
	}
	got, err := w.own.run(ctx, []query{{
		indexSQL + ` AND (SELECT right(c.relname, length($3::text)) = $3::text
	FROM pg_class c WHERE c.oid = i.indexrelid)`, []any{t.quoted, "id", ownIndex},
	}}, false)
	if err != nil {
		return fmt.Errorf("read indexes of %s: %w", w.conf.Events, err)
	}
	if *got[0][0][0] != "0" {
		return nil
	}
	missing := &write.IndexError{
		In: w.conf.Events, Key: "id",
		Command: fmt.Sprintf("CREATE UNIQUE INDEX %s ON %s (id)",
			quoteColumn(tableName(w.conf.Events)+ownIndex), w.events),
	}
	missing.Duplicates, err = w.duplicates(ctx, t)
	return errors.Join(missing, err)
}

func (w *Writer) exists(ctx context.Context) (bool, error) {
	got, err := w.own.run(ctx, []query{{
		"SELECT to_regclass($1::text)::text", []any{w.events},
	}}, false)
	return err == nil && got[0][0][0] != nil, err
}

// create makes the table. One that does so at the same time is not in the way: whoever comes second
// finds it.
func (w *Writer) create(ctx context.Context) error {
	var qs []query
	for text := range strings.SplitSeq(w.EventsSQL(), ";\n") {
		qs = append(qs, query{sql: strings.TrimSuffix(text, ";")})
	}
	for {
		var err error
		for _, q := range qs { // each is prepared by itself: it needs the one before
			if _, err = w.own.run(ctx, []query{q}, false); err != nil && !alreadyThere(err) {
				return err
			}
		}
		there, existsErr := w.exists(ctx)
		if there || existsErr != nil {
			return existsErr
		}
		if err := pause(ctx, 1); err != nil {
			return err
		}
	}
}

// alreadyThere tells errors of creating what somebody else has created or is creating: a schema, a
// table, a type or an index (42P06, 42P07, 42710), or their rows in the catalog.
func alreadyThere(err error) bool {
	switch codeOf(err) {
	case "42P06", "42P07", "42710", codeUnique:
		return true
	}
	return false
}

// indexSQL counts the unique indexes over one column alone that an insert can rely on: whole, not
// deferred, and valid.
const indexSQL = `
SELECT count(*)::text FROM pg_index i
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = to_regclass($1::text) AND a.attname = $2::text
	AND i.indisunique AND i.indimmediate AND i.indisvalid
	AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnkeyatts = 1`

func (w *Writer) openTarget(ctx context.Context, target write.Target) error {
	w.tables.forget(target.Name)
	t, err := w.tables.get(ctx, w.own, target)
	if err != nil {
		return err
	}
	got, err := w.own.run(ctx, []query{{indexSQL, []any{t.quoted, target.Key}}}, false)
	if err != nil {
		return fmt.Errorf("read indexes of %s: %w", target.Name, err)
	}
	if *got[0][0][0] != "0" {
		return nil
	}
	missing := &write.IndexError{
		In: target.Name, Key: target.Key,
		Command: fmt.Sprintf("CREATE UNIQUE INDEX ON %s (%s)", t.quoted, quoteColumn(target.Key)),
	}
	missing.Duplicates, err = w.duplicates(ctx, t)
	if err != nil {
		return errors.Join(missing, err)
	}
	return missing
}

// duplicates are keys that are there more than once.
func (w *Writer) duplicates(ctx context.Context, t *table) ([]write.DuplicateKey, error) {
	key := quoteColumn(t.key.name)
	got, err := w.own.run(ctx, []query{{fmt.Sprintf(
		"SELECT %s::text, count(*)::text FROM %s WHERE %s IS NOT NULL GROUP BY %s "+
			"HAVING count(*) > 1 ORDER BY count(*) DESC, %s LIMIT %d",
		key, t.quoted, key, key, key, write.MaxDuplicates), nil,
	}}, false)
	if err != nil {
		return nil, fmt.Errorf("look for duplicates in %s: %w", t.name, err)
	}
	var list []write.DuplicateKey
	for _, r := range got[0] {
		n, err := strconv.ParseInt(*r[1], 10, 64)
		if err != nil {
			return nil, err
		}
		list = append(list, write.DuplicateKey{Key: *r[0], Count: n})
	}
	return list, nil
}
