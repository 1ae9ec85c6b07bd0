package oncesqlite

import (
	"hash/fnv"

	"github.com/oncekit/once/queue"
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
	p.segment, err = c.int("SELECT min(segment) FROM segments WHERE last >= ?", before-1)
	if err == nil && p.segment == 0 { // later than all of them
		p.segment, err = c.int("SELECT max(segment) FROM segments")
	}
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
