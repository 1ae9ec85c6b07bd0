package oncemem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncekit/once"
)

// Config says how a store behaves.
type Config struct {
	// SingleInstance has to be true: it says that no other process serves the same keys.
	SingleInstance bool
	// MaxBytes bounds the memory of all records together, about. Default 64 MiB.
	MaxBytes int64
	// MaxOutcome bounds the data of one outcome in bytes. Default 1088 KiB.
	MaxOutcome int
	// Now is the store's clock. Default time.Now.
	Now func() time.Time
}

const (
	defaultMaxBytes   = 64 << 20
	defaultMaxOutcome = 1088 << 10 // an answer of 1 MiB with its headers
	shardCount        = 16         // so that claims of different keys rarely wait for each other
)

// Store keeps records in memory. All methods are safe for concurrent use.
type Store struct {
	cfg    Config
	used   atomic.Int64 // bytes
	shards [shardCount]shard
}

// shard holds the records of a part of the identities.
type shard struct {
	mu sync.Mutex
	// records by eight bytes of their identities: those of one such place are linked. They are a
	// digest's, so that two in one place are as rare as they are harmless.
	records map[uint64]*record
	// aging holds the records that can expire, the next one first.
	aging aging
	// forgotten is the highest fence of the records that were removed.
	forgotten int64
}

// record is what is remembered of an identity. In flight, released, completed: state; an attempt
// whose lease ended is lost without a change here. There are very many of them: they are small, and
// what the collector of garbage has to follow stands first.
type record struct {
	next    *record       // at the same place
	changed chan struct{} // closed when it is no longer in flight; nil: nobody waits
	data    []byte        // of the outcome
	note    once.Note

	retention time.Duration
	claimed   instant // when the latest attempt began
	leaseEnd  instant
	finished  instant
	last      instant // arrival
	fence     int64
	attempt   int32
	place     int32 // in aging; -1: it is in flight or unknown

	id          once.Identity
	owner       once.Owner
	fingerprint once.Fingerprint
	state       state
	kind        once.OutcomeKind
	onUnknown   once.OnUnknown
	takeover    bool // the latest attempt came after a lost one
}

type state byte

const (
	inFlight state = iota
	completed
	released
	unknown
)

var (
	_ once.Store    = (*Store)(nil)
	_ once.Renewer  = (*Store)(nil)
	_ once.Resolver = (*Store)(nil)
	_ once.Waiter   = (*Store)(nil)
	_ once.Sweeper  = (*Store)(nil)
	_ once.Browser  = (*Store)(nil)
)

// New makes an empty store.
func New(cfg Config) (*Store, error) {
	if !cfg.SingleInstance {
		return nil, errors.New("new store in memory: set SingleInstance if no other process " +
			"serves the same keys; otherwise use a store that processes share")
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = defaultMaxBytes
	}
	if cfg.MaxOutcome <= 0 {
		cfg.MaxOutcome = defaultMaxOutcome
	}
	if cfg.Now == nil {
		cfg.Now = sinceNow()
	}
	s := &Store{cfg: cfg}
	for i := range s.shards {
		s.shards[i].records = map[uint64]*record{}
	}
	return s, nil
}

// lock returns the shard of an identity, locked, and the store's time.
func (s *Store) lock(id once.Identity) (*shard, instant) {
	sh := &s.shards[id[0]%shardCount]
	sh.mu.Lock()
	return sh, s.now()
}

// Claim implements [once.Store].
func (s *Store) Claim(ctx context.Context, c once.Claim) (once.Grant, error) {
	if err := ctx.Err(); err != nil {
		return once.Grant{}, unavailable(err)
	}
	sh, now := s.lock(c.Identity)
	defer sh.mu.Unlock()
	first, r := sh.look(c.Identity)
	if r != nil && r.expired(now) {
		s.remove(sh, r)
		first, r = sh.look(c.Identity)
	}
	if r == nil {
		return s.insert(sh, first, c, now)
	}
	if r.fingerprint != c.Fingerprint {
		return once.Grant{}, once.ErrMismatch
	}
	if r.state == inFlight && r.owner == c.Owner {
		return r.grant(), nil // its answer was lost
	}
	r.last = now
	if err := r.refuse(&c, now); err != nil {
		return once.Grant{}, err
	}
	r.takeover = r.state != released
	r.take(&c, now)
	sh.leaveAging(r)
	return r.grant(), nil
}

// refuse returns why a known record can't be taken: nil for one that can.
func (r *record) refuse(c *once.Claim, now instant) error {
	switch r.state {
	case completed:
		return &once.ReplayError{Outcome: r.copied(), CompletedAt: r.finished.time()}
	case released:
		return nil
	case inFlight:
		if rest := r.leaseEnd.since(now); rest > 0 {
			return &once.InFlightError{Rest: rest, Age: now.since(r.claimed)}
		}
	}
	if r.onUnknown == once.Hold || c.OnUnknown == once.Hold {
		r.onUnknown = once.Hold // from now on, whoever asks
		return &once.UnknownError{Since: r.lostAt().time()}
	}
	return nil
}

// lostAt is when a lost attempt ended, or its lease.
func (r *record) lostAt() instant {
	if r.state == unknown {
		return r.finished
	}
	return r.leaseEnd
}

// insert adds a record to its place, where first stood.
func (s *Store) insert(sh *shard, first *record, c once.Claim, now instant) (once.Grant, error) {
	r := &record{
		id: c.Identity, fingerprint: c.Fingerprint, note: own(c.Note.Cut()), last: now,
		fence: sh.forgotten, place: -1,
	}
	if !s.reserve(sh, r.size(), now) {
		return once.Grant{}, fmt.Errorf("claim: the store in memory is full (%d bytes): %w",
			s.cfg.MaxBytes, once.ErrUnavailable)
	}
	r.take(&c, now)
	if first != nil { // it may have been swept to make room
		r.next = sh.records[slot(r.id)]
	}
	sh.records[slot(r.id)] = r
	return r.grant(), nil
}

