package oncesqlite

// An order key is held up by a row that waits for another try, or that is dead and blocks. Such a
// row stands in the table lines, and so does each later row of the key that was found due. A row
// may be worked if nobody has its key in hand and no earlier row of the key is in line. Rows that
// were not looked at yet are later than every row in line, so nothing is overtaken.

// isBehind reports whether an earlier row holds up the row's key.
func (t *txn) isBehind(row *stored) (bool, error) {
	if row.OrderKey == "" {
		return false, nil
	}
	if holder, ok := t.s.busy[lineKey{row.lane, row.OrderKey}]; ok && holder != row.Seq {
		return true, nil
	}
	if t.s.inLine[row.lane] == 0 {
		return false, nil
	}
	first, err := t.firstInLine(row.lane, row.OrderKey)
	return first != 0 && first < row.Seq, err
}

func (t *txn) firstInLine(lane int64, key string) (int64, error) {
	return t.c.int("SELECT min(seq) FROM lines WHERE lane = ? AND order_key = ?", lane, key)
}

// joinLine takes a due row out of the index of what is due until those before it are through.
func (t *txn) joinLine(row *stored) error {
	if err := t.enterLine(row); err != nil {
		return err
	}
	return t.c.exec("UPDATE rows SET phase = 2, flags = ? WHERE seq = ?", row.flags, row.Seq)
}

// enterLine gives the row a place in its line; it may have one already.
func (t *txn) enterLine(row *stored) error {
	if row.OrderKey == "" || row.flags&flagInLine != 0 {
		return nil
	}
	err := t.c.exec("INSERT INTO lines VALUES (?, ?, ?)", row.lane, row.OrderKey, row.Seq)
	if err != nil {
		return err
	}
	row.flags |= flagInLine
	t.addInLine(row.lane, 1)
	return nil
}

// leaveLine takes the row out of its line and makes the next one due. The caller writes the flags.
func (t *txn) leaveLine(row *stored) error {
	if row.OrderKey == "" || t.s.inLine[row.lane] == 0 {
		return nil
	}
	if row.flags&flagInLine != 0 {
		err := t.c.exec("DELETE FROM lines WHERE lane = ? AND order_key = ? AND seq = ?",
			row.lane, row.OrderKey, row.Seq)
		if err != nil {
			return err
		}
		row.flags &^= flagInLine
		t.addInLine(row.lane, -1)
	}
	return t.passLine(row)
}

// stayInLine keeps the row's place in its line while nobody works it.
func (t *txn) stayInLine(row *stored) error {
	if err := t.enterLine(row); err != nil {
		return err
	}
	return t.passLine(row)
}

// passLine makes the first one in line due when the row is in nobody's hands any more. That may be
// an earlier row, which was made due again while this one was worked.
func (t *txn) passLine(row *stored) error {
	if row.OrderKey == "" || t.s.inLine[row.lane] == 0 {
		return nil
	}
	next, err := t.firstInLine(row.lane, row.OrderKey)
	if err != nil || next == 0 {
		return err
	}
	if err := t.c.exec("UPDATE rows SET phase = 0 WHERE seq = ? AND phase = 2", next); err != nil {
		return err
	}
	t.ring(row.lane)
	return nil
}

func (t *txn) addInLine(lane int64, n int) {
	t.s.inLine[lane] += n
	t.onUndo(func() { t.s.inLine[lane] -= n })
}

// placeInLine returns the phase of a row that becomes due again: in line if an earlier row holds up
// its key.
func (t *txn) placeInLine(row *stored) (phase, error) {
	behind, err := t.isBehind(row)
	if err != nil || !behind {
		return phaseReady, err
	}
	return phaseInLine, t.enterLine(row)
}
