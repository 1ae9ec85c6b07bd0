package oncemongo

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once/queue"
)

// What a counter counts.
const countTask = "task"

// counterKey names a kept counter: what is counted, its source (or destination, or flow) and state.
type counterKey struct{ of, source, state string }

func rowCounter(k queue.Kind, source string, s queue.State) counterKey {
	return counterKey{k.String(), source, string(s)}
}

// counterDoc is a kept counter.
type counterDoc struct {
	ID     string `bson:"_id"`
	V      int64  `bson:"v"`
	Of     string `bson:"of"`
	Source string `bson:"source"`
	State  string `bson:"state"`
	N      int64  `bson:"n"`
}

func (k counterKey) id() string { return k.of + "/" + pairID(k.source, k.state) }

// counterWrites returns what the batch makes of the counters.
func (t *txn) counterWrites() []docWrite {
	var out []docWrite
	for k, n := range t.deltas {
		if n == 0 {
			continue
		}
		have, known := t.s.turn.counts[k]
		w := docWrite{In: counters, Do: doUpdate, Key: k.id(),
			Set: bson.D{{Key: "n", Value: have + n}}}
		if !known {
			w.Do = doInsert
			w.Set = bson.D{{Key: "_id", Value: k.id()}, {Key: "of", Value: k.of},
				{Key: "source", Value: k.source}, {Key: "state", Value: k.state},
				{Key: "n", Value: n}}
		}
		out = append(out, w)
	}
	return out
}

func (s *Store) readCounts(ctx context.Context) (map[counterKey]int64, error) {
	found, err := s.find(ctx, counters, bson.D{}, nil, 0, nil)
	if err != nil {
		return nil, err
	}
	out := make(map[counterKey]int64, len(found))
	for _, raw := range found {
		var d counterDoc
		if err := bson.Unmarshal(raw, &d); err != nil {
			return nil, fmt.Errorf("read counters: %w: %w", errDamaged, err)
		}
		out[counterKey{d.Of, d.Source, d.State}] = d.N
	}
	return out, nil
}

// Counts returns the kept counters.
func (s *Store) Counts(ctx context.Context) (queue.Counts, error) {
	out := queue.Counts{Rows: map[queue.RowCount]int64{}, Tasks: map[queue.TaskCount]int64{}}
	counts, err := s.readCounts(ctx)
	if err != nil {
		return out, asUnavailable(err)
	}
	for k, n := range counts {
		switch k.of {
		case countTask:
			out.Tasks[queue.TaskCount{Flow: k.source, State: k.state}] = n
		case queue.Callback.String():
			out.Rows[queue.RowCount{Kind: queue.Callback, Source: k.source,
				State: queue.State(k.state)}] = n
		case queue.Effect.String():
			out.Rows[queue.RowCount{Kind: queue.Effect, Source: k.source,
				State: queue.State(k.state)}] = n
		}
	}
	return out, nil
}
