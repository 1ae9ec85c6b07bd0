package once

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"
)

// Config says how a [Guard] treats its operations. The zero value works.
type Config struct {
	// Lease is how long a claim lasts without being renewed. While the work runs it is renewed at a
	// third. Default 30s.
	Lease time.Duration
	// Margin is how long before the end of its lease the work's context ends. Default Lease/10.
	Margin time.Duration
	// Retention is how long an outcome is remembered. Default 24h.
	Retention time.Duration
	// OnUnknown says what follows if an attempt is lost. Default [Retry].
	OnUnknown OnUnknown
	// MaxWork bounds the work: its context ends then. Default 15m, and Lease−Margin on a store that
	// can't renew a lease.
	MaxWork time.Duration
	// StoreTimeout bounds one claim or renewal. Default 5s, at most Lease/3.
	StoreTimeout time.Duration
	// CompleteTimeout bounds the tries to store an outcome or a release. Default 10s.
	CompleteTimeout time.Duration
	// Wait is how long a repeat waits for an attempt in flight before it gets an *[InFlightError].
	// Default 0: it doesn't.
	Wait time.Duration
	// MaxWaiting bounds the repeats that wait at one time; others get the error at once. Default
	// 1024.
	MaxWaiting int
	// Observe is told of what happens, from the goroutine in which it happens. Default: nobody.
	Observe func(Event)
	// Logger gets what an operator should know: never a key, nor data. Default: discards.
	Logger *slog.Logger
}

// EventKind names something that a [Guard] did.
type EventKind string

// What a guard tells. The first group are answers to a request, the second group ends of attempts.
const (
	EventGranted     EventKind = "granted"
	EventTakeover    EventKind = "takeover" // granted after a lost attempt
	EventReplay      EventKind = "replay"
	EventMismatch    EventKind = "mismatch"
	EventInFlight    EventKind = "in_flight"
	EventHeld        EventKind = "held"
	EventCorrupt     EventKind = "corrupt"
	EventUnavailable EventKind = "unavailable"

	EventCompleted EventKind = "completed"
	EventTombstone EventKind = "tombstone"
	EventReleased  EventKind = "released"
	EventLost      EventKind = "lost"
	EventNotStored EventKind = "not_stored" // the store took no outcome until the deadline
	EventLeaseLost EventKind = "lease_lost" // somebody else has the record by now
)

// Event is what [Config].Observe is told.
type Event struct {
	Kind EventKind
	// Took is the time of the store's answer: of one that refuses with the wait for an attempt in
	// flight, in the second group with all tries.
	Took time.Duration
}

// Bounds and defaults of a guard.
const (
	defaultLease      = 30 * time.Second
	defaultRetention  = 24 * time.Hour
	defaultMaxWork    = 15 * time.Minute
	defaultStoreTime  = 5 * time.Second
	defaultComplete   = 10 * time.Second
	defaultMaxWaiting = 1024
	marginPart        = 10 // of a lease
	renewPart         = 3  // of a lease

	firstPause = 25 * time.Millisecond // between two looks at an attempt in flight
	maxPause   = time.Second
	firstRetry = 20 * time.Millisecond // between two tries to store an outcome
	maxAbandon = 64                    // claims of unknown result that are given back at one time
)

// Guard lets an operation happen once. It is safe for concurrent use, and has no goroutines while
// nothing is in flight.
type Guard struct {
	store    Store
	renewer  Renewer // nil: leases can't be renewed
	waiter   Waiter  // nil: records are polled
	cfg      Config
	waiting  waiting
	renewals renewals
	abandons chan struct{}
}

// NewGuard makes a guard over a store. It does no I/O. It refuses what the store can't do: Hold
// without a [Resolver] or against the word of a [Holder], work longer than the lease without a
// [Renewer].
func NewGuard(store Store, cfg Config) (*Guard, error) {
	if store == nil {
		return nil, errors.New("new guard: no store is given")
	}
	g := &Guard{store: store, abandons: make(chan struct{}, maxAbandon)}
	g.renewer, _ = store.(Renewer)
	g.waiter, _ = store.(Waiter)
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("new guard: %w", err)
	}
	g.cfg = cfg.withDefaults(g.renewer != nil)
	if err := g.checkStore(); err != nil {
		return nil, fmt.Errorf("new guard: %w", err)
	}
	return g, nil
}

