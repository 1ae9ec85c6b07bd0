package turn

import "github.com/oncekit/once/queue"

// CountTasks is what a counter counts that is none of rows.
const CountTasks = "task"

// CounterKey names a kept counter: what is counted, its source (or destination, or flow) and state.
type CounterKey struct{ Of, Source, State string }

// RowCounter names the counter of rows of a kind, source and state.
func RowCounter(k queue.Kind, source string, s queue.State) CounterKey {
	return CounterKey{k.String(), source, string(s)}
}

// AddTo adds a kept counter to what is told of them.
func (k CounterKey) AddTo(out *queue.Counts, n int64) {
	switch k.Of {
	case CountTasks:
		out.Tasks[queue.TaskCount{Flow: k.Source, State: k.State}] += n
	case queue.Callback.String():
		out.Rows[queue.RowCount{Kind: queue.Callback, Source: k.Source,
			State: queue.State(k.State)}] += n
	case queue.Effect.String():
		out.Rows[queue.RowCount{Kind: queue.Effect, Source: k.Source,
			State: queue.State(k.State)}] += n
	}
}

// count adds to a kept counter.
func (t *Batch) count(k CounterKey, n int64) {
	t.deltas[k] += n
	t.onUndo(func() { t.deltas[k] -= n })
}

// Counted is what the batch adds to the counters; none of it is 0.
func (t *Batch) Counted() map[CounterKey]int64 {
	for k, n := range t.deltas {
		if n == 0 {
			delete(t.deltas, k)
		}
	}
	return t.deltas
}
