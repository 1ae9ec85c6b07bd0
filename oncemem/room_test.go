package oncemem_test

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncemem"
)

func TestK16_TheChoiceOfOneProcessIsWrittenOut(t *testing.T) {
	_, err := oncemem.New(oncemem.Config{})
	if err == nil || !strings.Contains(err.Error(), "SingleInstance") {
		t.Errorf("new without SingleInstance: %v", err)
	}
}

// identity spreads numbers over the shards.
func identity(n int) (id once.Identity) {
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	id[0] = byte(n)
	return id
}

func claim(n int) once.Claim {
	return once.Claim{
		Identity: identity(n), Fingerprint: once.FingerprintRaw(nil), Owner: once.NewOwner(),
		Lease: time.Minute, Retention: time.Hour,
	}
}

// fill makes records until the store refuses, and returns their grants.
func fill(t *testing.T, s *oncemem.Store) (grants []once.Grant) {
	t.Helper()
	for n := range 100_000 {
		g, err := s.Claim(t.Context(), claim(n))
		if err == nil {
			grants = append(grants, g)
			continue
		}
		if !errors.Is(err, once.ErrUnavailable) {
			t.Fatalf("full: %v", err)
		}
		return grants
	}
	t.Fatal("it is never full")
	return nil
}

func isReplay(err error) bool {
	var replay *once.ReplayError
	return errors.As(err, &replay)
}

func TestK16_AFullStoreRefusesAndEvictsNothing(t *testing.T) {
	const bytes = 64 << 10
	c := newClock()
	s := open(t, oncemem.Config{MaxBytes: bytes, Now: c.Now})
	grants := fill(t, s)
	if len(grants) < 50 || len(grants) > 1000 {
		t.Fatalf("%d records in %d bytes", len(grants), bytes)
	}
	for range 3 {
		if _, err := s.Claim(t.Context(), claim(-1)); !errors.Is(err, once.ErrUnavailable) {
			t.Fatalf("a new key: %v", err)
		}
	}
	for n := range grants { // the live ones are all there
		if _, err := s.Claim(t.Context(), claim(n)); !errors.Is(err, once.ErrInFlight) {
			t.Fatalf("record %d: %v", n, err)
		}
	}
	// There is no room for data, and always for a tombstone.
	err := s.Complete(t.Context(), grants[0], once.Outcome{Data: make([]byte, 5000)})
	if !errors.Is(err, once.ErrTooLarge) {
		t.Errorf("complete with data: %v", err)
	}
	for _, g := range grants {
		if err := s.Complete(t.Context(), g, once.Outcome{Kind: once.Tombstone}); err != nil {
			t.Fatalf("tombstone: %v", err)
		}
	}
	for n := range grants {
		if _, err := s.Claim(t.Context(), claim(n)); !isReplay(err) {
			t.Fatalf("record %d: %v", n, err)
		}
	}
	if _, err := s.Claim(t.Context(), claim(-1)); !errors.Is(err, once.ErrUnavailable) {
		t.Errorf("a new key: %v", err)
	}
}

