package oncesqlite

import (
	"cmp"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
)

// randomEntries returns entries as they are collected: by row, terms in any order.
func randomEntries(r *rand.Rand, rows int) []entry {
	var out []entry
	for seq := range rows {
		for range 1 + r.IntN(4) {
			v := term(r.Uint64())
			if r.IntN(3) == 0 {
				v = []term{-1 << 63, -1, 0, 1<<63 - 1}[r.IntN(4)]
			}
			e := entry{v, int64(seq + 1)}
			if !slices.Contains(out, e) {
				out = append(out, e)
			}
		}
	}
	return out
}

func sortEntries(entries []entry) {
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.term, b.term), cmp.Compare(a.seq, b.seq))
	})
}

func TestBlocksHoldEachPostingOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 50, 700} {
		entries := randomEntries(r, n)
		sortEntries(entries)
		var got []entry
		blocks := blocksOf(postingsOf(entries))
		for i, b := range blocks {
			if i > 0 && b.first <= blocks[i-1].first {
				t.Fatalf("%d rows: block %d begins at %d, the one before at %d", n, i, b.first,
					blocks[i-1].first)
			}
			decodeBlock(b.first, b.bytes, func(p posting) bool {
				for _, seq := range readRows(p.rows) {
					got = append(got, entry{p.term, seq})
				}
				return true
			})
		}
		if !slices.Equal(got, entries) {
			t.Errorf("%d rows: %d entries of %d", n, len(got), len(entries))
		}
	}
}

func TestAPostingThatIsAddedIsFound(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	entries := randomEntries(r, 100)
	var list []posting
	for _, i := range r.Perm(len(entries)) {
		list = addPosting(list, entries[i])
		list = addPosting(list, entries[i]) // again: it is there
	}
	first, b := list[0].term, encodeBlock(list)
	for _, e := range entries {
		if !slices.Contains(readRows(findPosting(first, e.term, b)), e.seq) {
			t.Errorf("row %d is not found by %d", e.seq, e.term)
		}
	}
	if rows := findPosting(first, 12345, b); rows != nil {
		t.Errorf("a term that nobody has is found in %d", rows)
	}
}

func TestABlockThatIsNoneIsReadToItsEnd(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 1000 {
		b := make([]byte, r.IntN(40))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		decodeBlock(0, b, func(p posting) bool { readRows(p.rows); return true })
	}
}

func TestNewTermsAreWhatTheRowsSay(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db")})
	for i := range 50 {
		a := callback(string(rune('a' + i)))
		a.Task, a.Event = string(rune('A'+i%7)), "finish"
		mustAppend(t, s, a, effectOf(string(a.Body)))
	}
	bad := callback("bad")
	bad.Retention = 1
	for range 3 { // transactions that are undone leave nothing behind
		err := s.do(t.Context(), &op{run: func(tx *txn) error {
			if _, _, err := tx.insert(&bad, 0); err != nil {
				return err
			}
			return errEnough
		}})
		if err != errEnough { //nolint:errorlint // it is handed on as it is
			t.Fatal(err)
		}
	}
	mustAppend(t, s, callback("last"))
	var known, read []entry
	ok := false
	err := s.do(t.Context(), &op{run: func(tx *txn) (err error) {
		if read, err = readEntries(tx.c, 10, 90); err != nil {
			return err
		}
		known, ok = s.newTerms.take(10, 90)
		return nil
	}})
	sortEntries(read)
	sortEntries(known)
	if err != nil || !ok || !slices.Equal(read, known) {
		t.Fatalf("%v, %v: %d entries remembered, %d read", err, ok, len(known), len(read))
	}
	if _, ok := s.newTerms.take(10, 90); ok {
		t.Error("taken twice")
	}
	if known, ok := s.newTerms.take(90, 101); !ok || len(known) == 0 {
		t.Errorf("%v: %d entries of the rest", ok, len(known))
	}
}
