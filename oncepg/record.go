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

	"github.com/oncekit/once"
)

// RecordsConfig says how a store of records behaves. The zero value works.
type RecordsConfig struct {
	// Schema of the table, as it is named, not quoted. Default [DefaultSchema].
	Schema string
	// NoMigrate lets Open refuse a schema that is missing or behind, rather than migrate it.
	NoMigrate bool
	// MaxOutcome bounds the data of one outcome in bytes; at most 256 MiB. Default 1088 KiB.
	MaxOutcome int
	// Logger is told of migrations, and of answers that were lost. Default: nobody.
	Logger *slog.Logger
}

const (
	defaultRecordOutcome = 1088 << 10 // an answer of 1 MiB with its headers
	mostRecordOutcome    = 256 << 20  // PostgreSQL takes a value of 1 GiB, in one piece
	// maxSpan bounds leases and retentions, so that each time has a date.
	maxSpan = 100 * 365 * 24 * time.Hour
)

// Records keeps the records of a once.Guard, one row each. All methods are safe for concurrent use,
// by any number of processes.
//
// A claim of what is new is one statement, and so is a replay; it is judged by the database's
// clock. Whoever loses a race for a row is told what its winner made of it.
type Records struct {
	own    runner
	db     migrator
	cfg    RecordsConfig
	sql    recordStatements
	offset recordOffset // what tests add to the database's time
}

var (
	_ once.Store    = (*Records)(nil)
	_ once.Renewer  = (*Records)(nil)
	_ once.Resolver = (*Records)(nil)
	_ once.Sweeper  = (*Records)(nil)
	_ once.Browser  = (*Records)(nil)
)

// NewRecords makes a store of records over a pool. It asks the database nothing: [Records.Open]
// does. The pool stays the caller's.
func NewRecords(pool *pgxpool.Pool, cfg RecordsConfig) (*Records, error) {
	if pool == nil {
		return nil, errors.New("new records: no pool")
	}
	return newRecords(poolRunner{pool}, poolMigrator{pool}, cfg)
}

// NewRecordsSQL makes a store of records over database/sql, with any driver for PostgreSQL whose
// errors have a method SQLState, as those of pgx and of lib/pq have.
func NewRecordsSQL(db *sql.DB, cfg RecordsConfig) (*Records, error) {
	if db == nil {
		return nil, errors.New("new records: no database")
	}
	return newRecords(sqlRunner{db}, sqlMigrator{db}, cfg)
}

