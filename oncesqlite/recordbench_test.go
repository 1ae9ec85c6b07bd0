package oncesqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

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

// manyEnv is how many records the larger store of the benchmark below has.
const manyEnv = "ONCE_BENCH_RECORDS"

// fillRecords writes completed records below the store, as many claims and completions would.
func fillRecords(b *testing.B, path string, n int) {
	c, err := sqlite3.Open("file:" + path)
	if err != nil {
		b.Fatal(err)
	}
	for _, text := range []string{
		"PRAGMA journal_mode=OFF", "PRAGMA synchronous=OFF", "PRAGMA cache_size=-1000000",
		fmt.Sprintf(`WITH RECURSIVE many(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many LIMIT %d)
			INSERT INTO records (identity, fingerprint, state, on_unknown, owner, fence, attempt,
			retention, claimed_at, lease_end, finished_at, last_at, expires_at, note, outcome)
			SELECT randomblob(32), randomblob(33), 2, 0, randomblob(16), 1800000000000000 + n, 1,
			86400000000, 1800000000000000 + n, 1800000030000000 + n, 1800000000000100 + n,
			1800000000000000 + n, 1800091800000000 + n,
			'{"s":["tenant-1"],"k":"0f1e","r":"POST /orders"}', zeroblob(300) FROM many`, n),
		fmt.Sprintf("INSERT INTO counters VALUES (4, '', 'completed', %d)", n),
		"PRAGMA journal_mode=WAL",
	} {
		if err := c.Exec(text); err != nil {
			b.Fatalf("%.40s: %v", text, err)
		}
	}
	if err := c.Close(); err != nil {
		b.Fatal(err)
	}
}

// A first request on a store that remembers few or many others.
func BenchmarkRecordsAmongMany(b *testing.B) {
	many := 200_000
	if text := os.Getenv(manyEnv); text != "" {
		var err error
		if many, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	for _, size := range []int{10_000, many} {
		path := filepath.Join(b.TempDir(), "once.db")
		s, err := Open(b.Context(), Config{Path: path})
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			b.Fatal(err)
		}
		fillRecords(b, path, size)
		if s, err = Open(b.Context(), Config{Path: path}); err != nil {
			b.Fatal(err)
		}
		benchAmong(b, s, size)
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}
}

// benchAmong measures what a store does for first requests and for pages.
func benchAmong(b *testing.B, s *Store, size int) {
	r, data := s.Records(), make([]byte, 300)
	var n atomic.Int64
	parallel := func(name string, each func(int64)) {
		b.Run(fmt.Sprint(name, "/", size), func(b *testing.B) {
			b.SetParallelism(benchOwners)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					each(n.Add(1))
				}
			})
		})
	}
	parallel("claim and complete", func(n int64) { claimAndComplete(b, r, n, data) })
	parallel("claim", func(n int64) {
		if _, err := r.Claim(b.Context(), nthClaim(n)); err != nil {
			b.Error(err)
		}
	})
	for name, f := range map[string]once.RecordFilter{
		"all": {}, "completed": {State: once.Completed}, "held": {State: once.Held},
		"in flight": {State: once.InFlight}, "no such scope": {Scope: []string{"nobody"}},
	} {
		b.Run(fmt.Sprint("page of ", name, "/", size), func(b *testing.B) {
			for b.Loop() {
				if _, err := r.Records(b.Context(), f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
