package onceredis

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekit/once"
)

// Persistence is what a server has to keep on disk.
type Persistence string

// The degrees of persistence. The zero value is PersistAOF.
const (
	// PersistAOF: the append-only file is on. With Redis' default of one flush a second, a crash of
	// the machine loses up to a second of claims.
	PersistAOF Persistence = "aof"
	// PersistAlways: besides, each write is flushed before it is answered. That is read with
	// CONFIG, which managed servers close: they are refused then.
	PersistAlways Persistence = "always"
	// PersistNone: whatever it is. A restart may forget everything.
	PersistNone Persistence = "none"
)

// Config says how a store behaves. The zero value works.
type Config struct {
	// Prefix of the store's keys: a record's key is the prefix, then the identity in lower-case hex
	// in braces. It has no braces of its own. Default "once:".
	Prefix string
	// MaxOutcome bounds the data of one outcome in bytes; at most 256 MiB. Default
	// 1088 KiB.
	MaxOutcome int
	// MayForget says that a record may be forgotten although a person was to decide about it, as a
	// failover or a restart can do. Without it a guard with once.Hold is refused.
	MayForget bool
	// Persistence that [Store.Check] asks of the server. Default PersistAOF.
	Persistence Persistence
	// AllowEviction lets [Store.Check] pass a server that removes keys when its memory is full.
	// Such a key's operation runs again.
	AllowEviction bool
	// Wait is how many replicas have to have a claim or an outcome before it counts (WAIT, sent
	// with the step: it takes no further round trip, but lasts until they have it). Answers to
	// repeats wait too where a replica is missing. Default 0.
	Wait int
	// WaitTimeout bounds that wait; then the step counts as not answered. At least a millisecond;
	// keep it below the client's ReadTimeout. Default 1s.
	WaitTimeout time.Duration
}

const (
	defaultPrefix      = "once:"
	defaultMaxOutcome  = 1088 << 10 // an answer of 1 MiB with its headers
	mostOutcome        = 256 << 20  // Redis' strings end at 512 MiB
	defaultWaitTimeout = time.Second
	// maxSpan bounds leases and retentions, so that the digits of a record hold each time.
	maxSpan = 100 * 365 * 24 * time.Hour
)

// Store keeps records in Redis. All methods are safe for concurrent use.
type Store struct {
	cfg     Config
	client  redis.UniversalClient
	cluster *redis.ClusterClient // nil: a single server, perhaps behind Sentinel
	// detached holds a place for each call that runs in a goroutine of its own; nil: the client
	// ends calls with their context by itself.
	detached chan struct{}
	// offset is added to the server's time, in µs. Only tests set it.
	offset atomic.Int64
}

var (
	_ once.Store    = (*Store)(nil)
	_ once.Renewer  = (*Store)(nil)
	_ once.Resolver = (*Store)(nil)
	_ once.Holder   = (*Store)(nil)
	_ once.Browser  = (*Store)(nil)
)

// New makes a store over a client: a *redis.Client, also one that Sentinel leads, or a
// *redis.ClusterClient. It does no I/O: call [Store.Open] before the first request. The client
// stays the caller's, who closes it.
//
// A client with ContextTimeoutEnabled is cheaper: without it each call runs in a goroutine of its
// own, so that it ends with its context.
func New(client redis.UniversalClient, cfg Config) (*Store, error) {
	s := &Store{client: client}
	bounded := false
	switch c := client.(type) {
	case *redis.Client:
		bounded = c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		s.cluster, bounded = c, c.Options().ContextTimeoutEnabled
	case *redis.Ring:
		return nil, errors.New("new redis store: a Ring moves keys to other servers when one is " +
			"gone, and forgets their records; use a Cluster")
	default:
		return nil, fmt.Errorf("new redis store: client is a %T, want a *redis.Client or a "+
			"*redis.ClusterClient", client)
	}
	if err := cfg.setDefaults(); err != nil {
		return nil, fmt.Errorf("new redis store: %w", err)
	}
	if !bounded {
		s.detached = make(chan struct{}, maxDetached)
	}
	s.cfg = cfg
	return s, nil
}

func (c *Config) setDefaults() error {
	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	if c.MaxOutcome == 0 {
		c.MaxOutcome = defaultMaxOutcome
	}
	if c.Persistence == "" {
		c.Persistence = PersistAOF
	}
	if c.WaitTimeout == 0 {
		c.WaitTimeout = defaultWaitTimeout
	}
	switch {
	case strings.ContainsAny(c.Prefix, "{}"):
		return fmt.Errorf("prefix %q has a brace: a Cluster would keep all records on one node",
			c.Prefix)
	case c.MaxOutcome < 0 || c.MaxOutcome > mostOutcome:
		return fmt.Errorf("outcomes of up to %d bytes, want at most %d", c.MaxOutcome, mostOutcome)
	case c.Wait < 0 || c.WaitTimeout < 0:
		return errors.New("a wait for replicas can't be below 0")
	case c.WaitTimeout < time.Millisecond: // WAIT counts in those, and 0 is for ever
		return fmt.Errorf("a wait for replicas of up to %s, want at least 1ms", c.WaitTimeout)
	}
	switch c.Persistence {
	case PersistAOF, PersistAlways, PersistNone:
		return nil
	}
	return fmt.Errorf("persistence is %q, want %q, %q or %q", c.Persistence, PersistAOF,
		PersistAlways, PersistNone)
}

