package oncemongo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/oncekit/once"
)

// RecordsConfig says how a store of records behaves. The zero value works.
type RecordsConfig struct {
	// Collection that holds the records, and nothing else. It is made if it is missing. Default
	// "once_records".
	Collection string
	// MaxOutcome bounds the data of one outcome in bytes; at most 15.5 MiB, since a document of
	// MongoDB ends at 16. Default 1088 KiB.
	MaxOutcome int
}

const (
	defaultRecords       = "once_records"
	defaultRecordOutcome = 1088 << 10 // an answer of 1 MiB with its headers
	mostRecordOutcome    = 31 << 19   // what is left is for the rest of the document
	// maxSpan bounds leases and retentions, so that each time has a date.
	maxSpan = 100 * 365 * 24 * time.Hour
)

// Records keeps the records of a once.Guard, one document each. All methods are safe for
// concurrent use.
//
// Each step reads the record and the server's time, decides, and then makes one write that the
// server carries out only if the record is still the one that was read. So the decisions are the
// same on every server, also on one without transactions.
type Records struct {
	cfg RecordsConfig
	db  *mongo.Database
	c   *mongo.Collection
	// offset is added to the server's time, in ms. Only tests set it.
	offset atomic.Int64
}

var (
	_ once.Store    = (*Records)(nil)
	_ once.Renewer  = (*Records)(nil)
	_ once.Resolver = (*Records)(nil)
	_ once.Sweeper  = (*Records)(nil)
	_ once.Browser  = (*Records)(nil)
)

// NewRecords makes a store of records in a database. It does no I/O: call [Records.Open] before the
// first request. The client behind the database stays the caller's, who disconnects it; whatever
// it was set to, records are written to a majority with its journals, and read from the primary.
func NewRecords(db *mongo.Database, cfg RecordsConfig) (*Records, error) {
	if db == nil {
		return nil, errors.New("new mongodb records: there is no database")
	}
	if cfg.Collection == "" {
		cfg.Collection = defaultRecords
	}
	if cfg.MaxOutcome == 0 {
		cfg.MaxOutcome = defaultRecordOutcome
	}
	switch {
	case strings.ContainsAny(cfg.Collection, "$\x00") ||
		strings.HasPrefix(cfg.Collection, "system."):
		return nil, fmt.Errorf("new mongodb records: no collection can be named %q",
			cfg.Collection)
	case cfg.MaxOutcome < 0 || cfg.MaxOutcome > mostRecordOutcome:
		return nil, fmt.Errorf("new mongodb records: outcomes of up to %d bytes, want at most %d",
			cfg.MaxOutcome, mostRecordOutcome)
	}
	return &Records{cfg: cfg, db: db, c: collection(db, cfg.Collection)}, nil
}

// Claim implements [once.Store].
func (r *Records) Claim(ctx context.Context, c once.Claim) (once.Grant, error) {
	var g once.Grant
	err := r.step(ctx, c.Identity, withOutcome, func(old *record, now int64) (*record, error) {
		next, err := old.claim(&c, now)
		if err == nil {
			g = next.grant()
			if old.isOwn(&c) {
				next = nil // its answer was lost, and nothing changes
			}
		}
		return next, err
	})
	if err != nil {
		return once.Grant{}, stepError("claim", err)
	}
	return g, nil
}

// Complete implements [once.Store].
func (r *Records) Complete(ctx context.Context, g once.Grant, o once.Outcome) error {
	if o.Kind > once.Unknown {
		return fmt.Errorf("complete: there is no kind %d of outcomes", o.Kind)
	}
	if err := r.fits(o); err != nil {
		return fmt.Errorf("complete: %w", err)
	}
	return stepError("complete", r.step(ctx, g.Identity, withoutOutcome,
		func(old *record, now int64) (*record, error) { return old.complete(g, o, now) }))
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
	return stepError("release", r.step(ctx, g.Identity, withoutOutcome,
		func(old *record, now int64) (*record, error) { return old.release(g, now) }))
}

// Renew implements [once.Renewer].
func (r *Records) Renew(ctx context.Context, g once.Grant, lease time.Duration) error {
	return stepError("renew", r.step(ctx, g.Identity, withoutOutcome,
		func(old *record, now int64) (*record, error) { return old.renew(g, lease, now) }))
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
	return stepError("resolve", r.step(ctx, id, withoutOutcome,
		func(old *record, now int64) (*record, error) { return old.resolve(res, token, now) }))
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

func unavailable(err error) error {
	if errors.Is(err, once.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", once.ErrUnavailable, err)
}
