package oncesqlite

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

const testLane = "handler/work"

func identityOf(name string) once.Identity { return sha256.Sum256([]byte(name)) }

// callback returns an arrival whose identity and content are its name.
func callback(name string) queue.Arrival {
	return queue.Arrival{Identity: identityOf(name), Fingerprint: once.FingerprintRaw([]byte(name)),
		Kind: queue.Callback, Lane: testLane, State: queue.Pending, Source: "robots",
		Event: "finish", Key: []string{name}, Body: []byte(name), Retention: time.Hour}
}

func effectOf(name string) queue.Arrival {
	return queue.Arrival{Identity: identityOf("effect of " + name), Kind: queue.Effect,
		Lane: "effect/plc", State: queue.Pending, Source: "plc", Event: "pulse",
		Body: []byte(name), Retention: time.Hour}
}

func mustAppend(t *testing.T, s *Store, as ...queue.Arrival) []queue.Receipt {
	t.Helper()
	rs, err := s.Append(t.Context(), as)
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

func mustLease(t *testing.T, s *Store, lane string, max int) []queue.Row {
	t.Helper()
	got, err := s.Lease(t.Context(), queue.LeaseRequest{Lane: lane, Max: max, For: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return got.Rows
}

func mustSettle(t *testing.T, s *Store, row queue.Row, set queue.Settlement) {
	t.Helper()
	set.Grant = row.Grant()
	if err := s.Settle(t.Context(), []queue.Settlement{set})[0]; err != nil {
		t.Fatal(err)
	}
}

func rowOf(t *testing.T, s *Store, k queue.Kind, id once.Identity) queue.Row {
	t.Helper()
	d, err := s.Row(t.Context(), k, id.ID())
	if err != nil {
		t.Fatal(err)
	}
	return d.Row
}

// until polls a condition.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
		<-tick.C
	}
}

// scan runs a query of numbers on a connection of the store that reads.
func scan(t *testing.T, s *Store, query string) (out []int64) {
	t.Helper()
	err := s.read(t.Context(), func(c *conn) error {
		return c.query(query, func(r *stmt) error {
			out = append(out, r.int(0))
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// checkFile holds what is stored against SQLite's own check and against the kept counters.
func checkFile(t *testing.T, s *Store) {
	t.Helper()
	var problems []string
	want := map[counterKey]int64{}
	err := s.read(t.Context(), func(c *conn) error {
		err := c.query("PRAGMA integrity_check", func(r *stmt) error {
			problems = append(problems, r.text(0))
			return nil
		})
		if err != nil {
			return err
		}
		err = c.query("SELECT kind, source, phase FROM rows", func(r *stmt) error {
			k := queue.Kind(r.int(0))
			want[rowCounter(k, r.text(1), r.phase(2).state(k))]++
			return nil
		})
		if err != nil {
			return err
		}
		if err := checkPlaces(s, c); err != nil {
			problems = append(problems, err.Error())
		}
		err = c.query("SELECT state FROM records", func(r *stmt) error {
			want[counterKey{recordCounts, "", string(recordState(r.int(0)).name())}]++
			return nil
		})
		if err != nil {
			return err
		}
		return c.query("SELECT flow, state FROM tasks WHERE gone = 0", func(r *stmt) error {
			want[counterKey{taskCounts, r.text(0), r.text(1)}]++
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(problems) != "[ok]" {
		t.Errorf("integrity check: %v", problems)
	}
	s.counts.mu.Lock()
	defer s.counts.mu.Unlock()
	for key, n := range s.counts.n {
		if n != want[key] {
			t.Errorf("counter %+v is %d, counted %d", key, n, want[key])
		}
		delete(want, key)
	}
	for key, n := range want {
		t.Errorf("counter %+v is missing, counted %d", key, n)
	}
}
