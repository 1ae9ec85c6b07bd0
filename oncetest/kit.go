package oncetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oncekit/once"
)

// kit is a store under test with the calls that cases make again and again. They end the case when
// the store doesn't answer as it has to.
type kit struct {
	testing.TB
	ctx context.Context
	h   Harness
	s   once.Store
	// lease and retention are times that a case can let pass; a retention is longer than a lease.
	lease, retention time.Duration
}

// Times of claims that a case doesn't let pass.
const (
	longLease     = time.Hour
	longRetention = 30 * 24 * time.Hour
	// slack is how far a clock that moves by itself may have moved during a case.
	slack = 30 * time.Second
)

func newKit(tb testing.TB, h Harness) *kit {
	k := &kit{TB: tb, ctx: tb.Context(), h: h, s: h.Store}
	k.lease, k.retention = 10*time.Minute, 32*time.Hour
	if h.Advance == nil {
		k.lease, k.retention = 60*time.Millisecond, 120*time.Millisecond
	}
	return k
}

// pass lets time pass for the store.
func (k *kit) pass(d time.Duration) {
	if k.h.Advance != nil {
		k.h.Advance(d)
		return
	}
	<-time.After(d)
}

// lapse lets a lease of k.lease end.
func (k *kit) lapse() { k.pass(k.lease + k.lease/10) }

// expire lets a retention of k.retention end, also for a store that remembers a little longer.
func (k *kit) expire() { k.pass(k.retention + k.retention/8) }

func identity(name string) once.Identity { return sha256.Sum256([]byte(name)) }

// request is what the claims of the cases ask for, and other is something else.
var (
	request = once.FingerprintRaw([]byte("request"))
	other   = once.FingerprintRaw([]byte("other"))
)

// claim asks for the identity of a name, as somebody new, for longer than a case lasts.
func claim(name string) once.Claim {
	return once.Claim{
		Identity: identity(name), Fingerprint: request, Owner: once.NewOwner(),
		Lease: longLease, Retention: longRetention,
		Note: once.Note{Key: name, Request: "POST /orders"},
	}
}

// brief asks for an identity with a lease and a retention that the case can let pass.
func (k *kit) brief(name string) once.Claim {
	c := claim(name)
	c.Lease, c.Retention = k.lease, k.retention
	return c
}

// lapsing asks with a lease that the case can let pass, and is remembered longer.
func (k *kit) lapsing(name string) once.Claim {
	c := claim(name)
	c.Lease = k.lease
	return c
}

func changed(c once.Claim) once.Claim {
	c.Owner, c.Fingerprint = once.NewOwner(), other
	return c
}

func again(c once.Claim) once.Claim {
	c.Owner = once.NewOwner()
	return c
}

func holding(c once.Claim) once.Claim {
	c.OnUnknown = once.Hold
	return c
}

// take claims what has to be free.
func (k *kit) take(c once.Claim) once.Grant {
	k.Helper()
	g, err := k.s.Claim(k.ctx, c)
	if err != nil {
		k.Fatalf("claim of a free identity: %v", err)
	}
	if g.Identity != c.Identity || g.Owner != c.Owner || g.Fence <= 0 || g.Attempt < 1 {
		k.Fatalf("the grant is %+v of owner %s", g, c.Owner)
	}
	return g
}

func kept(data string) once.Outcome { return once.Outcome{Data: []byte(data)} }

func (k *kit) complete(g once.Grant, o once.Outcome) {
	k.Helper()
	if err := k.s.Complete(k.ctx, g, o); err != nil {
		k.Fatalf("complete: %v", err)
	}
}

func (k *kit) release(g once.Grant) {
	k.Helper()
	if err := k.s.Release(k.ctx, g); err != nil {
		k.Fatalf("release: %v", err)
	}
}

// lose ends an attempt as one of unknown effect.
func (k *kit) lose(g once.Grant) {
	k.Helper()
	k.complete(g, once.Outcome{Kind: once.Unknown})
}

// done takes an identity and completes it.
func (k *kit) done(c once.Claim, data string) once.Grant {
	k.Helper()
	g := k.take(c)
	k.complete(g, kept(data))
	return g
}