func (c Config) check() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"Lease", c.Lease}, {"Margin", c.Margin}, {"Retention", c.Retention},
		{"MaxWork", c.MaxWork}, {"StoreTimeout", c.StoreTimeout},
		{"CompleteTimeout", c.CompleteTimeout}, {"Wait", c.Wait},
	} {
		if d.value < 0 {
			return fmt.Errorf("%s is %s, want at least 0", d.name, d.value)
		}
	}
	if c.MaxWaiting < 0 {
		return fmt.Errorf("MaxWaiting is %d, want at least 0", c.MaxWaiting)
	}
	if c.OnUnknown > Hold {
		return fmt.Errorf("OnUnknown is %d, want Retry or Hold", c.OnUnknown)
	}
	return nil
}

func (c Config) withDefaults(renews bool) Config {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&c.Lease, defaultLease)
	set(&c.Margin, c.Lease/marginPart)
	set(&c.Retention, defaultRetention)
	if renews {
		set(&c.MaxWork, defaultMaxWork)
	}
	set(&c.MaxWork, c.Lease-c.Margin)
	set(&c.StoreTimeout, defaultStoreTime)
	c.StoreTimeout = min(c.StoreTimeout, c.Lease/renewPart)
	set(&c.CompleteTimeout, defaultComplete)
	if c.MaxWaiting == 0 {
		c.MaxWaiting = defaultMaxWaiting
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (g *Guard) checkStore() error {
	c := g.cfg
	if c.Margin >= c.Lease {
		return fmt.Errorf("margin %s leaves nothing of lease %s", c.Margin, c.Lease)
	}
	if c.Retention < c.Lease {
		return fmt.Errorf("retention %s is shorter than lease %s", c.Retention, c.Lease)
	}
	if _, ok := g.store.(Resolver); !ok && c.OnUnknown == Hold {
		return fmt.Errorf("hold needs a store in which a person can decide; %T has no Resolve",
			g.store)
	}
	if h, ok := g.store.(Holder); ok && c.OnUnknown == Hold {
		if err := h.MayHold(); err != nil {
			return fmt.Errorf("hold is refused by the store: %w", err)
		}
	}
	if g.renewer == nil && c.MaxWork > c.Lease-c.Margin {
		return fmt.Errorf("work of up to %s needs a store that renews leases of %s; "+
			"%T has no Renew", c.MaxWork, c.Lease, g.store)
	}
	return nil
}

// Operation says what is to happen once.
type Operation struct {
	// Scope says to whom the key belongs. It must be chosen.
	Scope Scope
	Key   Key
	// Fingerprint of what is asked. Required: a changed request never runs under an old key.
	Fingerprint Fingerprint
	// Request names what is asked, for people: a method and a path, or the name of a function.
	Request string
}

// keyHint is how many characters of a key people may see, at most a quarter of it.
const keyHint = 8

func (op Operation) claim(cfg *Config) (Claim, error) {
	id, err := Identify(op.Scope, op.Key)
	if err != nil {
		return Claim{}, err
	}
	if op.Fingerprint.IsZero() {
		return Claim{}, errors.New("operation has no fingerprint: set what is asked, or " +
			"FingerprintRaw(nil) where the key says it all")
	}
	hint := op.Key[0].text
	return Claim{
		Identity: id, Fingerprint: op.Fingerprint, Owner: NewOwner(),
		Lease: cfg.Lease, Retention: cfg.Retention, OnUnknown: cfg.OnUnknown,
		Note: Note{
			Scope: op.Scope.parts, Request: op.Request,
			Key: strings.ToValidUTF8(hint[:min(keyHint, len(hint)/4)], ""), // never half a letter
		},
	}, nil
}

// Begin claims the operation. The caller then does the work under the context of what is returned,
// and settles it. The errors are those of [Store].Claim, after waiting for an attempt in flight as
// long as the guard is told to, and errors of the operation itself: its scope, key or fingerprint.
// If the store did not answer it is an [ErrUnavailable], and the work must not be done; it is an
// [ErrInFlight] too if the store had said so before, while the guard waited.
//
// The context bounds the claim and the wait, and carries values; the work's context ends with it.
func (g *Guard) Begin(ctx context.Context, op Operation) (*Work, error) {
	c, err := op.claim(&g.cfg)
	if err != nil {
		return nil, err
	}
	var start time.Time
	if g.cfg.Observe != nil {
		start = time.Now()
	}
	w, err := g.claim(ctx, ctx, c)
	if busy, ok := errors.AsType[*InFlightError](err); ok && g.cfg.Wait > 0 {
		w, err = g.waitAndClaim(ctx, c, busy)
	}
	if err != nil {
		g.observe(claimEvent(err), start)
	}
	return w, err
}

// observe tells of something that began at a time.
func (g *Guard) observe(kind EventKind, start time.Time) {
	if g.cfg.Observe != nil {
		g.cfg.Observe(Event{Kind: kind, Took: time.Since(start)})
	}
}

// claim asks the store once. The work's context becomes a child of parent.
func (g *Guard) claim(ctx, parent context.Context, c Claim) (*Work, error) {
	start := time.Now() // before the claim is sent: the lease can't have begun earlier
	call := newCallContext(ctx, start.Add(g.cfg.StoreTimeout))
	grant, err := g.store.Claim(call, c)
	call.stop()
	if err == nil {
		return g.newWork(parent, grant, start), nil
	}
	if claimEvent(err) != EventUnavailable {
		return nil, err
	}
	g.abandon(ctx, c)
	if errors.Is(err, ErrUnavailable) {
		return nil, fmt.Errorf("claim: %w", err)
	}
	return nil, fmt.Errorf("claim: %w: %w", ErrUnavailable, err)
}

// claimEvent tells answers of a store from its faults.
func claimEvent(err error) EventKind {
	if _, ok := errors.AsType[*ReplayError](err); ok {
		return EventReplay
	}
	switch {
	case errors.Is(err, ErrUnavailable):
		return EventUnavailable
	case errors.Is(err, ErrMismatch):
		return EventMismatch
	case errors.Is(err, ErrInFlight):
		return EventInFlight
	case errors.Is(err, ErrUnknown):
		return EventHeld
	case errors.Is(err, ErrCorrupt):
		return EventCorrupt
	}
	return EventUnavailable
}

// abandon gives back what a claim without an answer may have taken. Otherwise everybody would be
// told until the end of the lease that it is in flight.
func (g *Guard) abandon(ctx context.Context, c Claim) {
	select {
	case g.abandons <- struct{}{}:
	default: // so many are under way that the store is gone: the leases end by themselves
		return
	}
	go func() {
		defer func() { <-g.abandons }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.cfg.CompleteTimeout)
		defer cancel()
		_ = retry(ctx, g.cfg.StoreTimeout, func(ctx context.Context) error {
			grant, err := g.store.Claim(ctx, c) // the same owner: the same grant
			if err != nil {
				return err
			}
			if grant.Takeover { // the attempt before it may have had its effect still
				return g.store.Complete(ctx, grant, Outcome{Kind: Unknown})
			}
			return g.store.Release(ctx, grant)
		}) // what remains ends with its lease
		g.waiting.notify(c.Identity)
	}()
}

// retry calls fn until it has an answer of the store, with pauses that grow, until the context
// ends. Each call has a deadline of its own.
func retry(ctx context.Context, each time.Duration, fn func(context.Context) error) error {
	for pause := firstRetry; ; pause = min(2*pause, maxPause) {
		call, cancel := context.WithTimeout(ctx, each)
		err := fn(call)
		cancel()
		if err == nil || isAnswer(err) {
			return err
		}
		jitter := pause/2 + rand.N(pause/2)
		select {
		case <-time.After(jitter):
		case <-ctx.Done():
			return err
		}
	}
}

// isAnswer tells what trying again can't change.
func isAnswer(err error) bool {
	return errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrTooLarge) ||
		claimEvent(err) != EventUnavailable
}
