package turn

import (
	"cmp"
	"slices"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// rowBytes is about what a changed row takes, beside its payload.
const rowBytes = 600

// row returns a row by its number; once.ErrNotFound if there is none.
func (t *Batch) row(seq int64) (*Row, error) {
	r, err := t.Rows.get(seq)
	if err == nil && r == nil {
		err = once.ErrNotFound
	}
	return r, err
}

// change notes that a row is about to be changed in place.
func (t *Batch) change(r *Row) {
	t.Rows.change(r.Seq)
	t.size += rowBytes
}

// Order is a field by which rows are sorted.
type Order int

// The orders of rows.
const (
	BySeq Order = iota
	ByNext
	ByLease
	BySweepAt
)

// RowQuery selects rows by everything that is set.
type RowQuery struct {
	// Kind: 0 is either.
	Kind     queue.Kind
	Lane     string
	Phases   []Phase
	Keyed    bool // OrderKey is compared
	OrderKey string
	InLine   bool
	Wait     string
	Flow     string
	NoFlow   bool // Flow is empty
	Tasked   bool // Task is compared, also if it is empty
	Task     string
	Node     string
	Source   string
	Event    string
	After    int64 // Seq is above it
	Upto     int64 // Seq is not above it; 0: no bound
	NextBy   Stamp // NextAt is set and not later
	LeaseBy  Stamp // LeaseUntil is set and earlier
	SweepBy  Stamp // SweepAt is set and not later
	By       Order
}

// Match says of a row what the query says to the database.
func (q *RowQuery) Match(r *Row) bool {
	return (q.Kind == 0 || r.Kind() == q.Kind) &&
		(q.Lane == "" || r.Lane == q.Lane) &&
		(len(q.Phases) == 0 || slices.Contains(q.Phases, r.Phase)) &&
		(!q.Keyed || r.OrderKey == q.OrderKey) &&
		(!q.InLine || r.InLine) &&
		(q.Wait == "" || slices.Contains(r.Waits, q.Wait)) &&
		(q.Flow == "" || r.Flow == q.Flow) && (!q.NoFlow || r.Flow == "") &&
		(!q.Tasked || r.Task == q.Task) &&
		(q.Node == "" || r.Node == q.Node) &&
		(q.Source == "" || r.Source == q.Source) &&
		(q.Event == "" || r.Event == q.Event) &&
		r.Seq > q.After && (q.Upto == 0 || r.Seq <= q.Upto) &&
		(q.NextBy == 0 || r.NextAt != 0 && r.NextAt <= q.NextBy) &&
		(q.LeaseBy == 0 || r.LeaseUntil != 0 && r.LeaseUntil < q.LeaseBy) &&
		(q.SweepBy == 0 || r.SweepAt != 0 && r.SweepAt <= q.SweepBy)
}

// by returns what a row is sorted by.
func (q *RowQuery) by(r *Row) int64 {
	switch q.By {
	case ByNext:
		return int64(r.NextAt)
	case ByLease:
		return int64(r.LeaseUntil)
	case BySweepAt:
		return int64(r.SweepAt)
	}
	return r.Seq
}

// selectRows returns the first rows of a query as the batch has them.
func (t *Batch) selectRows(q RowQuery, limit int) ([]*Row, error) {
	stored, err := t.stored.Rows(&q, limit+t.changedOf(&q))
	if err != nil {
		return nil, err
	}
	out := t.Rows.merge(stored, q.Match)
	slices.SortFunc(out, func(a, b *Row) int {
		return cmp.Or(cmp.Compare(q.by(a), q.by(b)), cmp.Compare(a.Seq, b.Seq))
	})
	return out[:min(limit, len(out))], nil
}

// changedOf returns how many rows the batch has changed that the database finds as they were: so
// many of those that it returns may not count.
func (t *Batch) changedOf(q *RowQuery) int {
	n := 0
	for _, seq := range t.Rows.dirty {
		if old := t.Rows.cells[seq].old; old != nil && q.Match(old) {
			n++
		}
	}
	return n
}

// changed returns the rows that the batch has changed and that a query selects.
func (t *Batch) changed(q *RowQuery) []*Row {
	var out []*Row
	for _, seq := range t.Rows.dirty {
		if r := t.Rows.cells[seq].now; r != nil && q.Match(r) {
			out = append(out, r)
		}
	}
	return out
}

// selectOne returns the first row of a query; nil: there is none.
func (t *Batch) selectOne(q RowQuery) (*Row, error) {
	rows, err := t.selectRows(q, 1)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return rows[0], nil
}

// identityKey names a row by what it is unique by.
type identityKey struct {
	kind queue.Kind
	id   once.Identity
}

// prefetch reads the rows that have one of the identities, so that each need not be asked for.
func (t *Batch) prefetch(k queue.Kind, ids []once.Identity) error {
	var ask []once.Identity
	for _, id := range ids {
		key := identityKey{k, id}
		if _, known := t.byIdentity[key]; !known {
			t.byIdentity[key] = nil
			ask = append(ask, id)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	found, err := t.stored.RowsByIdentity(k, ask)
	if err != nil {
		return err
	}
	for _, r := range found {
		if r = t.Rows.keep(r); r != nil {
			t.byIdentity[identityKey{k, r.Identity}] = r
		}
	}
	return nil
}

// findIdentity returns a row by its identity; nil: there is none.
func (t *Batch) findIdentity(k queue.Kind, id once.Identity) (*Row, error) {
	if err := t.prefetch(k, []once.Identity{id}); err != nil {
		return nil, err
	}
	return t.byIdentity[identityKey{k, id}], nil
}

// byPublicID returns a row by its kind and public id; once.ErrNotFound if there is none.
func (t *Batch) byPublicID(k queue.Kind, id [16]byte) (*Row, error) {
	for _, seq := range t.Rows.dirty {
		r := t.Rows.cells[seq].now
		if r != nil && r.Kind() == k && [16]byte(r.Identity[:16]) == id {
			return r, nil
		}
	}
	r, err := t.stored.RowByID(k, id)
	if err != nil {
		return nil, err
	}
	if r != nil {
		r = t.Rows.keep(r)
	}
	if r == nil {
		return nil, once.ErrNotFound
	}
	return r, nil
}
