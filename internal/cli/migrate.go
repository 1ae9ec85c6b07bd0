package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/internal/screen"
	"github.com/oncekit/once/internal/server"
	"github.com/oncekit/once/oncepg"
)

// migrateConns are the connections of a migration: one works, and one looks.
const migrateConns = 2

func (a *app) migrateCommand() *cobra.Command {
	c := takes(&cobra.Command{
		Use:   "migrate",
		Short: "Make and change the tables in PostgreSQL",
		Long: `Make and change the tables in PostgreSQL. A server that starts does it by
itself, unless its file says create: false. These commands are for roles that may create tables,
where that of the server may not, and for large databases, whose migration takes time.

--store names the database and, as ?schema=NAME, the schema (default ` +
			oncepg.DefaultSchema + `). --config
takes whatever of a file is in PostgreSQL: its store and its gateway's records.`,
		RunE: help,
	}, 0, 0, "")
	c.AddCommand(a.migrateUp(), a.migrateStatus(), a.migratePrint())
	return c
}

func (a *app) migrateUp() *cobra.Command {
	var f settings
	c := takes(&cobra.Command{
		Use:   "up",
		Short: "Apply the migrations that are missing, each in a transaction",
		Long: `Apply the migrations that are missing, each in a transaction. It may be called by
many at once, and again. A schema of a newer program, and one whose migrations had another text, is
left as it is (status 4).`,
		RunE: func(c *cobra.Command, _ []string) error {
			return f.eachSchema(c, a.migrate)
		},
	}, 0, 0, "")
	f.addSchema(c)
	return c
}

func (a *app) migrateStatus() *cobra.Command {
	var f settings
	c := takes(&cobra.Command{
		Use:   "status",
		Short: "Say which migrations are applied, missing or changed (status 4)",
		Long: `Say which migrations are applied, missing or changed. The status is 0 if this
program can use the schema as it is, and 4 if it can't. Nothing is changed.`,
		RunE: func(c *cobra.Command, _ []string) error {
			return f.eachSchema(c, a.schemaStatus)
		},
	}, 0, 0, "")
	f.addSchema(c)
	return c
}

