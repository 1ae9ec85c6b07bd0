package oncesqlite

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/oncekit/once/queue"
)

// The search index is written behind the rows, in segments. A segment covers the rows between two
// numbers; its terms are sorted and written once, in blocks at the end of the table, so that
// writing costs the same with ten million rows as with none. Readers look at the rows after the
// last segment one by one: there are some thousands of them, so the index lags behind nothing that
// a reader could see.
const (
	// segmentRows is how many rows a segment covers.
	segmentRows = 8192
	// blocksPerCommit bounds the blocks that one transaction writes, so that nobody waits long.
	blocksPerCommit = 64
	// maxNewRows bounds the rows whose terms are remembered until they are in a segment.
	maxNewRows = 2 * segmentRows
	// indexEvery is how often the indexer looks for a full segment.
	indexEvery = 100 * time.Millisecond
)

// entry says that a row carries a term.
type entry struct {
	term term
	seq  int64
}

// newTerms are the terms of rows that are in no segment yet, as they were inserted. They belong to
// the goroutine that writes.
type newTerms struct {
	from    int64 // the terms of every row from here on are known; 0: of none
	rows    int
	entries []entry
	terms   []term // reused
}

// add remembers a row that is the next one.
func (n *newTerms) add(seq int64, a *queue.Arrival) {
	if n.rows >= maxNewRows { // nobody takes them: they are read when somebody does
		*n = newTerms{}
	}
	if n.from == 0 {
		n.from = seq
	}
	n.rows++
	n.terms = appendTerms(n.terms[:0], a.Kind, a.Source, a.Event, a.Task, a.Key)
	for _, v := range n.terms {
		n.entries = append(n.entries, entry{v, seq})
	}
}

// undo forgets the last row.
func (n *newTerms) undo(seq int64) {
	for len(n.entries) > 0 && n.entries[len(n.entries)-1].seq == seq {
		n.entries = n.entries[:len(n.entries)-1]
	}
	n.rows = max(n.rows-1, 0)
	if seq <= n.from {
		*n = newTerms{}
	}
}

// take returns the entries of the rows after done up to last, and false if they are not known.
func (n *newTerms) take(done, last int64) ([]entry, bool) {
	if n.from == 0 || n.from > done+1 {
		return nil, false
	}
	end, _ := slices.BinarySearchFunc(n.entries, last+1, func(e entry, seq int64) int {
		return cmp.Compare(e.seq, seq)
	})
	out := slices.Clone(n.entries[:end])
	out = slices.DeleteFunc(out, func(e entry) bool { return e.seq <= done })
	n.entries = append(n.entries[:0], n.entries[end:]...)
	n.rows = max(n.rows-int(last-n.from+1), 0)
	n.from = last + 1
	return out, true
}

// indexRows is the goroutine that writes segments.
func (s *Store) indexRows() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tick := time.NewTicker(indexEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.quit:
			return
		case <-tick.C:
		}
		for full := true; full; {
			var err error
			if full, err = s.indexSegment(ctx); err != nil && !s.closing() {
				s.cfg.Logger.Error("write the search index", "error", err)
				break
			}
		}
	}
}

func (s *Store) closing() bool {
	select {
	case <-s.quit:
		return true
	default:
		return false
	}
}

// indexSegment writes the next segment if enough rows wait for it. What a crash has left of a
// segment is removed: until its end is recorded nobody reads it.
func (s *Store) indexSegment(ctx context.Context) (bool, error) {
	var segment, done, newest int64
	err := s.read(ctx, func(c *conn) (err error) {
		if done, err = c.int("SELECT value FROM meta WHERE name = ?", metaIndexed); err != nil {
			return err
		}
		if newest, err = c.int("SELECT max(seq) FROM rows"); err != nil {
			return err
		}
		segment, err = c.int("SELECT max(segment) + 1 FROM segments")
		return err
	})
	if err != nil || newest-done < s.cfg.segmentRows {
		return false, err
	}
	segment = max(segment, 1)
	last := done + s.cfg.segmentRows
	entries, err := s.segmentEntries(ctx, done, last)
	if err != nil {
		return false, err
	}
	err = s.do(ctx, &op{run: func(t *txn) error {
		return t.c.exec("DELETE FROM terms WHERE segment = ?", segment)
	}})
	if err != nil {
		return false, err
	}
	for part := range slices.Chunk(blocksOf(postingsOf(entries)), blocksPerCommit) {
		err := s.do(ctx, &op{run: func(t *txn) error { return t.writeBlocks(segment, part) }})
		if err != nil {
			return false, err
		}
	}
	return true, s.do(ctx, &op{run: func(t *txn) error {
		if err := t.c.exec("INSERT INTO segments VALUES (?, ?)", segment, last); err != nil {
			return err
		}
		if err := t.indexChanged(segment, last); err != nil {
			return err
		}
		return t.setMeta(metaIndexed, last)
	}})
}

