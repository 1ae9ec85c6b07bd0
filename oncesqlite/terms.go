package oncesqlite

import (
	"cmp"
	"hash/fnv"
	"slices"

	"github.com/oncekit/once/queue"
)

// The search index is written in segments. A segment covers the rows between two numbers; its
// entries are sorted and written once, at the end of the table, so that writing costs the same with
// ten million rows as with none. The rows after the last segment are read one by one: there are at
// most a few thousand of them, so the index lags behind nothing.
const (
	// segmentRows is how many rows a segment covers.
	segmentRows = 4096
	// entriesPerCommit bounds the entries that one transaction writes.
	entriesPerCommit = 512
)

// term is the hash of something that rows can be found by. Finds are compared with the row itself.
type term int64

func hashTerm(what byte, text string) term {
	h := fnv.New64a()
	h.Write([]byte{what}) // a hash never fails to write
	h.Write([]byte(text))
	return term(h.Sum64())
}

func sourceTerm(k queue.Kind, source string) term { return hashTerm('0'+byte(k), source) }
func eventTerm(k queue.Kind, event string) term   { return hashTerm('a'+byte(k), event) }
func taskTerm(task string) term                   { return hashTerm('t', task) }
func keyTerm(part string) term                    { return hashTerm('k', part) }

// entry is one line of a segment.
type entry struct {
	term term
	seq  int64
}

// indexer writes the next segment. It belongs to the goroutine that writes.
type indexer struct {
	// done is the last row of the last segment.
	done int64
	// segment is the number of the next segment; last the row up to which it goes.
	segment, last int64
	// entries that are not written yet; nil: the next segment was not begun.
	entries []entry
	begun   bool
}

func (s *Store) loadIndex() error {
	done, err := s.metaInt(metaIndexed)
	if err != nil {
		return err
	}
	segment, err := s.w.int("SELECT max(segment) FROM segments")
	s.index = indexer{done: done, segment: segment + 1}
	return err
}

// behind reports whether there is a segment to write.
func (x *indexer) behind(nextSeq int64) bool {
	return x.begun || nextSeq-1-x.done >= segmentRows
}

// step writes a part of the next segment, in its own transaction's bounds. A part that is undone is
// written again.
func (x *indexer) step(t *txn) error {
	old := *x
	t.onUndo(func() { *x = old })
	if !x.begun {
		if err := x.begin(t); err != nil {
			return err
		}
	}
	n := min(len(x.entries), entriesPerCommit)
	for _, e := range x.entries[:n] {
		err := t.c.exec("INSERT INTO terms VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
			x.segment, int64(e.term), e.seq)
		if err != nil {
			return err
		}
	}
	x.entries = x.entries[n:]
	if len(x.entries) > 0 {
		return nil
	}
	if err := t.c.exec("INSERT INTO segments VALUES (?, ?)", x.segment, x.last); err != nil {
		return err
	}
	x.done, x.segment, x.begun, x.entries = x.last, x.segment+1, false, nil
	return t.setMeta(metaIndexed, x.done)
}

// begin collects what the next segment has to hold.
func (x *indexer) begin(t *txn) error {
	x.last = x.done + segmentRows
	entries := make([]entry, 0, 4*segmentRows)
	err := t.c.query("SELECT seq, kind, source, event, task, key FROM rows "+
		"WHERE seq > ? AND seq <= ?", func(r *stmt) error {
		var parts []string
		if err := texts(r.text(5), &parts); err != nil {
			return err
		}
		k := queue.Kind(r.int(1))
		for _, v := range rowTerms(k, r.text(2), r.text(3), r.text(4), parts) {
			entries = append(entries, entry{v, r.int(0)})
		}
		return nil
	}, x.done, x.last)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.term, b.term), cmp.Compare(a.seq, b.seq))
	})
	x.entries, x.begun = entries, true
	return nil
}

// rowTerms returns what a row can be found by.
func rowTerms(k queue.Kind, source, event, task string, parts []string) []term {
	out := []term{sourceTerm(k, source), eventTerm(k, event)}
	if task != "" {
		out = append(out, taskTerm(task))
	}
	for _, p := range parts {
		out = append(out, keyTerm(p))
	}
	return out
}

// findTerm calls found with the rows that may carry a term, latest first, until it returns false.
func (s *Store) findTerm(c *conn, v term, found func(seq int64) (bool, error)) error {
	it, err := newPostings(c, v, 1<<62)
	if err != nil {
		return err
	}
	for it.next() {
		more, err := found(it.seq)
		if err != nil || !more {
			return err
		}
	}
	return it.err
}

// postings walks the rows that may carry a term, latest first: the rows after the last segment one by
// one, then the segments.
type postings struct {
	c    *conn
	term term
	// before: only rows with a smaller seq.
	before int64
	// indexed is the last row of the last segment; segment the one that is read.
	indexed, segment, oldest int64
	page                     []int64
	seq                      int64
	// probes counts the segments that were looked into.
	probes int
	err    error
}

// postingsPage is how many entries of a segment are read at once.
const postingsPage = 64

func newPostings(c *conn, v term, before int64) (*postings, error) {
	p := &postings{c: c, term: v, before: before}
	var err error
	if p.indexed, err = c.int("SELECT value FROM meta WHERE name = ?", metaIndexed); err != nil {
		return nil, err
	}
	if p.oldest, err = c.int("SELECT min(segment) FROM segments"); err != nil {
		return nil, err
	}
	p.segment, err = c.int("SELECT max(segment) FROM segments")
	return p, err
}

// next goes to the next row and reports whether there is one.
func (p *postings) next() bool {
	if p.before-1 > p.indexed { // not in a segment yet: any row may carry the term
		if p.err = p.tail(); p.err != nil {
			return false
		}
		if p.seq > p.indexed {
			return true
		}
		p.before = p.indexed + 1
	}
	for len(p.page) == 0 {
		if p.segment < p.oldest || p.segment <= 0 {
			return false
		}
		if p.err = p.read(); p.err != nil {
			return false
		}
	}
	p.seq, p.page = p.page[0], p.page[1:]
	p.before = p.seq
	return true
}

func (p *postings) tail() (err error) {
	p.seq, err = p.c.int("SELECT max(seq) FROM rows WHERE seq < ? AND seq > ?", p.before, p.indexed)
	p.before = p.seq
	return err
}

// read fills the page from the present segment, or goes to the one before.
func (p *postings) read() error {
	p.probes++
	err := p.c.query("SELECT seq FROM terms WHERE segment = ? AND term = ? AND seq < ? "+
		"ORDER BY seq DESC LIMIT ?", func(r *stmt) error {
		p.page = append(p.page, r.int(0))
		return nil
	}, p.segment, int64(p.term), p.before, postingsPage)
	if err == nil && len(p.page) < postingsPage {
		p.segment--
	}
	return err
}

// sweepTerms removes a part of the oldest segment once none of its rows is left.
func (t *txn) sweepTerms(limit int) (int, error) {
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
	err = t.c.exec("DELETE FROM terms WHERE (segment, term, seq) IN "+
		"(SELECT segment, term, seq FROM terms WHERE segment = ? LIMIT ?)", oldest, limit)
	if err != nil {
		return 0, err
	}
	n := int(t.c.raw.Changes())
	if n < limit {
		err = t.c.exec("DELETE FROM segments WHERE segment = ?", oldest)
	}
	return n, err
}
