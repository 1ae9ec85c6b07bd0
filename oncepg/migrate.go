package oncepg

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed migrations/*.sql
var embedded embed.FS

// Migrations are the files that make the schema: plain SQL, named NNNN_name.sql, to be applied in
// the order of their numbers. [Migrate] applies them. They can as well be applied by hand, or with
// another tool: make a schema, let search_path name it first, and run each file in a transaction of
// its own. Each one writes into the table once_migrations that it was applied.
func Migrations() fs.FS {
	sub, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // the name is right
	}
	return sub
}

// DefaultSchema is the schema of the tables where none is named.
const DefaultSchema = "once"

const (
	// migrationTable is in the schema itself. Its name is one that no other tool uses.
	migrationTable = "once_migrations"
	// migrationLockLimit is how long a statement of a migration waits for a lock: whoever comes
	// after it for the same table waits behind it. Then the migration is tried again.
	migrationLockLimit = "10s"
	// migrationTries bounds how often one migration is tried.
	migrationTries = 100
	// maxSchema is the longest name that PostgreSQL keeps, in bytes.
	maxSchema = 63
)

// MigrateConfig says what is migrated. The zero value works.
type MigrateConfig struct {
	// Schema of the tables, as it is named, not quoted. It is made if it is missing. Default
	// [DefaultSchema].
	Schema string
	// Logger is told of each migration that was applied. Default: nobody.
	Logger *slog.Logger

	// files replace the embedded ones. Only tests set it.
	files fs.FS
}

func (c MigrateConfig) withDefaults() (MigrateConfig, error) {
	var err error
	if c.Schema, err = schemaName(c.Schema); err != nil {
		return c, err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.files == nil {
		c.files = Migrations()
	}
	return c, nil
}

// schemaName is the name of a schema, or why there can be none of it.
func schemaName(name string) (string, error) {
	switch {
	case name == "":
		return DefaultSchema, nil
	case len(name) > maxSchema || strings.ContainsRune(name, 0):
		return "", fmt.Errorf("no schema can be named %.70q: want at most %d bytes", name,
			maxSchema)
	case strings.HasPrefix(name, "pg_"):
		return "", fmt.Errorf("the schema %q: names that begin with pg_ are PostgreSQL's own", name)
	}
	return name, nil
}

// Migration is one step of the schema.
type Migration struct {
	// Version counts from 1.
	Version int
	// Name of the file without its number.
	Name string
	// SQL is the file's text.
	SQL string
	// Checksum is the SHA-256 of the text, in hex.
	Checksum string
}

var migrationName = regexp.MustCompile(`^(\d{4})_([a-z0-9_]+)\.sql$`)

// readMigrations reads files, which are numbered without a gap.
func readMigrations(files fs.FS) ([]Migration, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	var list []Migration
	for i, name := range names { // sorted, and so by number
		part := migrationName.FindStringSubmatch(name)
		if part == nil || part[1] != fmt.Sprintf("%04d", i+1) {
			return nil, fmt.Errorf("the migration %s: want the name %04d_NAME.sql", name, i+1)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		// The same text has one checksum, also where git has changed the ends of its lines.
		m := Migration{i + 1, part[2], strings.ReplaceAll(string(text), "\r\n", "\n"), ""}
		sum := sha256.Sum256([]byte(m.SQL))
		m.Checksum = hex.EncodeToString(sum[:])
		list = append(list, m)
	}
	return list, nil
}

// Migrate brings a schema to the state that this program needs. Each migration is a transaction,
// and is written down with its checksum in it. Any number of nodes may call it at once, also
// through a pooler in transaction mode: one migrates and the others wait. A schema that is as it
// should be is only read.
//
// A schema that can't be used is a *[SchemaError]: a newer one, one whose migrations had another
// text, or one that this role may not change. A database that is not there, and an answer to a
// commit that was lost, is a once.ErrUnavailable: it may be called again.
func Migrate(ctx context.Context, pool *pgxpool.Pool, cfg MigrateConfig) error {
	if pool == nil {
		return errors.New("migrate: no pool")
	}
	return migrate(ctx, poolMigrator{pool}, cfg)
}

// MigrateSQL is [Migrate] over database/sql.
func MigrateSQL(ctx context.Context, db *sql.DB, cfg MigrateConfig) error {
	if db == nil {
		return errors.New("migrate: no database")
	}
	return migrate(ctx, sqlMigrator{db}, cfg)
}

func migrate(ctx context.Context, m migrator, cfg MigrateConfig) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	want, err := readMigrations(cfg.files)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	for tries := 1; ; tries++ {
		done, err := migrateNext(ctx, m, cfg, want)
		switch t := troubleOf(err); {
		case err == nil && done:
			return nil
		case err == nil:
			tries = 0
		case (t == rival || t == serialization) && tries < migrationTries &&
			pause(ctx, tries) == nil:
		default:
			return fmt.Errorf("migrate schema %s: %w", cfg.Schema, unavailable(err))
		}
	}
}

// migrateNext applies the first migration that is missing. It is done if there was none.
func migrateNext(
	ctx context.Context, m migrator, cfg MigrateConfig, want []Migration,
) (done bool, err error) {
	has, err := readApplied(ctx, m, cfg.Schema)
	if err != nil {
		return false, err
	}
	next, err := compareSchema(cfg.Schema, has, want)
	if err != nil || next == len(want) && !has.byHand() {
		return true, err
	}
	start := time.Now()
	err = m.transact(ctx, func(t migration) error { return t.apply(ctx, cfg.Schema, want) })
	if err == nil && next < len(want) {
		cfg.Logger.Info("migrated", "schema", cfg.Schema, "version", want[next].Version,
			"name", want[next].Name, "took", time.Since(start))
	}
	if next == len(want) && codeOf(err) == codePrivilege {
		return true, nil // all was applied by hand; that its checksums are missing harms nothing
	}
	return false, refusedBy(cfg.Schema, err)
}

// apply applies the first migration that is missing, while nobody else does.
func (t migration) apply(ctx context.Context, schema string, want []Migration) error {
	// A role's limits are meant for requests: how long a migration takes, and who waits for it, is
	// the caller's affair.
	const unlimited = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0"
	if err := t.exec(ctx, unlimited); err != nil {
		return err
	}
	// The lock ends with the transaction, so it works behind a pooler. The statement after it sees
	// what was committed while it waited.
	if _, err := t.query(ctx, query{
		"SELECT pg_advisory_xact_lock(hashtextextended('once migrate ' || $1::text, 0))::text",
		[]any{schema},
	}); err != nil {
		return err
	}
	has, err := t.applied(ctx, schema)
	if err != nil {
		return err
	}
	next, err := compareSchema(schema, has, want)
	if err != nil {
		return err
	}
	if !has.schema {
		// IF NOT EXISTS would ask for rights that are not needed where it is there.
		if err := t.exec(ctx, "CREATE SCHEMA "+quoteColumn(schema)); err != nil {
			return err
		}
	}
	if err := t.exec(ctx, setPath(schema)); err != nil {
		return err
	}
	if next < len(want) {
		if err := t.exec(ctx, want[next].SQL); err != nil {
			return fmt.Errorf("migration %04d_%s: %w", want[next].Version, want[next].Name, err)
		}
	}
	return t.writeChecksums(ctx, want[:min(next+1, len(want))])
}

// setPath lets the names of a file be those of a schema, as long as the transaction lasts.
func setPath(schema string) string {
	return "SET LOCAL search_path = " + quoteColumn(schema) +
		"; SET LOCAL lock_timeout = '" + migrationLockLimit + "'"
}

// writeChecksums completes what the files have written down, and what was applied by hand.
func (t migration) writeChecksums(ctx context.Context, list []Migration) error {
	for _, m := range list {
		got, err := t.query(ctx, query{
			"UPDATE " + migrationTable + " SET checksum = coalesce(checksum, $2::text) " +
				"WHERE version = $1::text::integer AND name = $3::text RETURNING version::text",
			[]any{strconv.Itoa(m.Version), m.Checksum, m.Name},
		})
		if err != nil {
			return err
		}
		if len(got) != 1 {
			return fmt.Errorf("migration %04d_%s does not write down that it was applied",
				m.Version, m.Name)
		}
	}
	return nil
}
