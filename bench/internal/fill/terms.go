package fill

import (
	"encoding/binary"
	"slices"

	"github.com/oncekit/once/queue"
)

// segmentRows is how many rows a segment of the search index covers, as in oncesqlite/indexer.go.
const segmentRows = 4096

// entry is one line of the search index: a term, and the rows of a segment that carry it.
type entry struct {
	term int64
	rows []byte
}

// term hashes a text that rows are found by, as oncesqlite/terms.go does.
func term(text string) int64 {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	h := uint64(offset)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * prime
	}
	return int64(h)
}

// entries are the lines of the rows' segment, sorted by their terms. Rows are written as the
// differences of their numbers.
func entries(rows []row) []entry {
	type found struct {
		last int64
		rows []byte
	}
	all := make(map[int64]*found, 3*len(rows))
	for i := range rows {
		r := &rows[i]
		for _, text := range append([]string{r.Source, r.Event, r.Task}, r.Key...) {
			v := term(text)
			f := all[v]
			if f == nil {
				f = &found{}
				all[v] = f
			}
			if text != "" && f.last != r.Seq {
				f.rows = binary.AppendUvarint(f.rows, uint64(r.Seq-f.last))
				f.last = r.Seq
			}
		}
	}
	out := make([]entry, 0, len(all))
	for v, f := range all {
		if len(f.rows) > 0 {
			out = append(out, entry{v, f.rows})
		}
	}
	slices.SortFunc(out, func(a, b entry) int {
		if a.term < b.term {
			return -1
		}
		return 1 // a term has one line
	})
	return out
}

// counter names a kept counter.
type counter struct {
	kind          queue.Kind
	source, state string
}