// segmentEntries returns what a segment has to hold, sorted: as it was inserted, or read again.
func (s *Store) segmentEntries(ctx context.Context, done, last int64) ([]entry, error) {
	var entries []entry
	known := false
	err := s.do(ctx, &op{alone: true, run: func(t *txn) error {
		entries, known = t.s.newTerms.take(done, last)
		return nil
	}})
	if err == nil && !known {
		err = s.read(ctx, func(c *conn) (err error) {
			entries, err = readEntries(c, done, last)
			return err
		})
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.term, b.term), cmp.Compare(a.seq, b.seq))
	})
	return entries, err
}

// readEntries reads the terms of rows.
func readEntries(c *conn, done, last int64) ([]entry, error) {
	var entries []entry
	var terms []term
	err := c.query("SELECT seq, source, event, task, key, kind FROM rows "+
		"WHERE seq > ? AND seq <= ?", func(r *stmt) error {
		var parts []string
		if err := texts(r.text(4), &parts); err != nil {
			return err
		}
		terms = appendTerms(terms[:0], queue.Kind(r.int(5)), r.text(1), r.text(2), r.text(3),
			parts)
		for _, v := range terms {
			entries = append(entries, entry{v, r.int(0)})
		}
		return nil
	}, done, last)
	return entries, err
}

// writeBlocks writes blocks of a segment, over what may be there of them.
func (t *txn) writeBlocks(segment int64, blocks []block) error {
	q, err := t.c.prepare("INSERT OR REPLACE INTO terms VALUES (?, ?, ?)")
	if err != nil {
		return err
	}
	for _, b := range blocks {
		q.bindInt(1, segment)
		q.bindInt(2, int64(b.first))
		q.bindBlob(3, b.bytes)
		if err := q.run(); err != nil {
			return err
		}
	}
	return nil
}

// addEntries adds rows to a segment that is written already.
func (t *txn) addEntries(segment int64, entries []entry) error {
	for _, e := range entries {
		first, list := e.term, []posting(nil)
		_, err := t.c.one("SELECT term, block FROM terms WHERE segment = ? AND term <= ? "+
			"ORDER BY term DESC LIMIT 1", func(r *stmt) {
			first = term(r.int(0))
			decodeBlock(first, r.blob(1), func(p posting) bool {
				list = append(list, p)
				return true
			})
		}, segment, int64(e.term))
		if err != nil {
			return err
		}
		b := block{first, encodeBlock(addPosting(list, e))}
		if err := t.writeBlocks(segment, []block{b}); err != nil {
			return err
		}
	}
	return nil
}

// indexAgain adds what a row can be found by since it was changed. A row that is in no segment yet
// is found without.
func (t *txn) indexAgain(row *stored) error {
	segment, err := t.c.int("SELECT segment FROM segments WHERE last >= ? ORDER BY segment LIMIT 1",
		row.Seq)
	if err != nil {
		return err
	}
	var entries []entry
	for _, v := range appendTerms(nil, row.Kind, row.Source, row.Event, row.Task, row.Key) {
		entries = append(entries, entry{v, row.Seq})
	}
	if segment != 0 {
		return t.addEntries(segment, entries)
	}
	s, before := t.s, t.s.changed[row.Seq]
	if s.changed == nil {
		s.changed = map[int64][]entry{}
	}
	s.changed[row.Seq] = append(slices.Clip(before), entries...) // its segment may be in the making
	t.onUndo(func() { s.changed[row.Seq] = before })
	return nil
}

// indexChanged adds to a segment what was changed of its rows since it was begun.
func (t *txn) indexChanged(segment, last int64) error {
	s := t.s
	for seq, entries := range s.changed {
		if seq > last {
			continue
		}
		if err := t.addEntries(segment, entries); err != nil {
			return err
		}
		t.after = append(t.after, func() { delete(s.changed, seq) })
	}
	return nil
}

// sweepTerms removes a part of the oldest segment once none of its rows is left.
func (t *txn) sweepTerms(limit int) (int, error) {
	if limit < 1 {
		return 0, nil
	}
	oldest, last := int64(0), int64(0)
	found, err := t.c.one("SELECT segment, last FROM segments ORDER BY segment LIMIT 1",
		func(r *stmt) { oldest, last = r.int(0), r.int(1) })
	if err != nil || !found {
		return 0, err
	}
	first, err := t.c.int("SELECT min(seq) FROM rows")
	if err != nil || first != 0 && last >= first {
		return 0, err
	}
	err = t.c.exec("DELETE FROM terms WHERE (segment, term) IN "+
		"(SELECT segment, term FROM terms WHERE segment = ? LIMIT ?)", oldest, limit)
	if err != nil {
		return 0, err
	}
	n := int(t.c.raw.Changes())
	if n < limit {
		err = t.c.exec("DELETE FROM segments WHERE segment = ?", oldest)
	}
	return n, err
}
