package oncesqlite

import (
	"sync"

	"github.com/oncekit/once"
)

// Bounds of the memory of outcomes.
const (
	outcomeShards = 16
	// defaultReplayKiB bounds all shards together, in both of their generations.
	defaultReplayKiB = 8 << 10
	// outcomeSize is about what an outcome takes beside its data, in bytes.
	outcomeSize = 256
	// maxCached is the most data of an outcome that is remembered, in bytes; also the most that the
	// goroutine that writes reads for a replay. Longer data is read by a connection that reads.
	maxCached = 64 << 10
)

// outcomes remembers completed records that are durable, so that most replays need neither a
// transaction nor the file. It forgets: a miss says nothing. Safe for concurrent use.
type outcomes struct {
	perShard int // bytes of one generation; 0: nothing is remembered
	shards   [outcomeShards]outcomeShard
}

type outcomeShard struct {
	mu       sync.Mutex
	size     int // of now
	now, old map[once.Identity]*outcome
}

// outcome is what a replay is made of. It never changes.
type outcome struct {
	fingerprint once.Fingerprint
	outcome     once.Outcome
	finished    int64
	// touch is when an arrival has to be written; from then on the record itself is asked.
	touch int64
}

// init bounds the memory.
func (c *outcomes) init(kib int) {
	c.perShard = max(kib, 0) << 10 / outcomeShards / 2
	for i := range c.shards {
		c.shards[i].now = map[once.Identity]*outcome{}
	}
}

func (c *outcomes) shard(id once.Identity) *outcomeShard { return &c.shards[id[31]%outcomeShards] }

// get returns the outcome of an identity; nil: ask the file.
func (c *outcomes) get(id once.Identity) *outcome {
	if c.perShard == 0 {
		return nil
	}
	s := c.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.now[id]; o != nil {
		return o
	}
	o := s.old[id]
	if o != nil { // it is wanted: it stays
		s.store(id, o, c.perShard)
	}
	return o
}

// put remembers an outcome that is durable. The data is the cache's from then on.
func (c *outcomes) put(id once.Identity, o *outcome) {
	if len(o.outcome.Data) > maxCached || c.perShard == 0 {
		return
	}
	s := c.shard(id)
	s.mu.Lock()
	s.store(id, o, c.perShard)
	s.mu.Unlock()
}

// store adds to the young generation; a full one becomes the old one.
func (s *outcomeShard) store(id once.Identity, o *outcome, limit int) {
	n := outcomeSize + len(o.outcome.Data)
	if s.size+n > limit {
		s.old, s.now, s.size = s.now, map[once.Identity]*outcome{}, 0
	}
	s.now[id] = o
	s.size += n
}

// forget drops an identity.
func (c *outcomes) forget(id once.Identity) {
	if c.perShard == 0 {
		return
	}
	s := c.shard(id)
	s.mu.Lock()
	delete(s.now, id) // its size goes with the generation
	delete(s.old, id)
	s.mu.Unlock()
}

// clear forgets everything.
func (c *outcomes) clear() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		clear(s.now)
		clear(s.old)
		s.size = 0
		s.mu.Unlock()
	}
}

// rememberOutcome puts an outcome into the cache once the transaction is durable.
func (t *txn) rememberOutcome(id once.Identity, o *outcome) {
	cache := &t.s.records.outcomes
	if cache.perShard > 0 && len(o.outcome.Data) <= maxCached {
		t.durable = append(t.durable, func() { cache.put(id, o) })
	}
}

// forgetOutcome is called whenever a record is no longer what a replay may be made of. It drops it
// at once, since later operations see the change before it is durable; and once more then, since
// the flush of an earlier transaction may have put it back.
func (t *txn) forgetOutcome(id once.Identity) {
	cache := &t.s.records.outcomes
	cache.forget(id)
	t.durable = append(t.durable, func() { cache.forget(id) })
}
