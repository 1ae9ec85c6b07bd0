package fill

import (
	"cmp"
	"hash/fnv"
	"slices"

	"github.com/oncekit/once/queue"
)

// segmentRows is how many rows a segment of the search index covers, as in oncesqlite/terms.go.
const segmentRows = 4096

// entry is one line of the search index.
type entry struct{ term, seq int64 }

// term hashes something that rows are found by, as oncesqlite/terms.go does.
func term(what byte, text string) int64 {
	h := fnv.New64a()
	h.Write([]byte{what}) // a hash never fails to write
	h.Write([]byte(text))
	return int64(h.Sum64())
}

// entries are the lines of the rows' segment, sorted.
func entries(rows []row) []entry {
	out := make([]entry, 0, 6*len(rows))
	for i := range rows {
		r := &rows[i]
		out = append(out, entry{term('0'+byte(r.Kind), r.Source), r.Seq},
			entry{term('a'+byte(r.Kind), r.Event), r.Seq})
		if r.Task != "" {
			out = append(out, entry{term('t', r.Task), r.Seq})
		}
		for _, part := range r.Key {
			out = append(out, entry{term('k', part), r.Seq})
		}
	}
	slices.SortFunc(out, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.term, b.term), cmp.Compare(a.seq, b.seq))
	})
	return slices.Compact(out)
}

// counter names a kept counter.
type counter struct {
	kind          queue.Kind
	source, state string
}
