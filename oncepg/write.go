package oncepg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once/write"
)

// WriterConfig is how a [Writer] works. Targets has to be set.
type WriterConfig struct {
	// Targets are the tables whose rows events change. Their default key is the column "id".
	Targets []write.Target
	// Events is the table of the events' records, with a name of up to 48 bytes and, if wanted, a
	// schema before a dot. Default "once_events", found and made by the search path.
	Events string
	// NoCreate makes Open refuse rather than create the table of the events' records.
	NoCreate bool
	// Retention is how long an event is remembered. Default 30 days.
	Retention time.Duration
	// Patience is how long a call waits for rivals, or a database that is not there for a moment;
	// its context may end it earlier. Inside a caller's transaction, and in Apply, a wait for a
	// lock ends with the context only, or by lock_timeout. Default 10 s.
	Patience time.Duration
	// Logger is told of answers that were lost and of repeated meetings. Default: nobody.
	Logger *slog.Logger
}

const (
	defaultEvents = "once_events"
	// maxEvents leaves room for the names of its indexes: PostgreSQL cuts at 63 bytes.
	maxEvents        = 48
	defaultKey       = "id"
	defaultRetention = 30 * 24 * time.Hour
	defaultPatience  = 10 * time.Second
)

// Writer writes events into PostgreSQL. It is a write.Writer, safe for concurrent use, and has
// nothing to be closed.
type Writer struct {
	own runner // begins and ends transactions of its own
	*shared
}

// shared is what a writer and those inside transactions have in common.
type shared struct {
	conf    WriterConfig
	events  string // quoted
	targets write.Targets
	tables  *tables
	hints   hints
	pool    *pgxpool.Pool // nil over database/sql
}

// NewWriter makes a writer over a pool. It asks the database nothing: [Writer.Open] does.
func NewWriter(pool *pgxpool.Pool, conf WriterConfig) (*Writer, error) {
	if pool == nil {
		return nil, errors.New("new writer: no pool")
	}
	s, err := newShared(conf)
	if err != nil {
		return nil, err
	}
	s.pool = pool
	return &Writer{own: poolRunner{pool}, shared: s}, nil
}

// NewWriterSQL makes a writer over database/sql, with any driver for PostgreSQL whose errors have a
// method SQLState, as those of pgx and of lib/pq have. A batch takes a round trip for each form of
// change in it, where a pool takes one for all.
func NewWriterSQL(db *sql.DB, conf WriterConfig) (*Writer, error) {
	if db == nil {
		return nil, errors.New("new writer: no database")
	}
	s, err := newShared(conf)
	if err != nil {
		return nil, err
	}
	return &Writer{own: sqlRunner{db}, shared: s}, nil
}

func newShared(conf WriterConfig) (*shared, error) {
	if conf.Events == "" {
		conf.Events = defaultEvents
	}
	if conf.Retention <= 0 {
		conf.Retention = defaultRetention
	}
	if conf.Patience <= 0 {
		conf.Patience = defaultPatience
	}
	if conf.Logger == nil {
		conf.Logger = slog.New(slog.DiscardHandler)
	}
	if len(tableName(conf.Events)) > maxEvents {
		return nil, fmt.Errorf("new writer: %s has more than %d bytes", conf.Events, maxEvents)
	}
	targets, err := write.NewTargets(conf.Targets, defaultKey)
	if err != nil {
		return nil, fmt.Errorf("new writer: %w", err)
	}
	return &shared{
		conf: conf, events: quote(conf.Events), targets: targets, tables: newTables(),
	}, nil
}

// Write makes one change happen once. It returns when the change is committed. The errors are
// those of package write, once.ErrTooLarge and once.ErrUnavailable, and that of the context: after
// the last two nobody knows whether the event was written, and it may be written again.
func (w *Writer) Write(ctx context.Context, e write.Event) (write.Result, error) {
	return writeOne(ctx, w.shared, w.own, e)
}

// WriteAll writes up to write.MaxBatch events in one round trip, and in a few more where some meet
// rivals or one is wrong. They are committed together, but for those.
func (w *Writer) WriteAll(ctx context.Context, events []write.Event) ([]write.Result, error) {
	return writeAll(ctx, w.shared, w.own, events)
}

// WithTx returns a writer whose events are part of a transaction of the caller, and stand or fall
// with it. Each call has a savepoint: whatever it returns, the transaction can go on. In a
// transaction that is REPEATABLE READ or SERIALIZABLE, an event that another transaction is writing
// or wrote since is a write.ErrBusy: roll back and begin again.
func (w *Writer) WithTx(tx pgx.Tx) write.Writer { return joined{w.shared, txRunner{tx}} }

// WithSQLTx is [Writer.WithTx] for database/sql.
func (w *Writer) WithSQLTx(tx *sql.Tx) write.Writer { return joined{w.shared, sqlTxRunner{tx}} }

// joined is a writer inside a transaction.
type joined struct {
	*shared
	in runner
}

// Write is that of write.Writer.
func (j joined) Write(ctx context.Context, e write.Event) (write.Result, error) {
	return writeOne(ctx, j.shared, j.in, e)
}

// WriteAll is that of write.Writer.
func (j joined) WriteAll(ctx context.Context, events []write.Event) ([]write.Result, error) {
	return writeAll(ctx, j.shared, j.in, events)
}

func writeOne(ctx context.Context, s *shared, r runner, e write.Event) (write.Result, error) {
	results, err := writeAll(ctx, s, r, []write.Event{e})
	if err != nil {
		return write.Result{}, err
	}
	return results[0], results[0].Err
}
