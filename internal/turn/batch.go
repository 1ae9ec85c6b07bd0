package turn

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/oncekit/once/queue"
)

// Config is what a batch has to know of its store. All of it has to be set, but Commit.
type Config struct {
	Log *slog.Logger
	// Node is the name of this process among those that use the database.
	Node string
	// RejectedPerSource bounds a ring of refused messages.
	RejectedPerSource int
	// MaxRowBytes bounds what a row carries.
	MaxRowBytes int
	// MaxName bounds the names of tasks and resources in bytes; 0: nothing does.
	MaxName int
	// BatchBytes is how much a batch may write before nothing further is taken into it.
	BatchBytes int
	// FreshEffects takes effects for new without a look: whoever commits finds out, and works the
	// batch out again without it.
	FreshEffects bool
	// Commit runs a handler's Commit inside the store's transaction. end takes what it wrote back,
	// or keeps it; it is called once. Nil: the store has no transaction that a handler could join.
	Commit func(fn func(context.Context, queue.Tx) error) (end func(keep bool) error, err error)
	// NoCommit is what a settlement with a Commit is told if Commit is nil.
	NoCommit error
}

// Batch is what is read and changed between two commits. Nothing of it is in the database before
// its commit.
type Batch struct {
	Config
	stored Stored
	// Now is the store's clock: one instant for all of the batch.
	now   Stamp
	start State // as of the last commit
	state State
	lanes map[string]*LaneState
	lines map[lineKey]*Line
	// owned has what tasks that were asked for owned before the batch.
	owned map[Pair][]*Resource
	// highest is no less than the numbers of all rows that earlier batches have seen.
	highest int64
	// known is highest as it was when the batch began.
	known    int64
	snapshot Snapshot

	Rows      *Shelf[int64, Row]
	Arrivals  *Shelf[ArrivalKey, Arrival]
	Tasks     *Shelf[Pair, Task]
	History   *Shelf[HistoryKey, History]
	Resources *Shelf[Pair, Resource]
	Audit     *Shelf[int64, Audit]
	Rejected  *Shelf[int64, Rejected]

	byIdentity map[identityKey]*Row // those that were asked for; nil: there is none
	deltas     map[CounterKey]int64
	// undo takes changes back, last first. durable runs once the batch is committed.
	undo, durable []func()
	// rang counts, by lane, how often rows became due.
	rang map[string]int
	// woken are rows that were woken, in order.
	woken []int64
	// size is about how many bytes the batch writes.
	size int
}

// New begins a batch at a time of the store's clock. state is what the last commit left; highest is
// no less than the number of any row that was there then, and has says what was under way. Others
// may come while the batch runs.
func New(c Config, stored Stored, state State, now Stamp, highest int64, has Snapshot) *Batch {
	t := &Batch{Config: c, stored: stored, now: max(now, state.At), start: state, state: state,
		lanes: map[string]*LaneState{}, deltas: map[CounterKey]int64{}, rang: map[string]int{},
		lines: map[lineKey]*Line{}, owned: map[Pair][]*Resource{},
		highest: highest, known: highest, snapshot: has, byIdentity: map[identityKey]*Row{}}
	for _, l := range state.Lanes {
		t.lanes[l.Name] = &l
	}
	t.Rows = newShelf(t, func(r *Row) int64 { return r.Seq }, stored.RowsBySeq)
	t.Arrivals = newShelf(t, (*Arrival).key, stored.Arrivals)
	t.Tasks = newShelf(t, (*Task).key, stored.Tasks)
	t.History = newShelf(t, (*History).key, noFetch[HistoryKey, History])
	t.Resources = newShelf(t, (*Resource).key, stored.Resources)
	t.Audit = newShelf(t, (*Audit).key, noFetch[int64, Audit])
	t.Rejected = newShelf(t, (*Rejected).key, noFetch[int64, Rejected])
	return t
}

// noFetch is for things that a batch never asks for.
func noFetch[K comparable, T any]([]K) ([]*T, error) { return nil, nil }

// Now is the time of the batch.
func (t *Batch) Now() Stamp { return t.now }

// Full reports whether nothing further should be taken into the batch.
func (t *Batch) Full() bool { return t.size > t.BatchBytes }

// mark is a place in a batch to which it can be taken back.
type mark struct{ undo, durable, woken, size int }

func (t *Batch) mark() mark {
	return mark{len(t.undo), len(t.durable), len(t.woken), t.size}
}

