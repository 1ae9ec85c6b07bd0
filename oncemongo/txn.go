package oncemongo

import (
	"context"
	"slices"

	"github.com/oncekit/once/queue"
)

// txn is one batch of operations: what the writer reads and changes between two commits. Nothing of
// it is in the database before its commit.
type txn struct {
	s   *Store
	ctx context.Context
	// now is the store's clock: one instant for all of the batch.
	now   stamp
	state turnState
	lanes map[string]*laneState
	lines map[lineKey]*storedLine

	rows      *rowShelf
	arrivals  *shelf[string, arrivalDoc]
	tasks     *shelf[string, taskDoc]
	history   *shelf[string, historyDoc]
	resources *shelf[string, resourceDoc]
	audit     *shelf[string, auditDoc]
	rejected  *shelf[int64, rejectedDoc]
	deltas    map[counterKey]int64

	// undo takes changes back, last first. durable runs once the batch is committed.
	undo, durable []func()
	// rang are lanes in which rows became due.
	rang map[string]bool
	// woken are rows that were woken, in order.
	woken []int64
	// size is about how many bytes the batch writes.
	size int
}

func (s *Store) newTxn(ctx context.Context) *txn {
	t := &txn{s: s, ctx: ctx, now: max(s.now(), s.turn.state.At), state: s.turn.state,
		lanes: map[string]*laneState{}, deltas: map[counterKey]int64{}, rang: map[string]bool{},
		lines: map[lineKey]*storedLine{}}
	for _, l := range s.turn.state.Lanes {
		t.lanes[l.Name] = &l
	}
	t.rows = newRowShelf(t)
	t.arrivals = newShelf[string, arrivalDoc](t, arrivals)
	t.tasks = newShelf[string, taskDoc](t, tasks)
	t.history = newShelf[string, historyDoc](t, history)
	t.resources = newShelf[string, resourceDoc](t, resources)
	t.audit = newShelf[string, auditDoc](t, audit)
	t.rejected = newShelf[int64, rejectedDoc](t, rejected)
	return t
}

// mark is a place in a batch to which it can be taken back.
type mark struct{ undo, durable, woken, size int }

func (t *txn) mark() mark {
	return mark{len(t.undo), len(t.durable), len(t.woken), t.size}
}

func (t *txn) rewind(m mark) {
	for i := len(t.undo) - 1; i >= m.undo; i-- {
		t.undo[i]()
	}
	t.undo, t.durable, t.woken, t.size = t.undo[:m.undo], t.durable[:m.durable],
		t.woken[:m.woken], m.size
}

func (t *txn) onUndo(fn func()) { t.undo = append(t.undo, fn) }

// savepoint runs fn so that an error undoes what it did and nothing else.
func (t *txn) savepoint(fn func() error) error {
	m := t.mark()
	err := fn()
	if err != nil {
		t.rewind(m)
	}
	return err
}

// set changes the state.
func (t *txn) set(fn func(*turnState)) {
	was := t.state
	fn(&t.state)
	t.onUndo(func() { t.state = was })
}

// lane returns what is kept of a lane, to be read.
func (t *txn) lane(name string) laneState {
	if l := t.lanes[name]; l != nil {
		return *l
	}
	return laneState{Name: name}
}

// setLane changes what is kept of a lane.
func (t *txn) setLane(name string, fn func(*laneState)) {
	l := t.lanes[name]
	if l == nil {
		l = &laneState{Name: name}
		t.lanes[name] = l
		t.onUndo(func() { delete(t.lanes, name) })
	}
	was := *l
	fn(l)
	t.onUndo(func() { *l = was })
}

// next returns a number that no row and no task had.
func (t *txn) next() int64 {
	t.set(func(s *turnState) { s.Last++ })
	return t.state.Last
}

// nextSeq returns the number of a new row.
func (t *txn) nextSeq(k queue.Kind) int64 {
	seq := t.next() * 2
	if k == queue.Effect {
		seq++
	}
	return seq
}

// timer notes that something is due at a time.
func (t *txn) timer(at stamp) {
	if t.state.Timer == 0 || at < t.state.Timer {
		t.set(func(s *turnState) { s.Timer = at })
	}
}

// count adds to a kept counter.
func (t *txn) count(k counterKey, n int64) {
	t.deltas[k] += n
	t.onUndo(func() { t.deltas[k] -= n })
}

// ring notes that a row of a lane became due.
func (t *txn) ring(lane string) { t.rang[lane] = true }

// finalState is the state as the commit writes it.
func (t *txn) finalState() turnState {
	out := t.state
	out.Lanes = nil
	for _, l := range t.lanes {
		out.Lanes = append(out.Lanes, *l)
	}
	slices.SortFunc(out.Lanes, func(a, b laneState) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}

// writes returns what the batch makes of the documents.
func (t *txn) writes() ([]docWrite, error) {
	var out []docWrite
	for _, of := range []interface{ writes() ([]docWrite, error) }{
		t.rows.callbacks, t.rows.effects, t.arrivals, t.tasks, t.history, t.resources, t.audit,
		t.rejected,
	} {
		list, err := of.writes()
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return append(out, t.counterWrites()...), nil
}
