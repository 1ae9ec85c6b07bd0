package oncesqlite

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/oncekit/once/queue"
)

// The search index is written behind the rows, in segments. A segment covers the rows between two
// numbers; it has one line for each term, sorted and written once, at the end of the table, so that
// writing costs the same with ten million rows as with none. Readers look at the rows after the
// last segment one by one: there are a few thousand of them, so the index lags behind nothing that
// a reader could see.
const (
	// segmentRows is how many rows a segment covers.
	segmentRows = 4096
	// listsPerCommit bounds the lines that one transaction writes, so that nobody waits long.
	listsPerCommit = 1024
	// indexEvery is how often the indexer looks for a full segment.
	indexEvery = 100 * time.Millisecond
)

// entry says that a row carries a term.
type entry struct {
	term term
	seq  int64
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

// indexSegment writes the next segment if enough rows wait for it. What a crash leaves of a segment
// is written over: until its end is recorded nobody reads it.
func (s *Store) indexSegment(ctx context.Context) (bool, error) {
	var entries []entry
	var segment, last int64
	full := false
	err := s.read(ctx, func(c *conn) (err error) {
		done, err := c.int("SELECT value FROM meta WHERE name = ?", metaIndexed)
		if err != nil {
			return err
		}
		newest, err := c.int("SELECT max(seq) FROM rows")
		if err != nil || newest-done < s.cfg.segmentRows {
			return err
		}
		full, last = true, done+s.cfg.segmentRows
		if segment, err = c.int("SELECT max(segment) + 1 FROM segments"); err != nil {
			return err
		}
		segment = max(segment, 1)
		entries, err = segmentEntries(c, done, last)
		return err
	})
	if err != nil || !full {
		return false, err
	}
	for part := range slices.Chunk(postingLists(entries), listsPerCommit) {
		err := s.do(ctx, &op{run: func(t *txn) error { return t.writeLists(segment, part) }})
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

// segmentEntries collects what a segment has to hold, sorted.
func segmentEntries(c *conn, done, last int64) ([]entry, error) {
	var entries []entry
	err := c.query("SELECT seq, source, event, task, key, kind FROM rows "+
		"WHERE seq > ? AND seq <= ?", func(r *stmt) error {
		var parts []string
		if err := texts(r.text(4), &parts); err != nil {
			return err
		}
		for _, v := range rowTerms(queue.Kind(r.int(5)), r.text(1), r.text(2), r.text(3), parts) {
			entries = append(entries, entry{v, r.int(0)})
		}
		return nil
	}, done, last)
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.term, b.term), cmp.Compare(a.seq, b.seq))
	})
	return entries, err
}

// postingList is one line of the index: the rows of a segment that carry a term.
type postingList struct {
	term term
	rows []byte // see appendRows
}

// postingLists makes the lines of sorted entries.
func postingLists(entries []entry) []postingList {
	var out []postingList
	seqs := make([]int64, 0, len(entries))
	for i, e := range entries {
		seqs = append(seqs, e.seq)
		if i == len(entries)-1 || entries[i+1].term != e.term {
			out = append(out, postingList{e.term, appendRows(nil, seqs)})
			seqs = seqs[:0]
		}
	}
	return out
}

// writeLists writes lines of a segment, over what may be there of them.
func (t *txn) writeLists(segment int64, lists []postingList) error {
	q, err := t.c.prepare("INSERT OR REPLACE INTO terms VALUES (?, ?, ?)")
	if err != nil {
		return err
	}
	for _, l := range lists {
		q.bindInt(1, segment)
		q.bindInt(2, int64(l.term))
		q.bindBlob(3, l.rows)
		if err := q.run(); err != nil {
			return err
		}
	}
	return nil
}

// addEntries adds rows to lines of a segment that is written already.
func (t *txn) addEntries(segment int64, entries []entry) error {
	for _, e := range entries {
		var seqs []int64
		_, err := t.c.one("SELECT rows FROM terms WHERE segment = ? AND term = ?", func(r *stmt) {
			seqs = readRows(r.raw.ColumnRawBlob(0))
		}, segment, int64(e.term))
		if err != nil {
			return err
		}
		at, found := slices.BinarySearch(seqs, e.seq)
		if found {
			continue
		}
		list := postingList{e.term, appendRows(nil, slices.Insert(seqs, at, e.seq))}
		if err := t.writeLists(segment, []postingList{list}); err != nil {
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
	for _, v := range rowTerms(row.Kind, row.Source, row.Event, row.Task, row.Key) {
		entries = append(entries, entry{v, row.Seq})
	}
	if segment != 0 {
		return t.addEntries(segment, entries)
	}
	s := t.s
	t.after = append(t.after, func() { // its segment may be in the making
		if s.changed == nil {
			s.changed = map[int64][]entry{}
		}
		s.changed[row.Seq] = append(s.changed[row.Seq], entries...)
	})
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