func newRecords(own runner, db migrator, cfg RecordsConfig) (*Records, error) {
	var err error
	if cfg.Schema, err = schemaName(cfg.Schema); err != nil {
		return nil, fmt.Errorf("new records: %w", err)
	}
	if cfg.MaxOutcome == 0 {
		cfg.MaxOutcome = defaultRecordOutcome
	}
	if cfg.MaxOutcome < 0 || cfg.MaxOutcome > mostRecordOutcome {
		return nil, fmt.Errorf("new records: outcomes of up to %d bytes, want at most %d",
			cfg.MaxOutcome, mostRecordOutcome)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Records{own: own, db: db, cfg: cfg, sql: newRecordStatements(cfg.Schema)}, nil
}

// Open brings the schema to the state that this program needs, see [Migrate], or with NoMigrate
// returns a *[SchemaError] if it is not. A database that is away is a once.ErrUnavailable. It may
// be called again, and by many at once.
func (r *Records) Open(ctx context.Context) error {
	cfg, err := MigrateConfig{Schema: r.cfg.Schema, Logger: r.cfg.Logger}.withDefaults()
	switch {
	case err != nil:
	case r.cfg.NoMigrate:
		err = checkSchema(ctx, r.db, cfg)
	default:
		err = migrate(ctx, r.db, cfg)
	}
	if err == nil {
		err = warnUnwatched(ctx, r.own, r.cfg.Logger)
	}
	if err != nil {
		return fmt.Errorf("open records: %w", unavailable(err))
	}
	return nil
}

// Ping asks whether the database can be written. An error wraps once.ErrUnavailable.
func (r *Records) Ping(ctx context.Context) error {
	got, err := r.own.run(ctx, []query{{"SELECT current_setting('transaction_read_only')", nil}},
		false)
	if err == nil && *got[0][0][0] != "off" {
		err = errors.New("it can only be read")
	}
	if err != nil {
		return fmt.Errorf("ping records: %w: %w", once.ErrUnavailable, err)
	}
	return nil
}

// Claim implements [once.Store].
func (r *Records) Claim(ctx context.Context, c once.Claim) (once.Grant, error) {
	if err := checkClaim(&c); err != nil {
		return once.Grant{}, err
	}
	var g once.Grant
	args := r.claimArgs(&c)
	err := r.step(ctx, r.own, func(ctx context.Context, s stepper) (done bool, err error) {
		g, done, err = s.claim(ctx, &c, args)
		return done, err
	})
	if err != nil {
		return once.Grant{}, stepError("claim", err)
	}
	return g, nil
}

// Complete implements [once.Store].
func (r *Records) Complete(ctx context.Context, g once.Grant, o once.Outcome) error {
	return r.complete(ctx, r.own, g, o)
}

func (r *Records) complete(
	ctx context.Context, in runner, g once.Grant, o once.Outcome,
) error {
	if o.Kind > once.Unknown {
		return fmt.Errorf("complete: there is no kind %d of outcomes", o.Kind)
	}
	if err := r.fits(o); err != nil {
		return fmt.Errorf("complete: %w", err)
	}
	q := r.completeQuery(g, o)
	return stepError("complete", r.step(ctx, in,
		func(ctx context.Context, s stepper) (bool, error) {
			return s.end(ctx, q, g, func(old *record) error { return old.completed(g, o) })
		}))
}

func (r *Records) fits(o once.Outcome) error {
	if len(o.Data) > r.cfg.MaxOutcome {
		return fmt.Errorf("%d bytes, at most %d: %w", len(o.Data), r.cfg.MaxOutcome,
			once.ErrTooLarge)
	}
	return nil
}

// Release implements [once.Store].
func (r *Records) Release(ctx context.Context, g once.Grant) error {
	q := query{r.sql.release, r.grantArgs(g)}
	return stepError("release", r.step(ctx, r.own,
		func(ctx context.Context, s stepper) (bool, error) {
			return s.end(ctx, q, g, func(old *record) error { return old.released(g) })
		}))
}

// Renew implements [once.Renewer].
func (r *Records) Renew(ctx context.Context, g once.Grant, lease time.Duration) error {
	if lease < time.Microsecond {
		return fmt.Errorf("renew: lease %v, want at least 1µs", lease)
	}
	q := query{r.sql.renew, append(r.grantArgs(g), span(lease))}
	return stepError("renew", r.step(ctx, r.own,
		func(ctx context.Context, s stepper) (bool, error) {
			return s.end(ctx, q, g, func(old *record) error { return old.renewed(g) })
		}))
}

// Resolve implements [once.Resolver].
func (r *Records) Resolve(ctx context.Context, id once.Identity, res once.Resolution) error {
	if res.Decision == once.AnswerWith {
		if res.Outcome.Kind > once.Tombstone {
			return fmt.Errorf("resolve: %w: an answer is kept or a tombstone", once.ErrState)
		}
		if err := r.fits(res.Outcome); err != nil {
			return fmt.Errorf("resolve: %w", err)
		}
	}
	token := once.NewOwner() // if the answer is lost, this finds what the call has done
	return stepError("resolve", r.step(ctx, r.own,
		func(ctx context.Context, s stepper) (bool, error) {
			return s.resolve(ctx, id, res, token)
		}))
}

// WithTx lets an attempt be completed in a transaction of the caller, together with what the work
// has written there. The claim comes before, in a transaction of its own, so that others see it.
func (r *Records) WithTx(tx pgx.Tx) RecordsTx { return RecordsTx{r, txRunner{tx}} }

// WithSQLTx is [Records.WithTx] for database/sql.
func (r *Records) WithSQLTx(tx *sql.Tx) RecordsTx { return RecordsTx{r, sqlTxRunner{tx}} }

// RecordsTx completes records inside a transaction of its user. It is as safe for concurrent use as
// the transaction is.
type RecordsTx struct {
	r  *Records
	in runner
}

// Complete is that of [once.Store], as a part of the transaction: the outcome is there when that
// commits, and never without what else it has written. Call it last: others who ask for the record
// wait for the transaction from then on.
//
// After an error roll the transaction back: with [once.ErrLeaseLost] somebody else may have done
// the work by now. In a REPEATABLE READ or SERIALIZABLE transaction a renewal of the lease that
// came after its first statement is a [once.ErrUnavailable]: roll back and begin again.
//
// Then settle the [once.Work]. If the commit said that it succeeded, Complete with the same outcome
// changes nothing and ends the renewals. If it failed or had no answer, Lose is right in either
// case: an attempt that was completed stays so, and any other is lost.
func (t RecordsTx) Complete(ctx context.Context, g once.Grant, o once.Outcome) error {
	return t.r.complete(ctx, t.in, g, o)
}

func checkClaim(c *once.Claim) error {
	switch {
	case c.Identity.IsZero():
		return errors.New("claim: no identity")
	case c.Fingerprint.IsZero():
		return errors.New("claim: no fingerprint")
	case c.Lease < time.Microsecond || c.Retention < time.Microsecond:
		return fmt.Errorf("claim: lease %v, retention %v: want at least 1µs of both", c.Lease,
			c.Retention)
	case c.OnUnknown > once.Hold:
		return fmt.Errorf("claim: there is no choice %v", c.OnUnknown)
	}
	return nil
}

// stepError adds the step to an error, but to the answers that are no faults.
func stepError(step string, err error) error {
	switch err.(type) {
	case nil, *once.ReplayError, *once.InFlightError, *once.UnknownError:
		return err
	}
	switch err {
	case once.ErrMismatch, once.ErrLeaseLost, once.ErrNotFound, once.ErrState:
		return err
	}
	return fmt.Errorf("%s: %w", step, err)
}
