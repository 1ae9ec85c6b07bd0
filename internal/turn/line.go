package turn

// An order key is held up by a row that waits for another try, or that is dead and blocks. Such a
// row is marked in_line, and so is each later row of the key that was found due. A row may be
// worked if nobody has its key in hand and no earlier row of the key is in line. Rows that were not
// looked at yet are later than every row in line, so nothing is overtaken.

// isBehind reports whether an earlier row holds up the row's key.
func (t *Batch) isBehind(r *Row) (bool, error) {
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
func (t *Batch) isHeld(r *Row) (bool, error) {
	l, err := t.line(lineKey{r.Lane, r.OrderKey})
	if err != nil {
		return false, err
	}
	if l.Holder != 0 && l.Holder != r.Seq && !t.Rows.touched(l.Holder) {
		return true, nil
	}
	q := RowQuery{Lane: r.Lane, Phases: []Phase{Working}, Keyed: true, OrderKey: r.OrderKey}
	for _, other := range t.changed(&q) {
		if other != r {
			return true, nil
		}
	}
	return false, nil
}

// firstInLine returns the first row that stands in a line; nil: there is none.
func (t *Batch) firstInLine(lane, key string) (*Row, error) {
	l, err := t.line(lineKey{lane, key})
	if err != nil {
		return nil, err
	}
	q := RowQuery{Lane: lane, Keyed: true, OrderKey: key, InLine: true}
	if l.Head != 0 && t.Rows.touched(l.Head) { // who is next?
		return t.selectOne(q)
	}
	var first *Row
	if l.Head != 0 {
		if first, err = t.row(l.Head); err != nil {
			return nil, err
		}
	}
	for _, r := range t.changed(&q) {
		if first == nil || r.Seq < first.Seq {
			first = r
		}
	}
	return first, nil
}

// lineKey names an order line.
type lineKey struct{ lane, key string }

func (t *Batch) line(k lineKey) (*Line, error) {
	if l := t.lines[k]; l != nil {
		return l, nil
	}
	err := t.readLines(k.lane, []string{k.key})
	return t.lines[k], err
}

// prefetchLines reads what the database says of the order keys of rows of a lane, in one question.
func (t *Batch) prefetchLines(lane string, rows []*Row) error {
	var keys []string
	asked := map[string]bool{}
	for _, r := range rows {
		if r.OrderKey != "" && t.lines[lineKey{lane, r.OrderKey}] == nil && !asked[r.OrderKey] {
			asked[r.OrderKey] = true
			keys = append(keys, r.OrderKey)
		}
	}
	return t.readLines(lane, keys)
}

func (t *Batch) readLines(lane string, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	var found map[string]Line
	if stored := t.start.lane(lane); stored.Working > 0 || stored.InLine > 0 {
		var err error
		if found, err = t.stored.Lines(lane, keys); err != nil {
			return err
		}
	}
	for _, key := range keys {
		l := found[key]
		t.lines[lineKey{lane, key}] = &l
	}
	return nil
}

// joinLine takes a due row out of what is due until those before it are through.
func (t *Batch) joinLine(r *Row) {
	t.change(r)
	r.SetPhase(InLine)
	t.enterLine(r)
}

// enterLine gives a row a place in its line; it may have one already.
func (t *Batch) enterLine(r *Row) {
	if r.OrderKey == "" || r.InLine {
		return
	}
	t.change(r)
	r.InLine = true
	t.setLane(r.Lane, func(l *LaneState) { l.InLine++ })
}

// leaveLine takes a row out of its line and makes the next one due.
func (t *Batch) leaveLine(r *Row) error {
	if r.OrderKey == "" || t.lane(r.Lane).InLine == 0 {
		return nil
	}
	if r.InLine {
		t.change(r)
		r.InLine = false
		t.setLane(r.Lane, func(l *LaneState) { l.InLine-- })
	}
	return t.passLine(r)
}

// stayInLine keeps a row's place in its line while nobody works it.
func (t *Batch) stayInLine(r *Row) error {
	t.enterLine(r)
	return t.passLine(r)
}

// passLine makes the first one in line due when the row is in nobody's hands any more. That may be
// an earlier row, which was made due again while this one was worked.
func (t *Batch) passLine(r *Row) error {
	if r.OrderKey == "" || t.lane(r.Lane).InLine == 0 {
		return nil
	}
	next, err := t.firstInLine(r.Lane, r.OrderKey)
	if err != nil || next == nil {
		return err
	}
	if next.Phase == InLine {
		t.change(next)
		next.SetPhase(Ready)
	}
	t.ring(next.Lane)
	return nil
}

// placeInLine gives a row that becomes due again its phase: in line if an earlier row holds up its
// key.
func (t *Batch) placeInLine(r *Row) error {
	behind, err := t.isBehind(r)
	if err != nil {
		return err
	}
	t.change(r)
	if !behind {
		r.SetPhase(Ready)
		return nil
	}
	r.SetPhase(InLine)
	t.enterLine(r)
	return nil
}