// MayHold implements [once.Holder].
func (s *Store) MayHold() error {
	if s.cfg.MayForget {
		return nil
	}
	return errors.New("a failover or a restart of Redis can forget that a person has to decide; " +
		"set MayForget (redis_may_forget) to accept that, or keep these records in SQLite")
}

// key is the name of an identity's record. The braces keep a Cluster from looking for others.
func (s *Store) key(id once.Identity) string {
	return s.cfg.Prefix + "{" + hexOf(id) + "}"
}

func hexOf(id once.Identity) string { return hex.EncodeToString(id[:]) }

// Claim implements [once.Store].
func (s *Store) Claim(ctx context.Context, c once.Claim) (once.Grant, error) {
	policy := "r"
	if c.OnUnknown == once.Hold {
		policy = "h"
	}
	out, err := s.run(ctx, claimScript, c.Identity,
		string(c.Fingerprint[:]), string(c.Owner[:]), micros(c.Lease), micros(c.Retention),
		policy, encodeNote(c.Note), s.confirmed())
	if err != nil {
		return once.Grant{}, fmt.Errorf("claim: %w", err)
	}
	switch out.word {
	case "granted":
		return once.Grant{
			Identity: c.Identity, Owner: c.Owner, Fence: out.int(1), Attempt: int(out.int(2)),
			Takeover: out.int(3) == 1,
		}, nil
	case "replay":
		return once.Grant{}, &once.ReplayError{
			Outcome:     once.Outcome{Kind: outcomeKind(out.text(1)), Data: []byte(out.text(3))},
			CompletedAt: time.UnixMicro(out.int(2)),
		}
	case "in flight":
		return once.Grant{}, &once.InFlightError{Rest: out.span(1), Age: out.span(2)}
	case "held":
		return once.Grant{}, &once.UnknownError{Since: time.UnixMicro(out.int(1))}
	}
	return once.Grant{}, out.err("claim")
}

// Complete implements [once.Store].
func (s *Store) Complete(ctx context.Context, g once.Grant, o once.Outcome) error {
	kind := "k"
	switch o.Kind {
	case once.Kept:
	case once.Tombstone:
		kind = "t"
	case once.Unknown:
		kind, o.Data = "u", nil
	default:
		return fmt.Errorf("complete: outcome has the kind %d", o.Kind)
	}
	if err := s.fits(o); err != nil {
		return fmt.Errorf("complete: %w", err)
	}
	out, err := s.run(ctx, completeScript, g.Identity,
		string(g.Owner[:]), g.Fence, kind, o.Data, s.confirmed())
	if err != nil {
		return fmt.Errorf("complete: %w", err)
	}
	return out.err("complete")
}

func (s *Store) fits(o once.Outcome) error {
	if len(o.Data) > s.cfg.MaxOutcome {
		return fmt.Errorf("%d bytes, at most %d: %w", len(o.Data), s.cfg.MaxOutcome,
			once.ErrTooLarge)
	}
	return nil
}

// Release implements [once.Store].
func (s *Store) Release(ctx context.Context, g once.Grant) error {
	out, err := s.run(ctx, releaseScript, g.Identity, string(g.Owner[:]), g.Fence, s.confirmed())
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return out.err("release")
}

// Renew implements [once.Renewer].
func (s *Store) Renew(ctx context.Context, g once.Grant, lease time.Duration) error {
	out, err := s.run(ctx, renewScript, g.Identity, string(g.Owner[:]), g.Fence, micros(lease))
	if err != nil {
		return fmt.Errorf("renew: %w", err)
	}
	return out.err("renew")
}

// Resolve implements [once.Resolver].
func (s *Store) Resolve(ctx context.Context, id once.Identity, r once.Resolution) error {
	decision, kind, data := "", "k", []byte(nil)
	switch r.Decision {
	case once.RunAgain:
		decision = "run again"
	case once.ReleaseDone:
		decision = "release done"
	case once.AnswerWith:
		decision, data = "answer with", r.Outcome.Data
		if r.Outcome.Kind == once.Tombstone {
			kind = "t"
		} else if r.Outcome.Kind != once.Kept {
			return fmt.Errorf("resolve: %w: an answer is kept or a tombstone", once.ErrState)
		}
		if err := s.fits(r.Outcome); err != nil {
			return fmt.Errorf("resolve: %w", err)
		}
	default:
		return fmt.Errorf("resolve: %w: no decision %d is known", once.ErrState, r.Decision)
	}
	token := once.NewOwner() // the client may send the call again by itself: it is one decision
	out, err := s.run(ctx, resolveScript, id,
		decision, r.Fence, kind, data, string(token[:]), s.confirmed())
	if err != nil {
		return fmt.Errorf("resolve: %w", err)
	}
	return out.err("resolve")
}

// micros is a span as scripts take it.
func micros(d time.Duration) int64 { return min(max(d, 0), maxSpan).Microseconds() }

// confirmed tells a script whether replicas confirm its step.
func (s *Store) confirmed() string {
	if s.cfg.Wait > 0 {
		return "1"
	}
	return "0"
}
