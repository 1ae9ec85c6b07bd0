package oncepg

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/oncekit/once/write"
)

// quote quotes the name of a table, which may have a schema before a dot.
func quote(name string) string {
	if schema, table, found := strings.Cut(name, "."); found {
		return pgx.Identifier{schema, table}.Sanitize()
	}
	return quoteColumn(name)
}

// tableName is the name without the schema.
func tableName(name string) string {
	if _, table, found := strings.Cut(name, "."); found {
		return table
	}
	return name
}

func quoteColumn(name string) string { return pgx.Identifier{name}.Sanitize() }

// kind is what a column takes.
type kind int

const (
	kindOther kind = iota // whatever PostgreSQL makes of a text
	kindNumber
	kindText
	kindBool
	kindTime
	kindBytes
	kindJSON
	kindArray
)

// kindNames are the kinds in words, for people.
var kindNames = [...]string{
	"", "a number", "a text", "true or false", "a time", "bytes", "JSON", "an array",
}

// column of a target.
type column struct {
	name string
	typ  string // as it is written in a cast, without a length: a cast to one would cut
	full string // with its length or precision
	kind kind
	base string // the type's own name
	elem kind   // of an array's elements
	// blurred: texts that differ in case or in spaces at the end are equal.
	blurred bool
	most    int // characters that a varchar takes; 0: any number
}

// table is what is known of a target.
type table struct {
	name    string // as the user wrote it
	quoted  string
	key     column
	columns map[string]column
	forms   forms
}

// tables remembers the targets' columns.
type tables struct {
	mu     sync.Mutex
	byName map[string]*table
}

func newTables() *tables { return &tables{byName: map[string]*table{}} }

func (t *tables) forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byName, name)
}

// get returns a target, which is read from the catalog at the first time.
func (t *tables) get(ctx context.Context, r runner, target write.Target) (*table, error) {
	t.mu.Lock()
	known := t.byName[target.Name]
	t.mu.Unlock()
	if known != nil {
		return known, nil
	}
	fresh, err := readTable(ctx, r, target)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byName[target.Name] = fresh
	return fresh, nil
}

// columnsSQL lists a table's columns. A domain counts as the type below all domains: a cast to one
// over varchar(3) would cut. -1 as the length gives names that can be written in a cast ("bpchar",
// where "character" would mean one character).
const columnsSQL = `
WITH RECURSIVE c AS (
	SELECT attname, attcollation, atttypid AS typ, atttypmod AS mod FROM pg_attribute
	WHERE attrelid = to_regclass($1::text) AND attnum > 0 AND NOT attisdropped
UNION ALL
	SELECT attname, attcollation, typbasetype, CASE WHEN mod < 0 THEN typtypmod ELSE mod END
	FROM c JOIN pg_type d ON d.oid = c.typ AND d.typtype = 'd'
)
SELECT c.attname::text, format_type(c.typ, -1), t.typname::text, t.typcategory::text,
	coalesce(e.typname, '')::text, coalesce(e.typcategory, ' ')::text,
	coalesce(co.collisdeterministic, true)::text, format_type(c.typ, c.mod),
	CASE WHEN t.typname = 'varchar' AND c.mod > 4 THEN c.mod - 4 ELSE 0 END::text
FROM c
JOIN pg_type t ON t.oid = c.typ AND t.typtype <> 'd'
LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = 'A'
LEFT JOIN pg_collation co ON co.oid = c.attcollation`

func readTable(ctx context.Context, r runner, target write.Target) (*table, error) {
	t := &table{
		name: target.Name, quoted: quote(target.Name), columns: map[string]column{},
	}
	got, err := r.run(ctx, []query{{columnsSQL, []any{t.quoted}}}, false)
	if err != nil {
		return nil, fmt.Errorf("read columns of %s: %w", target.Name, err)
	}
	for _, r := range got[0] {
		c := column{
			name: *r[0], typ: *r[1], base: *r[2], kind: kindOf(*r[2], *r[3]), full: *r[7],
		}
		c.most, _ = strconv.Atoi(*r[8]) // always a number
		c.blurred = c.base == "bpchar" || c.base == "citext" || *r[6] != "true"
		if c.kind == kindArray {
			c.elem = kindOf(*r[4], *r[5])
		}
		t.columns[c.name] = c
	}
	if len(t.columns) == 0 {
		return nil, &write.ShapeError{In: target.Name, Reason: "no such table"}
	}
	key, found := t.columns[target.Key]
	switch {
	case !found:
		return nil, &write.ShapeError{In: target.Name, Field: target.Key, Reason: noColumn}
	case key.blurred, key.base == "float4", key.base == "float8":
		return nil, &write.ShapeError{
			In: target.Name, Field: target.Key,
			Reason: "a key of type " + key.typ + " with its collation takes different keys for one",
		}
	case key.kind != kindNumber && key.kind != kindText:
		return nil, &write.ShapeError{
			In: target.Name, Field: target.Key,
			Reason: "a key is an integer or a text, not " + key.typ,
		}
	}
	t.key = key
	return t, nil
}

const noColumn = "no such column"

// kindOf tells what a type takes, by its name and its category (pg_type.typcategory).
func kindOf(name, category string) kind {
	switch name {
	case "json", "jsonb":
		return kindJSON
	case "bytea":
		return kindBytes
	case "uuid":
		return kindText
	case "date", "timestamp", "timestamptz":
		return kindTime
	case "int2", "int4", "int8", "numeric", "float4", "float8":
		return kindNumber
	}
	switch category {
	case "S", "E":
		return kindText
	case "B":
		return kindBool
	case "A":
		return kindArray
	}
	return kindOther
}

// column finds one by its name.
func (t *table) column(name string) (column, error) {
	c, found := t.columns[name]
	if !found {
		return column{}, &write.ShapeError{In: t.name, Field: name, Reason: noColumn}
	}
	return c, nil
}

// hasPlainKey tells whether a key has one spelling only.
func (t *table) hasPlainKey() bool {
	switch t.key.base {
	case "int2", "int4", "int8", "numeric", "text", "varchar":
		return true
	}
	return false
}
