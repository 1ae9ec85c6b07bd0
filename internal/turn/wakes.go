package turn

import (
	"slices"

	"github.com/oncekit/once/queue"
)

// A wake of very many rows happens in parts, in the order of seq, so that no commit grows without
// bound: the batch that causes it wakes the first ones, the turn remembers the rest, and the next
// batches go on. A row that is left counts as one that waits. Woken at once it would be due, and
// ahead of the later rows of its order key: so the first one of each key among those that come next
// stands in line, parked as it is, and later rows of the key come behind it.

const (
	// wakesPerCommit bounds the rows that one batch wakes. It is no less than what a Step works, so
	// that a Step doesn't come past what was woken.
	wakesPerCommit = maxStep
	// wakesAtLeast is how many rows a wake may make due however many its batch has woken before.
	// Most have fewer, and nothing to remember.
	wakesAtLeast = 32
	// wakesAhead bounds the rows behind a part whose keys are held up.
	wakesAhead = 64
)

// UnfinishedWake is a wake of which rows may be left.
type UnfinishedWake struct {
	Wait string `json:"wait"`
	// After is the last row that was woken, Upto the last one that waited when it was caused.
	After int64 `json:"after"`
	Upto  int64 `json:"upto"`
	// Cause is the row that is not woken; 0: there is none.
	Cause int64 `json:"cause,omitempty"`
}

// wake makes parked rows due. They keep their waits until they are settled, so that nobody takes
// their turn.
func (t *Batch) wake(w queue.Wake, cause *Row) error {
	if t.state.Waiting == 0 {
		return nil
	}
	all := UnfinishedWake{Wait: w.Wait, Upto: t.highest}
	for _, seq := range t.Rows.dirty { // they may have come since the batch began
		all.Upto = max(all.Upto, seq)
	}
	if cause != nil {
		all.Cause = cause.Seq
	}
	if !w.First {
		return t.wakePart(all, max(wakesPerCommit-len(t.woken), wakesAtLeast), false)
	}
	rows, err := t.parked(all, 1)
	if err != nil {
		return err
	}
	t.wakeRows(rows)
	return nil
}

// goOnWaking wakes a part of what is left of earlier wakes, each in turn.
func (t *Batch) goOnWaking() error {
	for range wakesPerCommit {
		left := wakesPerCommit - len(t.woken)
		if left <= 0 || len(t.state.Wakes) == 0 {
			return nil
		}
		if err := t.wakePart(t.state.Wakes[0], left, true); err != nil {
			return err
		}
	}
	return nil
}

// wakePart wakes up to limit rows of a wake and remembers whether more are left. kept is true for
// one that the turn remembers.
func (t *Batch) wakePart(w UnfinishedWake, limit int, kept bool) error {
	rows, err := t.parked(w, limit+wakesAhead)
	if err != nil {
		return err
	}
	part := rows[:min(limit, len(rows))]
	t.wakeRows(part)
	if rest := rows[len(part):]; len(rest) > 0 {
		t.holdUp(rest)
		w.After = part[len(part)-1].Seq
		t.forgetWake(w.Wait)
		t.set(func(s *State) { s.Wakes = append(slices.Clone(s.Wakes), w) })
		t.timer(1)
		return nil
	}
	if kept { // otherwise an earlier one that is remembered finds nothing and goes
		t.forgetWake(w.Wait)
	}
	return nil
}

// forgetWake removes what is remembered of a wake: what it has left is left of a later one too.
func (t *Batch) forgetWake(wait string) {
	same := func(w UnfinishedWake) bool { return w.Wait == wait }
	if slices.ContainsFunc(t.state.Wakes, same) {
		t.set(func(s *State) { s.Wakes = slices.DeleteFunc(slices.Clone(s.Wakes), same) })
	}
}

// parked returns the first rows that a wake has left.
func (t *Batch) parked(w UnfinishedWake, limit int) ([]*Row, error) {
	rows, err := t.selectRows(RowQuery{Kind: queue.Callback, Phases: []Phase{Parked},
		Wait: w.Wait, After: w.After, Upto: w.Upto}, limit+1)
	rows = slices.DeleteFunc(rows, func(r *Row) bool { return r.Seq == w.Cause })
	return rows[:min(limit, len(rows))], err
}

// wakeRows makes parked rows due.
func (t *Batch) wakeRows(rows []*Row) {
	for _, r := range rows {
		t.change(r)
		r.SetPhase(Ready)
		r.NextAt = 0
		t.count(RowCounter(r.Kind(), r.Source, queue.Parked), -1)
		t.count(RowCounter(r.Kind(), r.Source, queue.Pending), 1)
		t.ring(r.Lane)
		t.woken = append(t.woken, r.Seq)
	}
}

// holdUp lets the first one of each order key among parked rows hold up the later rows of its key.
func (t *Batch) holdUp(rows []*Row) {
	type line struct{ lane, key string }
	seen := map[line]bool{}
	for _, r := range rows {
		if at := (line{r.Lane, r.OrderKey}); !seen[at] {
			seen[at] = true
			t.enterLine(r)
		}
	}
}
