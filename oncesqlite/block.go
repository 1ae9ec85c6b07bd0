package oncesqlite

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// A block is a part of a segment of the search index: postings in the order of their terms. Each is
// three varints and its rows: what the term is above the last one (the first one: above the term
// that the block is stored under), how many bytes its rows take, and those; see appendRows.

// posting says which rows of a segment carry a term.
type posting struct {
	term term
	rows []byte // see appendRows
}

const (
	// blockBytes is about the length at which a block ends: SQLite keeps about 1,000 bytes of one
	// in its place in the table.
	blockBytes = 900
	// postingBytes is about what a posting takes beside its rows.
	postingBytes = 10
)

// postingsOf makes postings of sorted entries.
func postingsOf(entries []entry) []posting {
	var out []posting
	seqs := make([]int64, 0, len(entries))
	for i, e := range entries {
		seqs = append(seqs, e.seq)
		if i == len(entries)-1 || entries[i+1].term != e.term {
			out = append(out, posting{e.term, appendRows(nil, seqs)})
			seqs = seqs[:0]
		}
	}
	return out
}

// block is an encoded block and the term that it is stored under.
type block struct {
	first term
	bytes []byte
}

// blocksOf encodes postings in the order of their terms.
func blocksOf(list []posting) []block {
	var out []block
	for len(list) > 0 {
		n, size := 1, len(list[0].rows)
		for n < len(list) && size+len(list[n].rows)+postingBytes <= blockBytes {
			size += len(list[n].rows) + postingBytes
			n++
		}
		out = append(out, block{list[0].term, encodeBlock(list[:n])})
		list = list[n:]
	}
	return out
}

func encodeBlock(list []posting) []byte {
	var b []byte
	last := list[0].term
	for _, p := range list {
		b = binary.AppendUvarint(b, uint64(p.term-last))
		b = binary.AppendUvarint(b, uint64(len(p.rows)))
		b = append(b, p.rows...)
		last = p.term
	}
	return b
}

// decodeBlock calls each with the postings of a block, in order, until it returns false. Of bytes
// that encodeBlock did not write it reads what it can.
func decodeBlock(first term, b []byte, each func(posting) bool) {
	last := first
	for len(b) > 0 {
		above, n := binary.Uvarint(b)
		if n <= 0 {
			return
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || size > uint64(len(b)-n-m) {
			return
		}
		b = b[n+m:]
		last += term(above)
		if !each(posting{last, b[:size]}) {
			return
		}
		b = b[size:]
	}
}

// findPosting returns the rows of a term in a block; nil if it has none.
func findPosting(first, v term, b []byte) (rows []byte) {
	decodeBlock(first, b, func(p posting) bool {
		if p.term == v {
			rows = p.rows
		}
		return p.term < v
	})
	return rows
}

// addPosting adds a row to a term in the postings of a block.
func addPosting(list []posting, e entry) []posting {
	at, found := slices.BinarySearchFunc(list, e.term, func(p posting, v term) int {
		return cmp.Compare(p.term, v)
	})
	if !found {
		return slices.Insert(list, at, posting{e.term, appendRows(nil, []int64{e.seq})})
	}
	seqs := readRows(list[at].rows)
	if i, found := slices.BinarySearch(seqs, e.seq); !found {
		list[at].rows = appendRows(nil, slices.Insert(seqs, i, e.seq))
	}
	return list
}

// appendRows writes rising numbers of rows: the first one, then what is between two.
func appendRows(b []byte, seqs []int64) []byte {
	last := int64(0)
	for _, seq := range seqs {
		b = binary.AppendUvarint(b, uint64(seq-last))
		last = seq
	}
	return b
}

// readRows is the reverse of appendRows. Of bytes that it did not write it reads what it can.
func readRows(b []byte) []int64 {
	var seqs []int64
	last := int64(0)
	for len(b) > 0 {
		d, n := binary.Uvarint(b)
		if n <= 0 {
			return seqs
		}
		last, b = last+int64(d), b[n:]
		seqs = append(seqs, last)
	}
	return seqs
}
