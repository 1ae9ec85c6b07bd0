package oncesqlite

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekit/once"
)

// benchOwners is how many goroutines there are for each core: 256 on two of them.
const benchOwners = 128

// nthClaim is a claim with a key of its own.
func nthClaim(n int64) once.Claim {
	b := binary.BigEndian.AppendUint64(nil, uint64(n))
	return once.Claim{
		Identity: once.DeriveIdentity(once.Identity{1}, string(b), 0), Owner: once.NewOwner(),
		Fingerprint: once.FingerprintRaw(b), Lease: time.Minute, Retention: 24 * time.Hour,
		Note: once.Note{Scope: []string{"tenant-1"}, Key: "0f1e", Request: "POST /orders"},
	}
}

func benchRecords(b *testing.B, cfg Config) *Records {
	cfg.Path = filepath.Join(b.TempDir(), "once.db")
	s, err := Open(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s.Records()
}

// claimAndComplete is what a first request costs a store.
func claimAndComplete(b *testing.B, r *Records, n int64, data []byte) {
	g, err := r.Claim(b.Context(), nthClaim(n))
	if err == nil {
		err = r.Complete(b.Context(), g, once.Outcome{Data: data})
	}
	if err != nil {
		b.Error(err)
	}
}

func BenchmarkRecordsFirst(b *testing.B) {
	r, data := benchRecords(b, Config{}), make([]byte, 300)
	var n atomic.Int64
	b.SetParallelism(benchOwners)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			claimAndComplete(b, r, n.Add(1), data)
		}
	})
}

func BenchmarkRecordsReplay(b *testing.B) {
	for name, kib := range map[string]int{"memory": 0, "file": -1} {
		b.Run(name, func(b *testing.B) {
			const keys = 1000
			r := benchRecords(b, Config{ReplayKiB: kib})
			for n := range int64(keys) {
				claimAndComplete(b, r, n, make([]byte, 300))
			}
			var n atomic.Int64
			b.SetParallelism(benchOwners)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					_, err := r.Claim(b.Context(), nthClaim(n.Add(1)%keys))
					var replay *once.ReplayError
					if !errors.As(err, &replay) {
						b.Error(err)
					}
				}
			})
		})
	}
}
