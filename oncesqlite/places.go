package oncesqlite

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/oncekit/once"
)

// Identities are digests: rows that come one after the other have identities in no order at all, so
// that an index over them costs each row a page of its own, which is read, written to the WAL and
// written back. So the place of a row, the first bytes of its identity, stays in memory at first.
// When a generation of rows has come, their places go into the table in the table's own order, many
// to a page, a few with each transaction; meanwhile the next generation fills. Of the rows up to
// metaPlaced all places are in the table; those of later ones are read from the rows themselves
// when the file is opened.
//
// Two rows may share a place, if only because somebody looked for two identities that do: whoever
// finds a row by its place compares the whole identity.

// placeGeneration is how many rows a generation has. Tests have small ones.
var placeGeneration = 128 << 10

const (
	// placeBuckets are the parts in which a generation goes into the table, by the first bits.
	placeBuckets = 1 << placeBits
	placeBits    = 10
	// placeHaste is by how much faster the old generation goes than the young one comes.
	placeHaste = 1.5
)

// placeOf is the place of an identity. As a number it orders as its bytes do.
func placeOf(id []byte) uint64 { return binary.BigEndian.Uint64(id) }

// placed is a row at its place.
type placed struct {
	place uint64
	seq   int64
}

// generation are rows whose places need not be in the table yet, in buckets by the first bits of
// their places: few enough that looking through one takes less than a map would, and half its room.
type generation struct {
	buckets [placeBuckets][]placed
	added   int   // rows that came, also if they are gone
	last    int64 // no row of it has a greater seq; known once it is the old one
}

func (g *generation) bucket(place uint64) *[]placed { return &g.buckets[place>>(64-placeBits)] }

func (g *generation) add(p placed) {
	b := g.bucket(p.place)
	if *b == nil { // most get no more than this
		*b = make([]placed, 0, placeGeneration/placeBuckets*9/8+1)
	}
	*b = append(*b, p)
}

// put adds a row that is new.
func (g *generation) put(p placed) {
	g.add(p)
	g.added++
}

// remove takes a row out, and reports whether it was there.
func (g *generation) remove(p placed) bool {
	b := g.bucket(p.place)
	i := slices.Index(*b, p)
	if i < 0 {
		return false
	}
	*b = slices.Delete(*b, i, i+1)
	return true
}

// find appends the rows at a place.
func (g *generation) find(seqs []int64, place uint64) []int64 {
	if g == nil {
		return seqs
	}
	for _, p := range *g.bucket(place) {
		if p.place == place {
			seqs = append(seqs, p.seq)
		}
	}
	return seqs
}

// places are those in memory. The goroutine that writes changes them, others look; the one that
// flushes lets go of the old ones.
type places struct {
	mu         sync.RWMutex
	young, old *generation // old: nil if all older ones are in the table
	// Of the goroutine that writes: how many buckets of the old one are in the table.
	through int
}

// add notes a new row.
func (p *places) add(at placed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.young.put(at)
}

// remove forgets a row, and returns what takes that back.
func (p *places) remove(at placed) (undo func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range []*generation{p.young, p.old} {
		if g != nil && g.remove(at) {
			return func() {
				p.mu.Lock()
				g.add(at)
				p.mu.Unlock()
			}
		}
	}
	return func() {}
}

// find returns the rows at a place that are known in memory. One that is not committed yet may be
// among them.
func (p *places) find(place uint64) []int64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.old.find(p.young.find(nil, place), place)
}

// rowsAt returns the rows at a place. Memory is asked first: what leaves it is in the table then.
func (s *Store) rowsAt(c *conn, id []byte) ([]int64, error) {
	seqs := s.places.find(placeOf(id))
	q, err := c.prepare("SELECT seq FROM places WHERE place = ?")
	if err != nil {
		return nil, err
	}
	q.bindBlob(1, id[:8])
	for q.step() {
		if seq := q.int(0); !slices.Contains(seqs, seq) {
			seqs = append(seqs, seq)
		}
	}
	return seqs, q.reset()
}

// rowOf reads the row of an identity; once.ErrNotFound if there is none.
func (s *Store) rowOf(c *conn, id once.Identity) (*stored, error) {
	return s.rowBetween(c, id[:], id[:])
}