// refused claims what can't be had, and returns the store's answer.
func (k *kit) refused(c once.Claim) error {
	k.Helper()
	g, err := k.s.Claim(k.ctx, c)
	if err == nil {
		k.Fatalf("granted: %+v", g)
	}
	return err
}

// wantReplay claims what is completed with an outcome.
func (k *kit) wantReplay(c once.Claim, want once.Outcome) {
	k.Helper()
	var replay *once.ReplayError
	if err := k.refused(c); !errors.As(err, &replay) {
		k.Fatalf("claim of what is completed: %v", err)
	}
	if got := replay.Outcome; got.Kind != want.Kind || !bytes.Equal(got.Data, want.Data) {
		k.Fatalf("replayed kind %d, %d bytes %.40q, want kind %d, %d bytes %.40q",
			got.Kind, len(got.Data), got.Data, want.Kind, len(want.Data), want.Data)
	}
}

func (k *kit) wantInFlight(c once.Claim) *once.InFlightError {
	k.Helper()
	var busy *once.InFlightError
	err := k.refused(c)
	if !errors.As(err, &busy) || !errors.Is(err, once.ErrInFlight) {
		k.Fatalf("claim of what is in flight: %v", err)
	}
	return busy
}

func (k *kit) wantHeld(c once.Claim) *once.UnknownError {
	k.Helper()
	var held *once.UnknownError
	err := k.refused(c)
	if !errors.As(err, &held) || !errors.Is(err, once.ErrUnknown) {
		k.Fatalf("claim of what is held: %v", err)
	}
	return held
}

func (k *kit) wantMismatch(c once.Claim) {
	k.Helper()
	if err := k.refused(c); !errors.Is(err, once.ErrMismatch) {
		k.Fatalf("claim with another fingerprint: %v", err)
	}
}

func (k *kit) wantErr(what string, err, want error) {
	k.Helper()
	if !errors.Is(err, want) {
		k.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// wantTaken claims what a lost attempt left behind.
func (k *kit) wantTaken(c once.Claim, before once.Grant) once.Grant {
	k.Helper()
	g := k.take(c)
	if !g.Takeover || g.Attempt != before.Attempt+1 || g.Fence <= before.Fence {
		k.Fatalf("took over with %+v, the attempt before had fence %d and was number %d",
			g, before.Fence, before.Attempt)
	}
	return g
}

// record returns the record as people see it.
func (k *kit) record(id once.Identity) once.Record {
	k.Helper()
	r, err := k.s.(once.Browser).Record(k.ctx, id)
	if err != nil {
		k.Fatalf("record: %v", err)
	}
	return r
}

// wantState looks at the state of a record, if the store shows it.
func (k *kit) wantState(id once.Identity, want once.RecordState) {
	k.Helper()
	if _, ok := k.s.(once.Browser); !ok {
		return
	}
	if got := k.record(id).State; got != want {
		k.Fatalf("the record is %s, want %s", got, want)
	}
}

// look returns everything of a record as a text, or nothing if the store shows no records.
func (k *kit) look(id once.Identity) string {
	k.Helper()
	b, ok := k.s.(once.Browser)
	if !ok {
		return ""
	}
	r, err := b.Record(k.ctx, id)
	if errors.Is(err, once.ErrNotFound) {
		return "not found"
	}
	if err != nil {
		k.Fatalf("record: %v", err)
	}
	sum := sha256.Sum256(r.Outcome.Data)
	return fmt.Sprintf("%s %v fence %d attempt %d note %q claimed %d finished %d last %d lease %d "+
		"expires %d outcome %d %d %x size %d", r.State, r.OnUnknown, r.Fence, r.Attempt, r.Note,
		r.ClaimedAt.UnixMicro(), r.FinishedAt.UnixMicro(), r.LastAt.UnixMicro(),
		r.LeaseEnd.UnixMicro(), r.ExpiresAt.UnixMicro(), r.Outcome.Kind, len(r.Outcome.Data),
		sum[:4], r.Size)
}

// unchanged makes calls that may not change a record.
func (k *kit) unchanged(what string, id once.Identity, calls func()) {
	k.Helper()
	before := k.look(id)
	calls()
	if after := k.look(id); after != before {
		k.Fatalf("%s changed the record\nfrom %s\nto   %s", what, before, after)
	}
}
