package oncesqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/write"
)

// WriterConfig is how a [Writer] works. Targets has to be set.
type WriterConfig struct {
	// Targets are the tables whose rows events change. Their default key is the column "id".
	Targets []write.Target
	// Events is the table of the events' records. Default "once_events".
	Events string
	// NoCreate makes Open refuse rather than create the table of the events' records.
	NoCreate bool
	// TimesAsText writes a time as a text, 2006-01-02T15:04:05.000000Z, which compares as the time
	// does. Default: as a whole number of microseconds since 1970.
	TimesAsText bool
	// Retention is how long an event is remembered. Default 30 days.
	Retention time.Duration
	// Patience is how long a call waits until it may write; its context may end it earlier. Inside
	// a caller's transaction SQLite's own busy timeout counts. Default 10 s.
	Patience time.Duration
	// Logger is told when a call had to wait for others more than a few times. Default: nobody.
	Logger *slog.Logger
}

// Writer writes events into its user's own database, each once in effect: the record of an event
// and its change are one transaction. It is a write.Writer over any driver for SQLite, safe for
// concurrent use, and has nothing to be closed. Its writes take turns; "database is locked" of
// another writer of the file is waited for.
//
// It is not for the file of a [Store], which one process has to itself.
//
// SQLite has whole numbers of 64 bits and doubles: sums of whole numbers are exact or refused,
// fractions are those of doubles. Objects and lists are JSON texts.
type Writer struct {
	*eventShared
	db   *sql.DB
	turn chan struct{} // who has its element may begin a transaction
}

// eventShared is what a writer and those inside transactions have in common.
type eventShared struct {
	conf    WriterConfig
	events  string // quoted
	targets write.Targets
	tables  *eventTables
	stmts   *eventStmts
}

const (
	defaultEvents    = "once_events"
	defaultRetention = 30 * 24 * time.Hour
	defaultPatience  = 10 * time.Second
)

// NewWriter makes a writer over a database. It asks the database nothing: [Writer.Open] does.
func NewWriter(db *sql.DB, conf WriterConfig) (*Writer, error) {
	if db == nil {
		return nil, errors.New("new writer: no database")
	}
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
	targets, err := write.NewTargets(conf.Targets, "id")
	if err != nil {
		return nil, fmt.Errorf("new writer: %w", err)
	}
	w := &Writer{
		eventShared: &eventShared{
			conf: conf, events: quoteName(conf.Events), targets: targets,
			tables: newEventTables(), stmts: newEventStmts(db),
		},
		db: db, turn: make(chan struct{}, 1),
	}
	w.turn <- struct{}{}
	return w, nil
}

// quoteName quotes an identifier.
func quoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// Write makes one change happen once. It returns when the change is committed. The errors are
// those of package write, once.ErrTooLarge and once.ErrUnavailable, and that of the context.
func (w *Writer) Write(ctx context.Context, e write.Event) (write.Result, error) {
	rs, err := w.WriteAll(ctx, []write.Event{e})
	if err != nil {
		return write.Result{}, err
	}
	return rs[0], rs[0].Err
}

// WriteAll writes up to write.MaxBatch events in one transaction, with one flush to the disk. One
// that can't be written has its error in its result, and undoes none of the others.
func (w *Writer) WriteAll(ctx context.Context, events []write.Event) ([]write.Result, error) {
	jobs, results, err := w.jobs(ctx, events)
	if err != nil || len(jobs) == 0 {
		return results, err
	}
	until := w.patience()
	// Outside of the transaction: it has the one connection, perhaps.
	err = w.patiently(ctx, until, func(ctx context.Context) error {
		return w.prepareJobs(ctx, jobs)
	})
	if err != nil {
		return nil, fmt.Errorf("write events: %w", err)
	}
	err = w.transact(ctx, until, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		k := eventTx{eventShared: w.eventShared, tx: tx, cached: true}
		return k.all(ctx, jobs)
	})
	switch {
	case isShape(err) && len(jobs) > 1: // a commit that fails does not say because of which
		return w.oneByOne(ctx, events)
	case isShape(err):
		*jobs[0].result = write.Result{Err: refusal(jobs[0], err)}
	case err != nil:
		return nil, fmt.Errorf("write events: %w", err)
	}
	return results, nil
}

func (w *Writer) oneByOne(ctx context.Context, events []write.Event) ([]write.Result, error) {
	results := make([]write.Result, len(events))
	for i := range events {
		one, err := w.WriteAll(ctx, events[i:i+1])
		if err != nil {
			return nil, err
		}
		results[i] = one[0]
	}
	return results, nil
}

