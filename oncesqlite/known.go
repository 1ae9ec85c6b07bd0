package oncesqlite

import (
	"sync"

	"github.com/oncekit/once"
)

// Bounds of the memory of durable rows.
const (
	knownShards = 16
	// knownPerShard bounds each of a shard's two generations: 16 × 2 × 2048 identities, about 8 MB.
	knownPerShard = 2048
)

// known remembers identities whose rows are durable and not dead, so that a duplicate of a recent
// callback needs no transaction. It forgets: a miss says nothing. Safe for concurrent use.
type known struct{ shards [knownShards]knownShard }

type knownShard struct {
	mu       sync.Mutex
	now, old map[once.Identity]knownRow
}

type knownRow struct {
	fingerprint once.Fingerprint
	seq         int64
}

func newKnown() *known {
	k := &known{}
	for i := range k.shards {
		k.shards[i].now = make(map[once.Identity]knownRow, knownPerShard)
	}
	return k
}

func (k *known) shard(id once.Identity) *knownShard { return &k.shards[id[31]%knownShards] }

// get returns the row of an identity if it is known with the same content.
func (k *known) get(id once.Identity, fp once.Fingerprint) (int64, bool) {
	s := k.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.now[id]
	if !ok {
		if r, ok = s.old[id]; !ok {
			return 0, false
		}
		s.store(id, r)
	}
	return r.seq, r.fingerprint == fp
}

func (k *known) put(id once.Identity, fp once.Fingerprint, seq int64) {
	s := k.shard(id)
	s.mu.Lock()
	s.store(id, knownRow{fp, seq})
	s.mu.Unlock()
}

// store adds to the young generation; a full one becomes the old one.
func (s *knownShard) store(id once.Identity, r knownRow) {
	if len(s.now) >= knownPerShard {
		s.old, s.now = s.now, make(map[once.Identity]knownRow, knownPerShard)
	}
	s.now[id] = r
}

// forget is called whenever a row is no longer what a duplicate may be answered from. Readers see
// the change before it is durable, so it is called at once; and once more then, since a repeat of
// the same flush may have put it back.
func (t *txn) forget(id once.Identity) {
	known := t.s.known
	known.forget(id)
	t.durable = append(t.durable, func() { known.forget(id) })
}

// forget drops an identity.
func (k *known) forget(id once.Identity) {
	s := k.shard(id)
	s.mu.Lock()
	delete(s.now, id)
	delete(s.old, id)
	s.mu.Unlock()
}

// clear forgets all rows.
func (k *known) clear() {
	for i := range k.shards {
		s := &k.shards[i]
		s.mu.Lock()
		clear(s.now)
		clear(s.old)
		s.mu.Unlock()
	}
}