func (a *app) migratePrint() *cobra.Command {
	var f settings
	from := 1
	c := takes(&cobra.Command{
		Use:   "print",
		Short: "Print the migrations as a text for psql; nobody is asked",
		Long: `Print the migrations as a text for psql, with the schema's name and what is to be
written down. Nobody is asked: what is applied already is in it too, unless --from leaves it out.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if from < 1 {
				return &usageError{fmt.Errorf("--from %d: versions begin with 1", from), hint(c)}
			}
			list := []schemaPlace{{}}
			if f.store != "" || f.file != "" || os.Getenv("ONCE_STORE") != "" {
				var err error
				if list, err = f.schemas(c); err != nil {
					return err
				}
			}
			for _, p := range list {
				err := oncepg.Print(c.OutOrStdout(), oncepg.MigrateConfig{Schema: p.schema}, from)
				if err != nil {
					return err
				}
			}
			return nil
		},
	}, 0, 0, "")
	f.addSchema(c)
	c.Flags().IntVar(&from, "from", from, "the first `VERSION` that is printed")
	return c
}

// schemaPlace is a schema and where it is.
type schemaPlace struct{ url, schema string }

func (p schemaPlace) String() string {
	schema := p.schema
	if schema == "" {
		schema = oncepg.DefaultSchema
	}
	return "schema " + schema + " in " + placeOfRecords(p.url)
}

func (f *settings) addSchema(c *cobra.Command) {
	c.Flags().StringVarP(&f.file, "config", "c", "", "the configuration `FILE`")
	c.Flags().StringVar(&f.store, "store", "",
		"the database's `URL`, postgres://HOST/DATABASE?schema=NAME")
}

// schemas are those that are meant.
func (f *settings) schemas(c *cobra.Command) ([]schemaPlace, error) {
	place := func(url string) schemaPlace {
		_, schema := config.SplitSchema(url)
		return schemaPlace{url, schema}
	}
	wrong := func(format string, args ...any) ([]schemaPlace, error) {
		return nil, &usageError{fmt.Errorf(format, args...), hint(c)}
	}
	url := f.store
	if url == "" && f.file == "" {
		url = os.Getenv("ONCE_STORE")
	}
	if url != "" {
		if !config.IsPostgreSQL(url) {
			return wrong("the store %s is not in PostgreSQL, and has nothing to be migrated by "+
				"hand; expected postgres://HOST/DATABASE", placeOfStore(url))
		}
		return []schemaPlace{place(url)}, nil
	}
	if f.file == "" {
		return wrong("say what is migrated: --store postgres://HOST/DATABASE, or --config FILE")
	}
	cfg, err := f.load()
	if err != nil {
		return nil, err
	}
	var list []schemaPlace
	if config.IsPostgreSQL(cfg.Store.URL) {
		list = append(list, place(cfg.Store.URL))
	}
	if g := cfg.Gateway; g != nil && g.InPostgreSQL() && g.Records != cfg.Store.URL {
		list = append(list, place(g.Records))
	}
	if len(list) == 0 {
		return wrong("nothing of %s is in PostgreSQL: neither its store nor a gateway's records",
			f.file)
	}
	return list, nil
}

// placeOfStore is a store's URL without what may be secret in it.
func placeOfStore(url string) string {
	if strings.Contains(url, "://") {
		return placeOfRecords(url)
	}
	return url
}

// eachSchema does something with each schema that is meant.
func (f *settings) eachSchema(c *cobra.Command, do func(context.Context, schemaPlace,
	*pgxpool.Pool, oncepg.MigrateConfig) error,
) error {
	list, err := f.schemas(c)
	if err != nil {
		return err
	}
	ctx, stop := signalContext()
	defer stop()
	for _, p := range list {
		pool, schema, err := server.ConnectPostgres(p.url, migrateConns)
		if err != nil {
			return &usageError{fmt.Errorf("the URL of %s can't be used: %w", p, err), hint(c)}
		}
		err = do(ctx, p, pool, oncepg.MigrateConfig{Schema: schema})
		pool.Close()
		if err != nil {
			return migrateError(p, err)
		}
	}
	return nil
}

// migrateError says where, and with which status.
func migrateError(p schemaPlace, err error) error {
	var schema *oncepg.SchemaError
	switch {
	case errors.As(err, &schema) && schema.State != oncepg.SchemaForbidden:
		return &statusError{statusRefused, fmt.Errorf("%s: %s", placeOfRecords(p.url),
			schema.Error())}
	case errors.As(err, &schema):
		return fmt.Errorf("%s: %s", placeOfRecords(p.url), schema.Error())
	case errors.Is(err, once.ErrUnavailable):
		return &statusError{statusAway, fmt.Errorf("%s: %w", p, err)}
	}
	return fmt.Errorf("%s: %w", p, err)
}

// migrate brings a schema up to date, and says what was done.
func (a *app) migrate(
	ctx context.Context, p schemaPlace, pool *pgxpool.Pool, cfg oncepg.MigrateConfig,
) error {
	before, err := oncepg.Status(ctx, pool, cfg)
	var behind *oncepg.SchemaError
	if err != nil && !(errors.As(err, &behind) && behind.State == oncepg.SchemaBehind) {
		return err
	}
	if err := oncepg.Migrate(ctx, pool, cfg); err != nil {
		return err
	}
	after, err := oncepg.Status(ctx, pool, cfg)
	if err != nil {
		return err
	}
	var done []oncepg.MigrationStatus
	for i, m := range after {
		if i >= len(before) || !before[i].Applied {
			done = append(done, m)
		}
	}
	if len(done) == 0 {
		a.say("%s: nothing to do, it has version %d", p, len(after))
		return nil
	}
	a.say("%s: it has version %d now", p, len(after))
	for _, m := range done {
		a.say("  applied %04d %s", m.Version, m.Name)
	}
	return nil
}

// schemaStatus shows how a schema stands. Its error is what keeps this program from using it.
func (a *app) schemaStatus(
	ctx context.Context, p schemaPlace, pool *pgxpool.Pool, cfg oncepg.MigrateConfig,
) error {
	list, refused := oncepg.Status(ctx, pool, cfg)
	if list == nil {
		return refused
	}
	applied, known := 0, 0
	for _, m := range list {
		if m.Known {
			known++
		}
		if m.Applied {
			applied = m.Version
		}
	}
	s := sheet{s: a.out()}
	state, style := fmt.Sprintf("version %d of %d", applied, known), screen.Good
	if refused != nil {
		style = screen.Warn
	}
	s.head(p.String(), state, style, "")
	s.table(func(t *screen.Table) {
		for _, m := range list {
			t.Row(screen.Cell{Text: fmt.Sprintf("%04d", m.Version)}, screen.Cell{Text: m.Name},
				migrationState(m), screen.Cell{Text: s.s.Time(m.AppliedAt)},
				screen.Cell{Text: fmt.Sprintf("%.12s", m.Checksum), Style: screen.Dim})
		}
	}, screen.Column{Title: "version"}, screen.Column{Title: "name"},
		screen.Column{Title: "state"}, screen.Column{Title: "at"},
		screen.Column{Title: "checksum", Drop: 1})
	if err := s.flush(); err != nil {
		return err
	}
	return refused
}

func migrationState(m oncepg.MigrationStatus) screen.Cell {
	switch {
	case !m.Applied:
		return screen.Cell{Text: "missing", Style: screen.Warn}
	case !m.Known:
		return screen.Cell{Text: "of a newer program", Style: screen.Bad}
	case m.Changed:
		return screen.Cell{Text: "changed", Style: screen.Bad}
	case m.Checksum == "":
		return screen.Cell{Text: "applied by hand", Style: screen.Good}
	}
	return screen.Cell{Text: "applied", Style: screen.Good}
}
