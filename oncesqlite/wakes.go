package oncesqlite

import (
	"math"

	"github.com/oncekit/once/queue"
)

// A wake of very many rows happens in parts, in the order of seq, so that nobody waits for all of
// them: the transaction that causes it wakes the first ones, the table wakes remembers the rest,
// and the next transactions go on. A row that is left counts as one that waits. Woken at once it
// would be due, and ahead of the later rows of its order key: so the first one of each key among
// those that come next stands in line, parked as it is, and later rows of the key come behind it.

const (
	// wakesPerCommit bounds the rows that one transaction wakes. It is no less than what a Step
	// works, so that a Step doesn't come past what was woken.
	wakesPerCommit = maxStep
	// wakesAtLeast is how many rows a wake may make due however many its transaction has woken
	// before. Most have fewer, and nothing to remember.
	wakesAtLeast = 32
	// wakesAhead bounds the rows behind a part whose keys are held up.
	wakesAhead = 64
)

// wake makes parked rows due. They keep their entries in waits until they are settled, so that
// nobody takes their turn.
func (t *txn) wake(w queue.Wake, cause *stored) error {
	if t.s.waiting == 0 {
		return nil
	}
	all := unfinished{wait: w.Wait, upto: math.MaxInt64}
	if cause != nil {
		all.cause = cause.Seq
	}
	if !w.First {
		return t.wakePart(all, max(wakesPerCommit-len(t.woken), wakesAtLeast))
	}
	rows, err := t.parked(all, 1)
	if err != nil {
		return err
	}
	return t.wakeRows(rows)
}

// unfinished is a wake of which rows may be left.
type unfinished struct {
	wait string
	// after is the last row that was woken, upto the last one that waited when it was caused.
	after, upto int64
	// cause is the row that is not woken; 0: there is none.
	cause int64
	// kept is true for one that the table wakes remembers.
	kept bool
}

// goOnWaking wakes a part of what is left of earlier wakes, each in turn.
func (t *txn) goOnWaking() error {
	for range wakesPerCommit {
		left := wakesPerCommit - len(t.woken)
		if left <= 0 {
			return nil
		}
		w := unfinished{kept: true}
		found, err := t.c.one("SELECT wait, after, upto, cause FROM wakes ORDER BY id LIMIT 1",
			func(r *stmt) {
				w.wait, w.after, w.upto, w.cause = r.text(0), r.int(1), r.int(2), r.int(3)
			})
		if err != nil || !found {
			return err
		}
		if err := t.wakePart(w, left); err != nil {
			return err
		}
	}
	return nil
}

// rememberWake replaces an earlier wake of the same wait: what that has left is left of this, too.
// It comes behind all others.
const rememberWake = `INSERT OR REPLACE INTO wakes (wait, after, upto, cause)
	VALUES (?1, ?2, min(?3, (SELECT max(seq) FROM waits WHERE wait = ?1)), ?4)`

// wakePart wakes up to limit rows of a wake and remembers whether more are left.
func (t *txn) wakePart(w unfinished, limit int) error {
	rows, err := t.parked(w, limit+wakesAhead)
	if err != nil {
		return err
	}
	part := rows[:min(limit, len(rows))]
	if err := t.wakeRows(part); err != nil {
		return err
	}
	if rest := rows[len(part):]; len(rest) > 0 {
		t.timers = true
		if err := t.holdUp(rest); err != nil {
			return err
		}
		return t.c.exec(rememberWake, w.wait, part[len(part)-1].Seq, w.upto, w.cause)
	}
	if !w.kept {
		return nil // an earlier one that is remembered finds nothing and goes
	}
	t.timers = true
	return t.c.exec("DELETE FROM wakes WHERE wait = ?", w.wait)
}

// parked returns the first rows that a wake has left, with what waking them needs.
func (t *txn) parked(w unfinished, limit int) ([]*stored, error) {
	var rows []*stored
	err := t.c.query("SELECT r.seq, r.lane, r.kind, r.source, r.order_key, r.flags "+
		"FROM waits AS w JOIN rows AS r ON r.seq = w.seq WHERE w.wait = ? AND w.seq > ? "+
		"AND w.seq <= ? AND w.seq <> ? AND r.phase = 4 ORDER BY w.seq LIMIT ?",
		func(r *stmt) error {
			rows = append(rows, &stored{lane: r.int(1), flags: r.int(5), Row: queue.Row{
				Seq: r.int(0), Kind: queue.Kind(r.int(2)), Source: r.text(3), OrderKey: r.text(4)}})
			return nil
		}, w.wait, w.after, w.upto, w.cause, limit)
	return rows, err
}

// wakeRows makes parked rows due.
func (t *txn) wakeRows(rows []*stored) error {
	for _, r := range rows {
		err := t.c.exec("UPDATE rows SET phase = 0, next_at = NULL WHERE seq = ?", r.Seq)
		if err != nil {
			return err
		}
		t.count(rowCounter(r.Kind, r.Source, queue.Parked), -1)
		t.count(rowCounter(r.Kind, r.Source, queue.Pending), 1)
		t.ring(r.lane)
		t.woken = append(t.woken, r.Seq)
	}
	return nil
}

// holdUp lets the first one of each order key among parked rows hold up the later rows of its key.
func (t *txn) holdUp(rows []*stored) error {
	seen := map[lineKey]bool{}
	for _, r := range rows {
		line := lineKey{r.lane, r.OrderKey}
		first := !seen[line]
		seen[line] = true
		if !first || r.OrderKey == "" || r.flags&flagInLine != 0 {
			continue
		}
		if err := t.enterLine(r); err != nil {
			return err
		}
		err := t.c.exec("UPDATE rows SET flags = ? WHERE seq = ?", r.flags, r.Seq)
		if err != nil {
			return err
		}
	}
	return nil
}
