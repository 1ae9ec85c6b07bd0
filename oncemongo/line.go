package oncemongo

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once/queue"
)

// An order key is held up by a row that waits for another try, or that is dead and blocks. Such a
// row is marked in_line, and so is each later row of the key that was found due. A row may be
// worked if nobody has its key in hand and no earlier row of the key is in line. Rows that were not
// looked at yet are later than every row in line, so nothing is overtaken.

// isBehind reports whether an earlier row holds up the row's key.
func (t *txn) isBehind(r *row) (bool, error) {
	if r.OrderKey == "" {
		return false, nil
	}
	if t.lane(r.Lane).Working > 0 {
		if held, err := t.isHeld(r); held || err != nil {
			return held, err
		}
	}
	if t.lane(r.Lane).InLine == 0 {
		return false, nil
	}
	first, err := t.firstInLine(r.Lane, r.OrderKey)
	return first != nil && first.Seq < r.Seq, err
}

// isHeld reports whether somebody has another row of the row's key in hand.
func (t *txn) isHeld(r *row) (bool, error) {
	l, err := t.line(lineKey{r.Lane, r.OrderKey})
	if err != nil {
		return false, err
	}
	q := rowQuery{Lane: r.Lane, Phases: []phase{phaseWorking}, Keyed: true, OrderKey: r.OrderKey}
	for _, k := range t.kindsIn(r.Lane) {
		if s := t.rows.of(k); l.holder != 0 && kindOf(l.holder) == k && l.holder != r.Seq &&
			!s.touched(l.holder) {
			return true, nil
		}
		for _, other := range t.changed(k, &q) {
			if other != r {
				return true, nil
			}
		}
	}
	return false, nil
}

// firstInLine returns the first row that stands in a line; nil: there is none.
func (t *txn) firstInLine(lane, key string) (*row, error) {
	l, err := t.line(lineKey{lane, key})
	if err != nil {
		return nil, err
	}
	q := rowQuery{Keyed: true, OrderKey: key, InLine: true}
	if l.head != 0 && t.rows.of(kindOf(l.head)).touched(l.head) { // who is next?
		rows, err := t.selectIn(lane, q, 1)
		if err != nil || len(rows) == 0 {
			return nil, err
		}
		return rows[0], nil
	}
	q.Lane = lane
	var first *row
	if l.head != 0 {
		if first, err = t.row(l.head); err != nil {
			return nil, err
		}
	}
	for _, k := range t.kindsIn(lane) {
		for _, r := range t.changed(k, &q) {
			if first == nil || r.Seq < first.Seq {
				first = r
			}
		}
	}
	return first, nil
}

// lineKey names an order line.
type lineKey struct{ lane, key string }

// storedLine is what the database says of an order key, whatever the batch has changed: the row
// that somebody has in hand, and the first one in line; 0: none.
type storedLine struct{ holder, head int64 }

func (t *txn) line(k lineKey) (*storedLine, error) {
	if l := t.lines[k]; l != nil {
		return l, nil
	}
	err := t.readLines(k.lane, []string{k.key})
	return t.lines[k], err
}

// prefetchLines reads what the database says of the order keys of rows of a lane, in one question.
func (t *txn) prefetchLines(lane string, rows []*row) error {
	var keys []string
	for _, r := range rows {
		if r.OrderKey != "" && t.lines[lineKey{lane, r.OrderKey}] == nil &&
			!slices.Contains(keys, r.OrderKey) {
			keys = append(keys, r.OrderKey)
		}
	}
	return t.readLines(lane, keys)
}

// maxHeads bounds the rows in line that one question looks at.
const maxHeads = 2000

