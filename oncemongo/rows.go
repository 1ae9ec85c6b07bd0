package oncemongo

import (
	"cmp"
	"encoding/hex"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// rowShelf holds the rows that a batch has read or changed.
type rowShelf struct {
	callbacks, effects *shelf[int64, row]
	// byIdentity has those that were asked for by it; nil: there is none.
	byIdentity map[string]*row
}

func newRowShelf(t *txn) *rowShelf {
	return &rowShelf{callbacks: newShelf[int64, row](t, callbacks),
		effects: newShelf[int64, row](t, effects), byIdentity: map[string]*row{}}
}

func (s *rowShelf) of(k queue.Kind) *shelf[int64, row] {
	if k == queue.Effect {
		return s.effects
	}
	return s.callbacks
}

// row returns a row by its number; once.ErrNotFound if there is none.
func (t *txn) row(seq int64) (*row, error) {
	if l := t.s.live[kindOf(seq)]; l != nil {
		if kept, ok := l.rows[seq]; ok {
			if r := (rowsShelf{t.rows.of(kindOf(seq))}).keepLive(seq, kept); r != nil {
				return r, nil
			}
			return nil, once.ErrNotFound
		}
	}
	r, err := t.rows.of(kindOf(seq)).get(seq)
	if err == nil && r == nil {
		err = once.ErrNotFound
	}
	return r, err
}

// change notes that a row is about to be changed in place.
func (t *txn) change(r *row) {
	t.rows.of(r.kind()).change(r.Seq)
	t.size += rowBytes
}

// rowBytes is about what a changed row takes in the journal, beside its payload.
const rowBytes = 600

// rowQuery selects rows, of one kind, by everything that is set.
type rowQuery struct {
	Kind     queue.Kind
	Lane     string
	Phases   []phase
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
	NextBy   stamp // NextAt is set and not later
	LeaseBy  stamp // LeaseUntil is set and earlier
	SweepBy  stamp // SweepAt is set and not later
	// By is the field by which they are sorted: "_id", "next_at", "lease_until" or "sweep_at".
	By string
}

// filter is the query for the server.
func (q *rowQuery) filter() bson.D {
	f := bson.D{}
	eq := func(name, v string) {
		if v != "" {
			f = append(f, bson.E{Key: name, Value: v})
		}
	}
	eq("lane", q.Lane)
	switch len(q.Phases) {
	case 0:
	case 1:
		eq("phase", string(q.Phases[0]))
	default:
		f = append(f, bson.E{Key: "phase", Value: bson.D{{Key: "$in", Value: q.Phases}}})
	}
	if q.Keyed {
		eq("order_key", q.OrderKey)
	}
	if q.InLine {
		f = append(f, bson.E{Key: "in_line", Value: true})
	}
	eq("waits", q.Wait)
	eq("flow", q.Flow)
	if q.NoFlow {
		f = append(f, bson.E{Key: "flow", Value: bson.D{{Key: "$exists", Value: false}}})
	}
	if q.Tasked {
		eq("task", q.Task)
	}
	eq("node", q.Node)
	eq("source", q.Source)
	eq("event", q.Event)
	if b := q.bounds(); len(b) > 0 {
		f = append(f, bson.E{Key: "_id", Value: b})
	}
	upTo := func(name, op string, at stamp) {
		if at != 0 {
			f = append(f, bson.E{Key: name, Value: bson.D{{Key: "$gt", Value: bson.DateTime(0)},
				{Key: op, Value: bson.DateTime(at)}}})
		}
	}
	upTo("next_at", "$lte", q.NextBy)
	upTo("lease_until", "$lt", q.LeaseBy)
	upTo("sweep_at", "$lte", q.SweepBy)
	return f
}

func (q *rowQuery) bounds() (b bson.D) {
	if q.After > 0 {
		b = append(b, bson.E{Key: "$gt", Value: q.After})
	}
	if q.Upto > 0 {
		b = append(b, bson.E{Key: "$lte", Value: q.Upto})
	}
	return b
}

// match says of a row what filter says to the server.
func (q *rowQuery) match(r *row) bool {
	return (q.Lane == "" || r.Lane == q.Lane) &&
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
func (q *rowQuery) by(r *row) int64 {
	switch q.By {
	case "next_at":
		return int64(r.NextAt)
	case "lease_until":
		return int64(r.LeaseUntil)
	case "sweep_at":
		return int64(r.SweepAt)
	}
	return r.Seq
}

func (q *rowQuery) order() string {
	if q.By == "" {
		return "_id"
	}
	return q.By
}

// selectRows returns the first rows of a query as the batch has them: those of the server that the
// batch did not change, and those that it did.
func (t *txn) selectRows(q rowQuery, limit int) ([]*row, error) {
	s := rowsShelf{t.rows.of(q.Kind)}
	if q.ofUnfinished() {
		l, err := t.alive(q.Kind)
		if err != nil {
			return nil, err
		}
		if l != nil {
			return t.selectLive(l, q, limit), nil
		}
	}
	stored, err := t.find(s.name, q.filter(), bson.D{{Key: q.order(), Value: 1}},
		limit+s.changedIn(q.After, q.Upto))
	if err != nil {
		return nil, err
	}
	var out []*row
	for _, raw := range stored {
		seq, ok := raw.Lookup("_id").Int64OK()
		if !ok {
			return nil, errDamaged
		}
		if c := s.cells[seq]; c != nil && c.touched {
			continue
		}
		r, err := s.keep(seq, raw)
		if err != nil {
			return nil, err
		}
		if q.match(r) {
			out = append(out, r)
		}
	}
	return q.first(append(out, t.changed(q.Kind, &q)...), limit), nil
}

// first sorts rows and returns the first ones.
func (q *rowQuery) first(rows []*row, limit int) []*row {
	slices.SortFunc(rows, func(a, b *row) int {
		return cmp.Or(cmp.Compare(q.by(a), q.by(b)), cmp.Compare(a.Seq, b.Seq))
	})
	return rows[:min(limit, len(rows))]
}

// selectLive returns the first rows of a query among those that are kept in memory.
func (t *txn) selectLive(l *live, q rowQuery, limit int) []*row {
	s := rowsShelf{t.rows.of(q.Kind)}
	var out []*row
	for seq, r := range l.rows {
		if !s.touched(seq) && q.match(r.row) {
			out = append(out, r.row)
		}
	}
	out = q.first(append(out, t.changed(q.Kind, &q)...), limit)
	for i, r := range out {
		if kept, ok := l.rows[r.Seq]; ok && kept.row == r {
			out[i] = s.keepLive(r.Seq, kept)
		}
	}
	return out
}

// rowsShelf counts what was changed of it.
type rowsShelf struct{ *shelf[int64, row] }

// changedIn returns how many rows the batch has changed between two numbers: so many of those that
// the server finds may not count.
func (s rowsShelf) changedIn(after, upto int64) int {
	n := 0
	for _, seq := range s.dirty {
		if seq > after && (upto == 0 || seq <= upto) {
			n++
		}
	}
	return n
}

// changed returns the rows that the batch has changed and that a query selects.
func (t *txn) changed(k queue.Kind, q *rowQuery) []*row {
	s := t.rows.of(k)
	var out []*row
	for _, seq := range s.dirty {
		if r := s.cells[seq].now; r != nil && q.match(r) {
			out = append(out, r)
		}
	}
	return out
}

// selectOne returns the first row of a query; nil: there is none.
func (t *txn) selectOne(q rowQuery) (*row, error) {
	rows, err := t.selectRows(q, 1)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return rows[0], nil
}

// kindsIn returns the kinds of rows that a lane may hold.
func (t *txn) kindsIn(lane string) []queue.Kind {
	var out []queue.Kind
	for _, k := range []queue.Kind{queue.Callback, queue.Effect} {
		if t.lane(lane).Kinds&int64(k) != 0 {
			out = append(out, k)
		}
	}
	return out
}

// selectIn returns the first rows of a lane, of whatever kind.
func (t *txn) selectIn(lane string, q rowQuery, limit int) ([]*row, error) {
	var out []*row
	kinds := t.kindsIn(lane)
	for _, k := range kinds {
		q.Lane, q.Kind = lane, k
		rows, err := t.selectRows(q, limit)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	if len(kinds) > 1 {
		slices.SortFunc(out, func(a, b *row) int { return cmp.Compare(q.by(a), q.by(b)) })
	}
	return out[:min(limit, len(out))], nil
}

// prefetch reads the rows that have one of the identities, so that each need not be asked for.
func (t *txn) prefetch(k queue.Kind, ids []once.Identity) error {
	var ask []string
	for _, id := range ids {
		name := hex.EncodeToString(id[:])
		if _, known := t.rows.byIdentity[name]; !known && !slices.Contains(ask, name) {
			ask = append(ask, name)
		}
	}
	for part := range slices.Chunk(ask, prefetchPart) {
		for _, name := range part {
			t.rows.byIdentity[name] = nil
		}
		s := t.rows.of(k)
		filter := bson.D{{Key: "identity", Value: bson.D{{Key: "$in", Value: part}}}}
		found, err := t.find(s.name, filter, nil, 0)
		if err != nil {
			return err
		}
		for _, raw := range found {
			seq, ok := raw.Lookup("_id").Int64OK()
			if !ok {
				return errDamaged
			}
			r, err := s.keep(seq, raw)
			if err != nil {
				return err
			}
			if r != nil {
				t.rows.byIdentity[r.Identity] = r
			}
		}
	}
	return nil
}

// prefetchPart bounds the identities of one query.
const prefetchPart = 200

// byIdentity returns a row by its identity; nil: there is none.
func (t *txn) byIdentity(k queue.Kind, id once.Identity) (*row, error) {
	name := hex.EncodeToString(id[:])
	if _, known := t.rows.byIdentity[name]; !known {
		if err := t.prefetch(k, []once.Identity{id}); err != nil {
			return nil, err
		}
	}
	return t.rows.byIdentity[name], nil
}
