package oncetest

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/oncekit/once"
)

// benchOutcome is the length in bytes of the outcomes of the benchmark: a small answer in JSON.
const benchOutcome = 300

// Bench measures a store, with a sub-benchmark for each of: a first request (claim and complete), a
// first request from many at once, a release and a claim after it, a replay, replays from many at
// once, a mismatch, an answer that it is in flight, and claimants who contend for one identity.
// The store may hold records already; the benchmark leaves its own behind.
func Bench(b *testing.B, store once.Store) {
	r := &bencher{s: store}
	r.next.Store(rand.Uint64())
	b.Run("First", func(b *testing.B) { r.one(b, r.first) })
	b.Run("FirstParallel", func(b *testing.B) { r.many(b, r.first) })
	b.Run("ReleaseAndClaim", func(b *testing.B) {
		id := r.fresh()
		r.one(b, func(ctx context.Context) error {
			g, err := r.s.Claim(ctx, r.claim(id))
			if err != nil {
				return err
			}
			return r.s.Release(ctx, g)
		})
	})
	done, busy := r.fresh(), r.fresh()
	g, err := r.s.Claim(b.Context(), r.claim(done))
	if err == nil {
		err = r.s.Complete(b.Context(), g, once.Outcome{Data: make([]byte, benchOutcome)})
	}
	if err == nil {
		_, err = r.s.Claim(b.Context(), r.claim(busy))
	}
	if err != nil {
		b.Fatal(err)
	}
	mismatch := func(c once.Claim) once.Claim { c.Fingerprint = other; return c }
	replay := r.refused(func() once.Claim { return r.claim(done) })
	b.Run("Replay", func(b *testing.B) { r.one(b, replay) })
	b.Run("ReplayParallel", func(b *testing.B) { r.many(b, replay) })
	b.Run("Mismatch", func(b *testing.B) {
		r.one(b, r.refused(func() once.Claim { return mismatch(r.claim(done)) }))
	})
	b.Run("InFlight", func(b *testing.B) {
		r.one(b, r.refused(func() once.Claim { return r.claim(busy) }))
	})
	b.Run("Contended", func(b *testing.B) { r.many(b, r.contend(r.fresh())) })
}

type bencher struct {
	s    once.Store
	next atomic.Uint64
}

// fresh returns an identity that was never used; the bits are spread as those of a hash are.
func (r *bencher) fresh() (id once.Identity) {
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[:], r.next.Add(1))
	_, _ = rand.NewChaCha8(seed).Read(id[:]) // never fails
	return id
}

func (r *bencher) claim(id once.Identity) once.Claim {
	c := claim("bench")
	c.Identity = id
	return c
}

func (r *bencher) first(ctx context.Context) error {
	g, err := r.s.Claim(ctx, r.claim(r.fresh()))
	if err != nil {
		return err
	}
	return r.s.Complete(ctx, g, once.Outcome{Data: make([]byte, benchOutcome)})
}

// refused claims what can't be had.
func (r *bencher) refused(of func() once.Claim) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := r.s.Claim(ctx, of())
		if err == nil || errors.Is(err, once.ErrUnavailable) {
			return errors.Join(errors.New("no answer that refuses"), err)
		}
		return nil
	}
}

// contend claims one identity and gives it back, with many who do the same.
func (r *bencher) contend(id once.Identity) func(context.Context) error {
	return func(ctx context.Context) error {
		g, err := r.s.Claim(ctx, r.claim(id))
		if errors.Is(err, once.ErrInFlight) {
			return nil
		}
		if err != nil {
			return err
		}
		return r.s.Release(ctx, g)
	}
}

func (r *bencher) one(b *testing.B, fn func(context.Context) error) {
	b.ReportAllocs()
	ctx := b.Context()
	for b.Loop() {
		if err := fn(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// benchParallel is how many goroutines for each processor measure what many do at once.
const benchParallel = 16

func (r *bencher) many(b *testing.B, fn func(context.Context) error) {
	b.ReportAllocs()
	b.SetParallelism(benchParallel)
	ctx := b.Context()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := fn(ctx); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
