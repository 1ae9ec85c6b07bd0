package oncepg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once"
)

// SchemaState is what is wrong with a schema.
type SchemaState string

// What can be wrong with a schema.
const (
	// SchemaNewer: it was migrated by a newer program. Use that one.
	SchemaNewer SchemaState = "newer"
	// SchemaBehind: migrations are missing. Call [Migrate].
	SchemaBehind SchemaState = "behind"
	// SchemaChanged: what was applied is not what this program has under that number.
	SchemaChanged SchemaState = "changed"
	// SchemaForbidden: the role may not make or change it.
	SchemaForbidden SchemaState = "forbidden"
)

// SchemaError says that a schema can't be used as it is, and what to do. It unwraps to
// once.ErrState, and to what the database said if it said something.
type SchemaError struct {
	// Schema is its name.
	Schema string
	State  SchemaState
	// Found is the newest version in the schema, Known that of this program.
	Found, Known int
	// Reason is for people, with what to do.
	Reason string
	// Err is the database's, or nil.
	Err error
}

// Error tells the reason, and what the database said.
func (e *SchemaError) Error() string {
	text := "the schema " + e.Schema + ": " + e.Reason
	if e.Err != nil {
		text += " (" + e.Err.Error() + ")"
	}
	return text
}

// Unwrap returns the sentinel and the database's error.
func (e *SchemaError) Unwrap() []error {
	if e.Err == nil {
		return []error{once.ErrState}
	}
	return []error{once.ErrState, e.Err}
}

// refusedBy says what to do where the database refuses what a migration does.
func refusedBy(schema string, err error) error {
	refusal := &SchemaError{Schema: schema, Err: err}
	switch codeOf(err) {
	case codePrivilege:
		refusal.State = SchemaForbidden
		refusal.Reason = "this role may not make, change or read it; let one that may create in " +
			"the database run `once migrate up`, or apply what `once migrate print` prints, and " +
			"grant this role USAGE on the schema, and SELECT, INSERT, UPDATE, DELETE on all of " +
			"its tables"
	case codeTableThere:
		refusal.State = SchemaChanged
		refusal.Reason = "it holds a table or an index of the name of one of once's, which once " +
			"did not make: name a schema that is once's alone"
	default:
		return err
	}
	return refusal
}

// codeTableThere is that of creating a relation whose name is taken.
const codeTableThere = "42P07"

// applied is what a schema says of itself.
type applied struct {
	schema bool // it is there
	list   []MigrationStatus
}

// byHand reports migrations whose checksum is not written down yet.
func (a applied) byHand() bool {
	for _, m := range a.list {
		if m.Checksum == "" {
			return true
		}
	}
	return false
}

// readApplied reads what was applied to a schema, by version.
func readApplied(ctx context.Context, r reader, schema string) (applied, error) {
	table := quoteColumn(schema) + "." + migrationTable
	// The catalog is looked at by name: to_regclass of a schema without USAGE is an error.
	got, err := r.query(ctx, query{`SELECT n.nspname::text, c.relname::text FROM pg_namespace n
	LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = $2::text
	WHERE n.nspname = $1::text`, []any{schema, migrationTable}})
	if err != nil || len(got) == 0 {
		return applied{}, err
	}
	has := applied{schema: true}
	if got[0][1] == nil {
		return has, nil
	}
	got, err = r.query(ctx, query{"SELECT version::text, name, coalesce(checksum, ''), " +
		"(extract(epoch FROM applied_at) * 1000000)::bigint::text FROM " + table +
		" ORDER BY version", nil})
	if err != nil {
		return has, refusedBy(schema, err)
	}
	for _, r := range got {
		version, err := strconv.Atoi(*r[0])
		if err != nil {
			return has, err
		}
		at, err := strconv.ParseInt(*r[3], 10, 64)
		if err != nil {
			return has, err
		}
		has.list = append(has.list, MigrationStatus{
			Version: version, Name: *r[1], Checksum: *r[2], AppliedAt: time.UnixMicro(at),
		})
	}
	return has, nil
}

// compareSchema returns how many of the migrations that are wanted were applied.
func compareSchema(schema string, has applied, want []Migration) (int, error) {
	found := 0
	if n := len(has.list); n > 0 {
		found = has.list[n-1].Version
	}
	fail := func(state SchemaState, reason string) (int, error) {
		return 0, &SchemaError{
			Schema: schema, State: state, Found: found, Known: len(want), Reason: reason,
		}
	}
	if found > len(want) {
		return fail(SchemaNewer, fmt.Sprintf("it has version %d, and this program knows versions "+
			"up to %d: run the newer program that migrated it", found, len(want)))
	}
	for i, m := range has.list {
		w := want[i]
		switch {
		case m.Version != w.Version:
			return fail(SchemaChanged, fmt.Sprintf("migration %d was applied, and %d was not: "+
				"apply it by hand, as `once migrate print` shows it", m.Version, w.Version))
		case m.Name != w.Name || m.Checksum != "" && m.Checksum != w.Checksum:
			return fail(SchemaChanged, fmt.Sprintf("migration %04d_%s was applied with another "+
				"text than this program has (checksum %.12s, here %.12s): run the program that "+
				"applied it, or compare both texts, mend the schema by hand, and set the checksum "+
				"to NULL in %s", m.Version, m.Name, m.Checksum, w.Checksum, migrationTable))
		}
	}
	return len(has.list), nil
}

