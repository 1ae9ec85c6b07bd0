package oncesqlite

import (
	"slices"

	"github.com/oncekit/once/queue"
)

// term is the hash of something that rows can be found by. Finds are compared with the row itself.
type term int64

func termOf(text string) term {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	h := uint64(offset)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * prime
	}
	return term(h)
}

// kindTerm is carried by every row of a kind. No text of a message holds a NUL.
func kindTerm(k queue.Kind) term { return termOf("\x00" + k.String()) }

// appendTerms appends what a row can be found by. Equal texts are one term, whatever they name: a
// robot's event and task are parts of its key too.
func appendTerms(out []term, k queue.Kind, source, event, task string, parts []string) []term {
	out = append(out, kindTerm(k))
	for _, text := range [...]string{source, event, task} {
		out = addTerm(out, text)
	}
	for _, text := range parts {
		out = addTerm(out, text)
	}
	return out
}

func addTerm(out []term, text string) []term {
	if v := termOf(text); text != "" && !slices.Contains(out, v) {
		return append(out, v)
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

// postings walks the rows that may carry a term, latest first: the rows after the last segment one
// by one, then the segments.
type postings struct {
	c    *conn
	term term
	// before: only rows with a smaller seq; it falls as they are read.
	before int64
	// indexed is the last row of the last segment; segment the one that is read.
	indexed, segment, oldest int64
	page                     []int64
	seq                      int64
	// probes counts the segments that were looked into.
	probes int
	err    error
}

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
	for len(p.page) == 0 {
		switch {
		case p.before-1 > p.indexed: // not in a segment yet
			p.err = p.tail()
		case p.segment < p.oldest || p.segment <= 0:
			return false
		default:
			p.err = p.read()
		}
		if p.err != nil {
			return false
		}
	}
	p.seq, p.page = p.page[0], p.page[1:]
	return true
}

// tailPage is how many rows after the last segment are read at once.
const tailPage = 512

// tail fills the page from the rows that are in no segment yet, and goes on before them.
func (p *postings) tail() error {
	last, parts, terms := int64(0), []string(nil), []term(nil)
	err := p.c.query("SELECT seq, source, event, task, key, kind FROM rows "+
		"WHERE seq < ? AND seq > ? ORDER BY seq DESC LIMIT ?", func(r *stmt) error {
		parts, last = parts[:0], r.int(0)
		if err := texts(r.text(4), &parts); err != nil {
			return err
		}
		k := queue.Kind(r.int(5))
		terms = appendTerms(terms[:0], k, r.text(1), r.text(2), r.text(3), parts)
		if slices.Contains(terms, p.term) {
			p.page = append(p.page, last)
		}
		return nil
	}, p.before, p.indexed, tailPage)
	if last == 0 {
		last = p.indexed + 1
	}
	p.before = last
	return err
}

// read fills the page from the present segment and goes to the one before.
func (p *postings) read() error {
	p.probes++
	_, err := p.c.one("SELECT term, block FROM terms WHERE segment = ? AND term <= ? "+
		"ORDER BY term DESC LIMIT 1", func(r *stmt) {
		p.page = readRows(findPosting(term(r.int(0)), p.term, r.raw.ColumnRawBlob(1)))
	}, p.segment, int64(p.term))
	p.segment--
	slices.Reverse(p.page)
	p.page = slices.DeleteFunc(p.page, func(seq int64) bool { return seq >= p.before })
	return err
}
