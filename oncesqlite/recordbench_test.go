package oncesqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
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

// fillRecords writes completed records below the store, as many claims and completions would. Their
// identities go ten times through all that there can be: so the pages of the index fill and split
// as in any order, and each is in memory while it does.
func fillRecords(b *testing.B, path string, n int) {
	c, err := sqlite3.Open("file:" + path)
	if err != nil {
		b.Fatal(err)
	}
	for _, text := range []string{
		"PRAGMA journal_mode=OFF", "PRAGMA synchronous=OFF", "PRAGMA cache_size=-50000",
		fmt.Sprintf(`WITH RECURSIVE many(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many LIMIT %[1]d)
			INSERT INTO records (identity, fingerprint, state, on_unknown, owner, fence, attempt,
			retention, claimed_at, lease_end, finished_at, last_at, expires_at, note, outcome)
			SELECT cast(unhex(printf('%%08X', ((n %% (%[1]d / 10)) * 10 + n * 10 / %[1]d) *
			4294967296 / %[1]d)) || randomblob(28) AS BLOB), randomblob(33), 2, 0, randomblob(16), 1800000000000000 + n, 1,
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

// fewRecords is what a small store of the benchmark below has.
const fewRecords = 10_000

// First requests on a store that remembers few others and on one that remembers many, in turns:
// what else the machine does meets both. ns/op is of the one with many.
func BenchmarkRecordsAmongMany(b *testing.B) {
	many := 200_000
	if text := os.Getenv(manyEnv); text != "" {
		var err error
		if many, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	stores := map[int]*Store{}
	for _, size := range []int{fewRecords, many} {
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
		defer func() {
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		}()
		stores[size] = s
	}
	data := make([]byte, 300)
	var n atomic.Int64
	compare := func(name string, each func(*Records)) {
		b.Run(name, func(b *testing.B) {
			few, lot := stores[fewRecords].Records(), stores[many].Records()
			tookFew, tookMany := inTurns(b.N, func() { each(few) }, func() { each(lot) })
			b.ReportMetric(float64(tookMany.Nanoseconds())/float64(b.N), "ns/op")
			b.ReportMetric(float64(tookMany)/float64(tookFew), "many/few")
		})
	}
	compare("claim and complete", func(r *Records) { claimAndComplete(b, r, n.Add(1), data) })
	compare("claim", func(r *Records) {
		if _, err := r.Claim(b.Context(), nthClaim(n.Add(1))); err != nil {
			b.Error(err)
		}
	})
	benchPages(b, stores[many])
}

// inTurns calls one function n times and then the other, each from many goroutines, in several
// turns, and returns how long each took in all.
func inTurns(n int, first, second func()) (tookFirst, tookSecond time.Duration) {
	const turns = 8
	for range turns {
		for _, each := range []struct {
			call func()
			took *time.Duration
		}{{first, &tookFirst}, {second, &tookSecond}} {
			var wg sync.WaitGroup
			var left atomic.Int64
			left.Store(int64(max(n/turns, 1)))
			begun := time.Now()
			for range 2 * benchOwners {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						each.call()
					}
				})
			}
			wg.Wait()
			*each.took += time.Since(begun)
		}
	}
	return tookFirst, tookSecond
}

// benchPages measures pages of a store that has attempts in flight besides completed records.
func benchPages(b *testing.B, s *Store) {
	for name, f := range map[string]once.RecordFilter{
		"all": {}, "completed": {State: once.Completed}, "held": {State: once.Held},
		"in flight": {State: once.InFlight}, "released": {State: once.Released},
		"no such scope": {Scope: []string{"nobody"}},
	} {
		b.Run("page of "+name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Records().Records(b.Context(), f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