// own returns a note whose texts hold on to nothing else, such as the rest of the key: they are
// kept as one, since there are very many of them.
func own(n once.Note) once.Note {
	text := n.Key + n.Request
	n.Key, n.Request = text[:len(n.Key)], text[len(n.Key):]
	return n
}

// take makes the claimant the owner.
func (r *record) take(c *once.Claim, now instant) {
	r.state, r.owner, r.onUnknown = inFlight, c.Owner, c.OnUnknown
	r.fence = max(r.fence+1, now.micros())
	r.attempt++
	r.retention = c.Retention
	r.claimed, r.leaseEnd, r.finished = now, now.add(c.Lease), 0
}

func (r *record) grant() once.Grant {
	return once.Grant{
		Identity: r.id, Owner: r.owner, Fence: r.fence, Attempt: int(r.attempt),
		Takeover: r.takeover,
	}
}

// Complete implements [once.Store].
func (s *Store) Complete(ctx context.Context, g once.Grant, o once.Outcome) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	if o.Kind > once.Unknown {
		return fmt.Errorf("complete: there is no kind %d of outcomes", o.Kind)
	}
	if len(o.Data) > s.cfg.MaxOutcome {
		return fmt.Errorf("complete: %d bytes, at most %d: %w", len(o.Data), s.cfg.MaxOutcome,
			once.ErrTooLarge)
	}
	sh, now := s.lock(g.Identity)
	defer sh.mu.Unlock()
	r := sh.owned(g, now)
	switch {
	case r == nil || r.state == released:
		return once.ErrLeaseLost
	case r.state == completed || r.state == unknown && o.Kind == once.Unknown:
		return nil
	}
	if o.Kind == once.Unknown {
		r.end(unknown, now)
		return nil
	}
	if !s.reserve(sh, int64(len(o.Data)), now) {
		return fmt.Errorf("complete: the store in memory is full: %w", once.ErrTooLarge)
	}
	r.complete(o, now)
	sh.enterAging(r)
	return nil
}

// copied returns the outcome with data that the reader may change.
func (r *record) copied() once.Outcome {
	return once.Outcome{Kind: r.kind, Data: bytes.Clone(r.data)}
}

func (r *record) complete(o once.Outcome, now instant) {
	r.kind, r.data = o.Kind, append([]byte(nil), o.Data...)
	r.end(completed, now)
}

// end ends the attempt and wakes who waits for that.
func (r *record) end(s state, now instant) {
	r.state, r.finished = s, now
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// owned returns the record if the grant is that of its latest owner. What is past its retention is
// nobody's, whether or not it was swept.
func (sh *shard) owned(g once.Grant, now instant) *record {
	r := sh.find(g.Identity)
	if r == nil || r.owner != g.Owner || r.fence != g.Fence || r.expired(now) {
		return nil
	}
	return r
}

// Release implements [once.Store].
func (s *Store) Release(ctx context.Context, g once.Grant) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	sh, now := s.lock(g.Identity)
	defer sh.mu.Unlock()
	r := sh.owned(g, now)
	switch {
	case r == nil || r.state == completed:
		return once.ErrLeaseLost
	case r.state == released:
		return nil
	}
	r.end(released, now)
	sh.enterAging(r)
	return nil
}

// Renew implements [once.Renewer].
func (s *Store) Renew(ctx context.Context, g once.Grant, lease time.Duration) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	sh, now := s.lock(g.Identity)
	defer sh.mu.Unlock()
	r := sh.owned(g, now)
	if r == nil || r.state != inFlight {
		return once.ErrLeaseLost
	}
	r.leaseEnd = now.add(lease)
	return nil
}

// Resolve implements [once.Resolver].
func (s *Store) Resolve(ctx context.Context, id once.Identity, res once.Resolution) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	sh, now := s.lock(id)
	defer sh.mu.Unlock()
	r := sh.find(id)
	if r == nil || r.expired(now) {
		return once.ErrNotFound
	}
	if res.Fence != 0 && res.Fence != r.fence || !r.allows(res, now) {
		return once.ErrState
	}
	size := int64(len(res.Outcome.Data))
	if res.Decision == once.AnswerWith &&
		(int(size) > s.cfg.MaxOutcome || !s.reserve(sh, size, now)) {
		return once.ErrTooLarge
	}
	sh.leaveAging(r)
	r.fence++ // a late owner has lost its lease
	if res.Decision == once.AnswerWith {
		r.complete(res.Outcome, now)
	} else {
		s.used.Add(-int64(len(r.data)))
		r.kind, r.data = 0, nil
		r.end(released, now)
	}
	sh.enterAging(r)
	return nil
}

func (r *record) allows(res once.Resolution, now instant) bool {
	lost := r.state == unknown || r.state == inFlight && now >= r.leaseEnd
	switch res.Decision {
	case once.RunAgain:
		return lost
	case once.AnswerWith:
		return lost && res.Outcome.Kind <= once.Tombstone
	case once.ReleaseDone:
		return r.state == completed
	}
	return false
}

// Wait implements [once.Waiter].
func (s *Store) Wait(ctx context.Context, id once.Identity) error {
	sh, now := s.lock(id)
	r := sh.find(id)
	if r == nil || r.state != inFlight || now >= r.leaseEnd {
		sh.mu.Unlock()
		return ctx.Err()
	}
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	changed, rest := r.changed, r.leaseEnd.since(now)
	sh.mu.Unlock()
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", once.ErrUnavailable, err) }