// rowBetween reads the one row whose identity lies between two that share their place.
func (s *Store) rowBetween(c *conn, first, last []byte) (*stored, error) {
	seqs, err := s.rowsAt(c, first)
	if err != nil {
		return nil, err
	}
	for _, seq := range seqs {
		row, err := readRow(c, byPlace, seq, first, last)
		if !errors.Is(err, once.ErrNotFound) {
			return row, err
		}
	}
	return nil, once.ErrNotFound
}

// isKnown reports whether an identity has a row.
func (t *txn) isKnown(id once.Identity) (bool, error) {
	seqs, err := t.s.rowsAt(t.c, id[:])
	for _, seq := range seqs {
		n, err := t.c.int("SELECT count(*) FROM rows WHERE seq = ? AND identity = ?", seq, id[:])
		if n > 0 || err != nil {
			return true, err
		}
	}
	return false, err
}

// putPlace notes where a new row is.
func (t *txn) putPlace(id once.Identity, seq int64) {
	at := placed{placeOf(id[:]), seq}
	t.s.places.add(at)
	t.onUndo(func() { t.s.places.remove(at) })
}

// dropPlace forgets where a row was.
func (t *txn) dropPlace(id once.Identity, seq int64) error {
	t.onUndo(t.s.places.remove(placed{placeOf(id[:]), seq}))
	return t.c.exec("DELETE FROM places WHERE place = ? AND seq = ?", id[:8], seq)
}

// moving returns the old generation, and makes the young one that if it is full; nil: there is
// nothing to be moved. newest is the seq of the newest row.
func (p *places) moving(newest int64) *generation {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.old == nil && p.young.added >= placeGeneration {
		p.young.last = newest
		p.old, p.young, p.through = p.young, &generation{}, 0
	}
	return p.old
}

// movePlaces puts some places of the old generation into the table: as many as keep it ahead of the
// young one. It begins a transaction, in which no row has come yet.
func (t *txn) movePlaces() error {
	p := &t.s.places
	newest := t.s.nextSeq - 1
	old := p.moving(newest)
	if old == nil {
		return nil
	}
	came := float64(newest-old.last) / float64(placeGeneration)
	goal := min(int(came*placeHaste*placeBuckets), placeBuckets)
	if p.through >= goal {
		return nil
	}
	before := p.through
	t.onUndo(func() { p.through = before })
	for ; p.through < goal; p.through++ {
		if err := t.moveBucket(old, p.through); err != nil {
			return err
		}
	}
	if p.through < placeBuckets {
		return nil
	}
	t.durable = append(t.durable, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.old == old {
			p.old = nil
		}
	})
	return t.setMeta(metaPlaced, old.last)
}

func (t *txn) moveBucket(g *generation, n int) error {
	p := &t.s.places
	p.mu.RLock()
	bucket := slices.Clone(g.buckets[n]) // others look into it as it is
	p.mu.RUnlock()
	slices.SortFunc(bucket, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.seq, b.seq))
	})
	q, err := t.c.prepare("INSERT OR IGNORE INTO places VALUES (?, ?)")
	if err != nil {
		return err
	}
	var place [8]byte
	for _, at := range bucket {
		binary.BigEndian.PutUint64(place[:], at.place)
		q.bindBlob(1, place[:])
		q.bindInt(2, at.seq)
		if err := q.run(); err != nil {
			return err
		}
	}
	return nil
}

// loadPlaces reads the places that need not be in the table.
func (s *Store) loadPlaces() error {
	upTo, err := s.metaInt(metaPlaced)
	if err != nil {
		return err
	}
	g := &generation{}
	err = s.w.query("SELECT seq, identity FROM rows WHERE seq > ?", func(r *stmt) error {
		var id once.Identity
		copy(id[:], r.raw.ColumnRawBlob(1))
		g.put(placed{placeOf(id[:]), r.int(0)})
		return nil
	}, upTo)
	if err != nil {
		return err
	}
	p := &s.places
	p.mu.Lock() // others may be looking: never into one that is half full
	defer p.mu.Unlock()
	p.young, p.old, p.through = g, nil, 0
	return nil
}
