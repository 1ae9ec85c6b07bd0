package oncesqlite

import (
	"context"
	"maps"
	"sync"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// taskCounts is the kind under which the counters of tasks are stored.
const taskCounts = 3

// recordCounts is the kind under which the counters of records are stored.
const recordCounts = 4

// counterKey names a kept counter: kind, source (or destination, or flow) and state.
type counterKey struct {
	kind   int64
	source string
	state  string
}

func rowCounter(k queue.Kind, source string, s queue.State) counterKey {
	return counterKey{int64(k), source, string(s)}
}

// counters are the kept counters as of the last commit.
type counters struct {
	mu sync.Mutex
	n  map[counterKey]int64
}

func (c *counters) add(k counterKey, n int64) {
	c.mu.Lock()
	c.n[k] += n
	c.mu.Unlock()
}

func (s *Store) loadCounts() error {
	s.counts.mu.Lock()
	defer s.counts.mu.Unlock()
	s.counts.n = map[counterKey]int64{}
	return readCounts(s.w, s.counts.n)
}

func readCounts(c *conn, n map[counterKey]int64) error {
	return c.query("SELECT kind, source, state, n FROM counters", func(r *stmt) error {
		n[counterKey{r.int(0), r.text(1), r.text(2)}] = r.int(3)
		return nil
	})
}

// flushCounts writes what the transaction changed, in the transaction.
func (s *Store) flushCounts(t *txn) error {
	sum := map[counterKey]int64{}
	for _, d := range t.deltas {
		sum[d.key] += d.n
	}
	for k, n := range sum {
		if n == 0 {
			continue
		}
		err := t.c.exec("INSERT INTO counters VALUES (?1, ?2, ?3, ?4) "+
			"ON CONFLICT DO UPDATE SET n = n + ?4", k.kind, k.source, k.state, n)
		if err != nil {
			return err
		}
	}
	return nil
}

// Counts returns the kept counters.
func (s *Store) Counts(context.Context) (queue.Counts, error) {
	s.counts.mu.Lock()
	n := maps.Clone(s.counts.n)
	s.counts.mu.Unlock()
	return countsOf(n), nil
}

// RecordCounts returns what [Records.Counts] does. It never fails; a [Reader] can.
func (s *Store) RecordCounts(context.Context) (map[once.RecordState]int64, error) {
	return s.records.Counts(), nil
}

func recordsOf(n map[counterKey]int64) map[once.RecordState]int64 {
	out := map[once.RecordState]int64{}
	for k, v := range n {
		if k.kind == recordCounts {
			out[once.RecordState(k.state)] = v
		}
	}
	return out
}

func countsOf(n map[counterKey]int64) queue.Counts {
	out := queue.Counts{Rows: map[queue.RowCount]int64{}, Tasks: map[queue.TaskCount]int64{}}
	for k, v := range n {
		switch k.kind {
		case recordCounts:
			continue
		case taskCounts:
			out.Tasks[queue.TaskCount{Flow: k.source, State: k.state}] = v
			continue
		}
		out.Rows[queue.RowCount{Kind: queue.Kind(k.kind), Source: k.source,
			State: queue.State(k.state)}] = v
	}
	return out
}