// WithTx returns a writer whose events are part of a transaction of the caller, and stand or fall
// with it. Each event has a savepoint: the transaction can go on whatever comes of it. Begin it
// with BEGIN IMMEDIATE (with most drivers _txlock=immediate): a transaction that has read before
// another one wrote can't write any more, which is a write.ErrBusy.
func (w *Writer) WithTx(tx *sql.Tx) write.Writer { return eventJoined{w.eventShared, tx} }

// eventJoined is a writer inside a transaction.
type eventJoined struct {
	*eventShared
	tx *sql.Tx
}

// Write is that of write.Writer.
func (j eventJoined) Write(ctx context.Context, e write.Event) (write.Result, error) {
	rs, err := j.WriteAll(ctx, []write.Event{e})
	if err != nil {
		return write.Result{}, err
	}
	return rs[0], rs[0].Err
}

// WriteAll is that of write.Writer.
func (j eventJoined) WriteAll(ctx context.Context, events []write.Event) ([]write.Result, error) {
	jobs, results, err := j.jobs(ctx, events)
	if err != nil || len(jobs) == 0 {
		return results, err
	}
	k := eventTx{eventShared: j.eventShared, tx: j.tx, savepoints: true}
	if _, err := k.all(ctx, jobs); err != nil {
		if isBusy(err) {
			err = fmt.Errorf("begin the transaction again: %w: %w", write.ErrBusy, err)
		}
		return nil, fmt.Errorf("write events: %w", err)
	}
	return results, nil
}

// patience is until when a call that begins now waits.
func (w *Writer) patience() time.Time { return time.Now().Add(w.conf.Patience) }

// transact runs a function in a transaction of its own, as often as it takes to get one; false
// leaves nothing to be committed. Where BEGIN is deferred and another process writes between the
// first read and the first write, SQLite calls it locked at once, and all of it is done again.
func (w *Writer) transact(
	ctx context.Context, until time.Time,
	do func(ctx context.Context, tx *sql.Tx) (bool, error),
) error {
	bounded, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	select {
	case <-w.turn:
		defer func() { w.turn <- struct{}{} }()
	case <-bounded.Done():
		return w.ended(ctx, nil)
	}
	return w.patiently(ctx, until, func(ctx context.Context) error {
		return w.transactOnce(ctx, do)
	})
}

// patiently runs a function again while the database is locked. That may be so for whatever needs a
// connection: a new one may begin with settings that want the file for themselves.
func (w *Writer) patiently(
	ctx context.Context, until time.Time, do func(ctx context.Context) error,
) error {
	bounded, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for tries := 1; ; tries++ {
		err := do(bounded)
		if err == nil || bounded.Err() == nil && !isBusy(err) {
			return err
		}
		if tries == noteworthyTries {
			w.conf.Logger.LogAttrs(ctx, slog.LevelInfo, "writing events again",
				slog.Int("tries", tries), slog.String("because", "the database is locked"))
		}
		timer := time.NewTimer(rand.N(min(maxBusyPause, firstBusyPause<<min(tries, 10))))
		select {
		case <-bounded.Done():
			timer.Stop()
			return w.ended(ctx, err)
		case <-timer.C:
		}
	}
}

// Pauses between tries of a locked database: full jitter below a bound that doubles.
const (
	firstBusyPause  = time.Millisecond
	maxBusyPause    = 100 * time.Millisecond
	noteworthyTries = 10
)

// ended is the error of a call whose time is over: its context's, or that the database is busy.
func (w *Writer) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil || !isBusy(err) {
		err = fmt.Errorf("no turn within %v", w.conf.Patience)
	}
	return fmt.Errorf("%w: %w", write.ErrBusy, err)
}

func (w *Writer) transactOnce(
	ctx context.Context, do func(ctx context.Context, tx *sql.Tx) (bool, error),
) error {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	ended := false
	defer func() {
		if !ended { // also after a panic of a user's function
			_ = tx.Rollback()
		}
	}()
	changed, err := do(ctx, tx)
	if err != nil || !changed {
		return err
	}
	ended = true
	if err = tx.Commit(); err != nil {
		_ = tx.Rollback()
		if isBusy(err) || isShape(err) || ctx.Err() != nil {
			return err
		}
		return fmt.Errorf("commit: %w: %w", once.ErrUnavailable, err)
	}
	return nil
}

// isBusy tells that another connection has the database. Drivers differ in their types; the texts
// are SQLite's own (sqlite3_errstr), and one driver's that writes the code's name.
func isBusy(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "database is locked") ||
		strings.Contains(text, "database table is locked") || strings.Contains(text, "SQLITE_BUSY")
}
