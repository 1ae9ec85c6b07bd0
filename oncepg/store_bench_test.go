package oncepg

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncekit/once/internal/testserver/postgres"
	"github.com/oncekit/once/queue"
)

// benchStore is a store on a server that flushes each commit to the disk.
func benchStore(b *testing.B) *Store {
	b.Helper()
	server, err := postgres.Start(postgres.Config{Durable: true,
		Lines: []string{"shared_buffers = 256MB"}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := server.Close(); err != nil {
			b.Error(err)
		}
	})
	return openStore(b, openPool(b, server.URL("postgres"), 10), StoreConfig{})
}

// benchArrival is one of 500 bytes with a key of two parts.
func benchArrival(n int64) queue.Arrival {
	a := testArrival(fmt.Sprint("bench-", n), fmt.Sprint("T", n))
	a.Key = []string{"robots", fmt.Sprint("R", n)}
	a.Body, a.Meta = make([]byte, 500), []byte(`{"method":"POST","headers":{}}`)
	return a
}

// BenchmarkStoreAppend stores arrivals: as calls of 64, four of them under way; as calls of one,
// 256 of them under way.
func BenchmarkStoreAppend(b *testing.B) {
	for _, c := range []struct{ each, inFlight int }{{64, 4}, {1, 256}} {
		b.Run(fmt.Sprintf("%dx%d", c.each, c.inFlight), func(b *testing.B) {
			s := benchStore(b)
			var next atomic.Int64
			b.ResetTimer()
			var wg sync.WaitGroup
			for range c.inFlight {
				wg.Go(func() {
					for {
						to := next.Add(int64(c.each))
						if to-int64(c.each) >= int64(b.N) {
							return
						}
						var list []queue.Arrival
						for n := to - int64(c.each); n < to; n++ {
							list = append(list, benchArrival(n))
						}
						if _, err := s.Append(context.Background(), list); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkStoreStep decides on rows of a task each, with a history line and an effect.
func BenchmarkStoreStep(b *testing.B) {
	s := benchStore(b)
	fill(b, s)
	b.ResetTimer()
	for done := 0; done < b.N; {
		got, err := s.Step(context.Background(), queue.StepRequest{Lane: testLane, Max: 256,
			Decide: countTask})
		if err != nil {
			b.Fatal(err)
		}
		done += got.Rows
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkStoreLeaseAndSettle leases rows and settles them, 64 at a time.
func BenchmarkStoreLeaseAndSettle(b *testing.B) {
	s := benchStore(b)
	fill(b, s)
	b.ResetTimer()
	for done := 0; done < b.N; {
		got, err := s.Lease(context.Background(), queue.LeaseRequest{Lane: testLane, Max: 64,
			For: patience})
		if err != nil {
			b.Fatal(err)
		}
		var sets []queue.Settlement
		for _, r := range got.Rows {
			sets = append(sets, queue.Settlement{Grant: r.Grant(), State: queue.Done})
		}
		for _, err := range s.Settle(context.Background(), sets) {
			if err != nil {
				b.Fatal(err)
			}
		}
		done += len(sets)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// fill stores what a benchmark works.
func fill(b *testing.B, s *Store) {
	b.Helper()
	for n := int64(0); n < int64(b.N); {
		var list []queue.Arrival
		for ; n < int64(b.N) && len(list) < 256; n++ {
			list = append(list, benchArrival(n))
		}
		if _, err := s.Append(context.Background(), list); err != nil {
			b.Fatal(err)
		}
	}
}