func (t *Batch) rewind(m mark) {
	for i := len(t.undo) - 1; i >= m.undo; i-- {
		t.undo[i]()
	}
	t.undo, t.durable, t.woken, t.size = t.undo[:m.undo], t.durable[:m.durable],
		t.woken[:m.woken], m.size
}

func (t *Batch) onUndo(fn func()) { t.undo = append(t.undo, fn) }

// OnCommit runs fn once the batch is committed, unless what it belongs to is taken back.
func (t *Batch) OnCommit(fn func()) { t.durable = append(t.durable, fn) }

// Savepoint runs fn so that an error undoes what it did and nothing else.
func (t *Batch) Savepoint(fn func() error) error {
	m := t.mark()
	err := fn()
	if err != nil {
		t.rewind(m)
	}
	return err
}

// Committed tells of the batch, and returns the lanes in which rows became due.
func (t *Batch) Committed() []string {
	for _, fn := range t.durable {
		fn()
	}
	out := make([]string, 0, len(t.rang))
	for lane := range t.rang {
		out = append(out, lane)
	}
	return out
}

// set changes the state.
func (t *Batch) set(fn func(*State)) {
	was := t.state
	fn(&t.state)
	t.onUndo(func() { t.state = was })
}

// lane returns what is kept of a lane, to be read.
func (t *Batch) lane(name string) LaneState {
	if l := t.lanes[name]; l != nil {
		return *l
	}
	return LaneState{Name: name}
}

// setLane changes what is kept of a lane.
func (t *Batch) setLane(name string, fn func(*LaneState)) {
	l := t.lanes[name]
	if l == nil {
		l = &LaneState{Name: name}
		t.lanes[name] = l
		t.onUndo(func() { delete(t.lanes, name) })
	}
	was := *l
	fn(l)
	t.onUndo(func() { *l = was })
}

// next returns a number that no task and no effect had.
func (t *Batch) next() int64 {
	t.set(func(s *State) { s.Last++ })
	return t.state.Last
}

// nextSeq returns the number of a new row.
func (t *Batch) nextSeq(k queue.Kind) (int64, error) {
	if k == queue.Effect {
		return t.next()*2 + 1, nil
	}
	seq, err := t.stored.CallbackSeq()
	t.highest = max(t.highest, seq)
	return seq, err
}

// timer notes that something is due at a time.
func (t *Batch) timer(at Stamp) {
	if t.state.Timer == 0 || at < t.state.Timer {
		t.set(func(s *State) { s.Timer = at })
	}
}

// ring notes that a row of a lane became due.
func (t *Batch) ring(lane string) { t.rang[lane]++ }

// State is the state as the commit writes it. Changed tells whether it is another than that of the
// last commit, its time aside.
func (t *Batch) State() (out State, changed bool) {
	out = t.state
	out.Lanes = nil
	heads := t.heads()
	for _, l := range t.lanes {
		l := *l
		l.LaneHead = heads[l.Name]
		if l != (LaneState{Name: l.Name}) {
			out.Lanes = append(out.Lanes, l)
		}
	}
	slices.SortFunc(out.Lanes, func(a, b LaneState) int { return strings.Compare(a.Name, b.Name) })
	changed = !sameLanes(out.Lanes, t.start.Lanes) || !slices.Equal(out.Wakes, t.start.Wakes) ||
		out.Last != t.start.Last || out.Timer != t.start.Timer ||
		out.Overdue != t.start.Overdue || out.WaitsEnd != t.start.WaitsEnd ||
		out.Waiting != t.start.Waiting
	out.At = t.now
	return out, changed
}

// sameLanes compares what is kept of lanes, but for their heads: those are worth no commit.
func sameLanes(a, b []LaneState) bool {
	bare := func(list []LaneState) (out []LaneState) {
		for _, l := range list {
			if l.LaneHead = (LaneHead{}); l != (LaneState{Name: l.Name}) {
				out = append(out, l)
			}
		}
		return out
	}
	return slices.Equal(bare(a), bare(b))
}

// Changed reports whether the batch has anything to write but its state.
func (t *Batch) Changed() bool {
	if len(t.Rows.dirty)+len(t.Arrivals.dirty)+len(t.Tasks.dirty)+len(t.History.dirty)+
		len(t.Resources.dirty)+len(t.Audit.dirty)+len(t.Rejected.dirty) > 0 {
		return true
	}
	for _, n := range t.deltas {
		if n != 0 {
			return true
		}
	}
	return false
}