// checkSchema returns a *SchemaError unless a schema is as this program needs it.
func checkSchema(ctx context.Context, r reader, cfg MigrateConfig) error {
	schema := cfg.Schema
	want, err := readMigrations(cfg.files)
	if err != nil {
		return err
	}
	has, err := readApplied(ctx, r, schema)
	if err != nil {
		return err
	}
	n, err := compareSchema(schema, has, want)
	if err != nil {
		return err
	}
	if n == len(want) {
		return nil
	}
	reason := fmt.Sprintf("it has version %d, and this program needs %d: run `once migrate up`, "+
		"or apply what `once migrate print` prints", n, len(want))
	if !has.schema {
		reason = "it is not there: run `once migrate up`, or apply what `once migrate print` prints"
	}
	return &SchemaError{
		Schema: schema, State: SchemaBehind, Found: n, Known: len(want), Reason: reason,
	}
}

// CheckSchema returns nil if a schema is as this program needs it, and otherwise a *[SchemaError],
// or a once.ErrUnavailable. It changes nothing.
func CheckSchema(ctx context.Context, pool *pgxpool.Pool, cfg MigrateConfig) error {
	cfg, err := cfg.withDefaults()
	if err == nil {
		err = checkSchema(ctx, poolMigrator{pool}, cfg)
	}
	if err != nil {
		return fmt.Errorf("check schema: %w", unavailable(err))
	}
	return nil
}

// MigrationStatus is a migration as a schema has it.
type MigrationStatus struct {
	Version int
	Name    string
	// Applied is false for one that is missing.
	Applied bool
	// AppliedAt is the database's time; zero where it was not applied.
	AppliedAt time.Time
	// Checksum of the text that was applied, in hex; empty for one that was applied by hand, and
	// not seen by Migrate since.
	Checksum string
	// Changed is true if another text was applied than this program has.
	Changed bool
	// Known is false for one that this program does not have.
	Known bool
}

// Status returns the migrations of this program and of a schema, by version, and as an error what
// keeps this program from using the schema: see [CheckSchema]. It changes nothing.
func Status(
	ctx context.Context, pool *pgxpool.Pool, cfg MigrateConfig,
) ([]MigrationStatus, error) {
	if pool == nil {
		return nil, errors.New("status: no pool")
	}
	return status(ctx, poolMigrator{pool}, cfg)
}

// StatusSQL is [Status] over database/sql.
func StatusSQL(ctx context.Context, db *sql.DB, cfg MigrateConfig) ([]MigrationStatus, error) {
	if db == nil {
		return nil, errors.New("status: no database")
	}
	return status(ctx, sqlMigrator{db}, cfg)
}

func status(ctx context.Context, r reader, cfg MigrateConfig) ([]MigrationStatus, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	want, err := readMigrations(cfg.files)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	has, err := readApplied(ctx, r, cfg.Schema)
	if err != nil {
		return nil, fmt.Errorf("status: %w", unavailable(err))
	}
	list := make([]MigrationStatus, len(want))
	for i, m := range want {
		list[i] = MigrationStatus{Version: m.Version, Name: m.Name, Known: true}
	}
	for _, m := range has.list {
		m.Applied = true
		if m.Version < 1 || m.Version > len(want) {
			list = append(list, m)
			continue
		}
		w := want[m.Version-1]
		m.Known = true
		m.Changed = m.Name != w.Name || m.Checksum != "" && m.Checksum != w.Checksum
		list[m.Version-1] = m
	}
	if err := checkSchema(ctx, r, cfg); err != nil {
		return list, fmt.Errorf("status: %w", unavailable(err))
	}
	return list, nil
}

// Print writes the migrations from a version on as one text for psql, with the schema's name and
// what is to be written down. from is at least 1.
func Print(w io.Writer, cfg MigrateConfig, from int) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return fmt.Errorf("print migrations: %w", err)
	}
	want, err := readMigrations(cfg.files)
	if err != nil {
		return fmt.Errorf("print migrations: %w", err)
	}
	var b strings.Builder
	for i, m := range want[min(max(from, 1)-1, len(want)):] {
		fmt.Fprintf(&b, "-- Migration %04d_%s of the schema %s\nBEGIN;\n", m.Version, m.Name,
			strings.ReplaceAll(cfg.Schema, "\n", " "))
		if i == 0 && m.Version == 1 {
			fmt.Fprintf(&b, "CREATE SCHEMA IF NOT EXISTS %s;\n", quoteColumn(cfg.Schema))
		}
		fmt.Fprintf(&b, "SET LOCAL search_path = %s;\n\n%s\nUPDATE %s SET checksum = '%s' "+
			"WHERE version = %d;\nCOMMIT;\n\n", quoteColumn(cfg.Schema), m.SQL, migrationTable,
			m.Checksum, m.Version)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("print migrations: %w", err)
	}
	return nil
}
