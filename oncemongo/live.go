package oncemongo

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once/queue"
)

// A node that keeps the turn knows every commit, since all are its own. So it may keep the rows
// that are not finished in memory, and ask the database for none of them: what is due, who waits,
// who is in line. It forgets them when another node had the turn.

const (
	// liveAfter is how many batches in a row a node has the turn until it reads what is not
	// finished: nodes that take turns would read it again and again.
	liveAfter = 3
	// maxLive and maxLiveBytes bound the rows of a kind that are kept, and their length: with more
	// the database is asked.
	maxLive      = 5000
	maxLiveBytes = 64 << 20
)

// live are the unfinished rows of a kind as of the last commit; nil: they are not known.
type live struct {
	rows map[int64]liveRow
	size int
	// tooMany is true once there were more than are kept, until the turn was lost.
	tooMany bool
}

// liveRow is a row as it is stored. Neither is ever changed.
type liveRow struct {
	raw bson.Raw
	row *row
}

func (l *live) put(seq int64, r liveRow) {
	l.drop(seq)
	l.rows[seq] = r
	l.size += len(r.raw)
}

func (l *live) drop(seq int64) {
	if old, ok := l.rows[seq]; ok {
		l.size -= len(old.raw)
		delete(l.rows, seq)
	}
}

// forgetLive is called when another node may have committed.
func (s *Store) forgetLive() { s.live, s.batches = map[queue.Kind]*live{}, 0 }

// alive returns the unfinished rows of a kind; nil: the database has to be asked.
func (t *txn) alive(k queue.Kind) (*live, error) {
	s := t.s
	if s.cfg.noLive || s.batches < liveAfter {
		return nil, nil
	}
	if l := s.live[k]; l != nil {
		if l.tooMany {
			return nil, nil
		}
		return l, nil
	}
	l := &live{rows: map[int64]liveRow{}}
	found, err := t.find(rowsOf(k), bson.D{{Key: "phase", Value: bson.D{{Key: "$in",
		Value: unfinished}}}}, nil, maxLive+1)
	if err != nil {
		return nil, err
	}
	for _, raw := range found {
		r := new(row)
		if err := bson.Unmarshal(raw, r); err != nil {
			return nil, fmt.Errorf("read %s: %w: %w", rowsOf(k), errDamaged, err)
		}
		l.put(r.Seq, liveRow{raw, r})
	}
	l.check()
	s.live[k] = l
	if l.tooMany {
		return nil, nil
	}
	return l, nil
}

// check gives the rows up if they are too many.
func (l *live) check() {
	if len(l.rows) > maxLive || l.size > maxLiveBytes {
		l.rows, l.size, l.tooMany = nil, 0, true
	}
}

// isUnfinished reports whether a phase is one of those that are kept.
func (p phase) isUnfinished() bool {
	for _, u := range unfinished {
		if p == u {
			return true
		}
	}
	return false
}

// ofUnfinished reports whether a query selects unfinished rows alone.
func (q *rowQuery) ofUnfinished() bool {
	if q.InLine || q.Wait != "" || q.NextBy != 0 || q.LeaseBy != 0 || q.Node != "" {
		return true // no other row has one
	}
	for _, p := range q.Phases {
		if !p.isUnfinished() {
			return false
		}
	}
	return len(q.Phases) > 0
}

// keepLive makes the live rows those of the batch, which is committed as commit n.
func (t *txn) keepLive(n int64) {
	for k, l := range t.s.live {
		if l.tooMany {
			continue
		}
		s := t.rows.of(k)
		for _, seq := range s.dirty {
			r := s.cells[seq].now
			if r == nil || !r.Phase.isUnfinished() {
				l.drop(seq)
				continue
			}
			kept := *r
			kept.V, kept.tried = n, false
			raw, err := bson.Marshal(&kept)
			if err != nil { // it was written just so
				t.s.forgetLive()
				return
			}
			l.put(seq, liveRow{raw, &kept})
		}
		l.check()
	}
}

// keepLive takes a row in that is kept in memory, unless the batch has it already.
func (s rowsShelf) keepLive(seq int64, r liveRow) *row {
	if c := s.cells[seq]; c != nil {
		return c.now
	}
	now := *r.row
	s.cells[seq] = &cell[row]{old: r.raw, now: &now}
	return &now
}

// isLive reports whether a row is kept in memory.
func (s *Store) isLive(seq int64) bool {
	l := s.live[kindOf(seq)]
	if l == nil {
		return false
	}
	_, ok := l.rows[seq]
	return ok
}