func (t *txn) readLines(lane string, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	for _, key := range keys {
		t.lines[lineKey{lane, key}] = &storedLine{}
	}
	stored := t.s.turn.state.lane(lane) // as of the last commit
	for _, k := range t.kindsIn(lane) {
		if stored.Working > 0 {
			err := t.eachOfLine(k, rowQuery{Lane: lane, Phases: []phase{phaseWorking}}, keys,
				func(l *storedLine, seq int64) { l.holder = seq })
			if err != nil {
				return err
			}
		}
		if stored.InLine > 0 {
			err := t.eachOfLine(k, rowQuery{Lane: lane, InLine: true}, keys,
				func(l *storedLine, seq int64) {
					if l.head == 0 || seq < l.head {
						l.head = seq
					}
				})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// eachOfLine calls fn with the rows of a query that have one of the order keys, and what is known
// of that.
func (t *txn) eachOfLine(k queue.Kind, q rowQuery, keys []string,
	fn func(*storedLine, int64)) error {
	l, err := t.alive(k)
	if err != nil {
		return err
	}
	if l != nil {
		for seq, r := range l.rows {
			if line := t.lines[lineKey{q.Lane, r.row.OrderKey}]; line != nil && q.match(r.row) &&
				slices.Contains(keys, r.row.OrderKey) {
				fn(line, seq)
			}
		}
		return nil
	}
	filter := append(q.filter(), bson.E{Key: "order_key", Value: bson.D{{Key: "$in", Value: keys}}})
	found, err := t.s.find(t.ctx, rowsOf(k), filter, bson.D{{Key: "_id", Value: 1}}, maxHeads,
		bson.D{{Key: "lane", Value: 1}, {Key: "order_key", Value: 1}})
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, raw := range found {
		seq, ok := raw.Lookup("_id").Int64OK()
		lane, _ := raw.Lookup("lane").StringValueOK()
		key, _ := raw.Lookup("order_key").StringValueOK()
		l := t.lines[lineKey{lane, key}]
		if !ok || l == nil {
			return errDamaged
		}
		seen[key] = true
		fn(l, seq)
	}
	if len(found) < maxHeads {
		return nil
	}
	for key := range t.lines { // those behind the bound are asked for when they are needed
		if !seen[key.key] {
			delete(t.lines, key)
		}
	}
	return nil
}

// joinLine takes a due row out of what is due until those before it are through.
func (t *txn) joinLine(r *row) {
	t.change(r)
	r.setPhase(phaseInLine)
	t.enterLine(r)
}

// enterLine gives a row a place in its line; it may have one already.
func (t *txn) enterLine(r *row) {
	if r.OrderKey == "" || r.InLine {
		return
	}
	t.change(r)
	r.InLine = true
	t.setLane(r.Lane, func(l *laneState) { l.InLine++ })
}

// leaveLine takes a row out of its line and makes the next one due.
func (t *txn) leaveLine(r *row) error {
	if r.OrderKey == "" || t.lane(r.Lane).InLine == 0 {
		return nil
	}
	if r.InLine {
		t.change(r)
		r.InLine = false
		t.setLane(r.Lane, func(l *laneState) { l.InLine-- })
	}
	return t.passLine(r)
}

// stayInLine keeps a row's place in its line while nobody works it.
func (t *txn) stayInLine(r *row) error {
	t.enterLine(r)
	return t.passLine(r)
}

// passLine makes the first one in line due when the row is in nobody's hands any more. That may be
// an earlier row, which was made due again while this one was worked.
func (t *txn) passLine(r *row) error {
	if r.OrderKey == "" || t.lane(r.Lane).InLine == 0 {
		return nil
	}
	next, err := t.firstInLine(r.Lane, r.OrderKey)
	if err != nil || next == nil {
		return err
	}
	if next.Phase == phaseInLine {
		t.change(next)
		next.setPhase(phaseReady)
	}
	t.ring(next.Lane)
	return nil
}

// placeInLine gives a row that becomes due again its phase: in line if an earlier row holds up its
// key.
func (t *txn) placeInLine(r *row) error {
	behind, err := t.isBehind(r)
	if err != nil {
		return err
	}
	t.change(r)
	if !behind {
		r.setPhase(phaseReady)
		return nil
	}
	r.setPhase(phaseInLine)
	t.enterLine(r)
	return nil
}