func TestK16_WhatIsPastItsRetentionMakesRoom(t *testing.T) {
	c := newClock()
	s := open(t, oncemem.Config{MaxBytes: 64 << 10, Now: c.Now})
	grants := fill(t, s)
	const released = 1 // in one shard only
	for n, g := range grants {
		var err error
		switch {
		case n == released:
			err = s.Release(t.Context(), g)
		case n%2 == 0:
			err = s.Renew(t.Context(), g, 1000*time.Hour)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c.Advance(2 * time.Hour) // the rest is in flight or lost, and stays
	// A key of another shard than the one that has something to remove.
	other := claim(100_007)
	g, err := s.Claim(t.Context(), other)
	if err != nil {
		t.Fatalf("a new key: %v", err)
	}
	if _, err := s.Claim(t.Context(), claim(100_008)); !errors.Is(err, once.ErrUnavailable) {
		t.Errorf("one more: %v", err)
	}
	if err := s.Complete(t.Context(), g, once.Outcome{}); err != nil {
		t.Fatal(err)
	}
}

func TestBytesAreGivenBack(t *testing.T) {
	c := newClock()
	s := open(t, oncemem.Config{MaxBytes: 64 << 10, Now: c.Now})
	data := make([]byte, 20<<10)
	for n := range 100 { // each takes nearly a third
		g, err := s.Claim(t.Context(), claim(n))
		if err != nil {
			t.Fatalf("round %d: %v", n, err)
		}
		if err := s.Complete(t.Context(), g, once.Outcome{Data: data}); err != nil {
			t.Fatalf("round %d: %v", n, err)
		}
		switch n % 3 {
		case 0:
			res := once.Resolution{Decision: once.ReleaseDone}
			if err := s.Resolve(t.Context(), g.Identity, res); err != nil {
				t.Fatal(err)
			}
			if g, err = s.Claim(t.Context(), claim(n)); err != nil {
				t.Fatal(err)
			}
			if err := s.Complete(t.Context(), g, once.Outcome{Data: data}); err != nil {
				t.Fatal(err)
			}
		case 1:
			c.Advance(2 * time.Hour)
			if _, err := s.Sweep(t.Context(), 100); err != nil {
				t.Fatal(err)
			}
		}
		c.Advance(2 * time.Hour)
	}
}

// TestTombstonesFitWhileOthersAskForTooMuch holds that a request that finds no room takes none away
// from others for a moment.
func TestTombstonesFitWhileOthersAskForTooMuch(t *testing.T) {
	s := open(t, oncemem.Config{MaxBytes: 32 << 10})
	grants := fill(t, s)
	var wg sync.WaitGroup
	var stop atomic.Bool
	for w := range 2 {
		wg.Go(func() {
			for !stop.Load() {
				_, _ = s.Claim(context.Background(), claim(1_000_000+w))
			}
		})
	}
	for _, g := range grants {
		if err := s.Complete(t.Context(), g, once.Outcome{Kind: once.Tombstone}); err != nil {
			t.Errorf("tombstone: %v", err)
			break
		}
	}
	stop.Store(true)
	wg.Wait()
}

func TestManyAtOnceOnAllShards(t *testing.T) {
	const workers, keys = 8, 64
	s := open(t, oncemem.Config{})
	var granted [keys]atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for n := range keys {
				g, err := s.Claim(t.Context(), claim(n))
				switch {
				case err == nil:
					granted[n].Add(1)
					err = s.Renew(t.Context(), g, time.Minute)
					if err == nil {
						err = s.Complete(t.Context(), g, once.Outcome{Data: []byte{byte(n)}})
					}
					if err != nil {
						t.Errorf("key %d: %v", n, err)
					}
				case isReplay(err), errors.Is(err, once.ErrInFlight):
				default:
					t.Errorf("key %d: %v", n, err)
				}
				_, _ = s.Sweep(t.Context(), 10)
				_, _ = s.Records(t.Context(), once.RecordFilter{Limit: 5})
				_, _ = s.Record(t.Context(), identity(n))
			}
		})
	}
	wg.Wait()
	for n := range granted {
		if got := granted[n].Load(); got != 1 {
			t.Errorf("key %d was granted %d times", n, got)
		}
	}
}

func TestSweepNeedsALimit(t *testing.T) {
	s := open(t, oncemem.Config{})
	if _, err := s.Sweep(t.Context(), 0); err == nil {
		t.Error("a sweep of nothing")
	}
}

func TestTheFenceRisesThoughTheClockWasSetBack(t *testing.T) {
	c := newClock()
	s := open(t, oncemem.Config{Now: c.Now})
	var last int64
	for range 3 {
		g, err := s.Claim(t.Context(), claim(1))
		if err != nil {
			t.Fatal(err)
		}
		if g.Fence <= last || g.Attempt != 1 {
			t.Fatalf("granted %+v after fence %d", g, last)
		}
		last = g.Fence
		if err := s.Release(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		c.Advance(2 * time.Hour)
		if n, err := s.Sweep(t.Context(), 10); n != 1 || err != nil {
			t.Fatalf("swept %d, %v", n, err)
		}
		c.Advance(-50 * time.Hour)
	}
}
