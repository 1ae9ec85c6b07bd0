package oncemem

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/oncekit/once"
)

// recordSize is about what a record takes with its place in the map, in bytes.
const recordSize = 320

// size is about what a record takes besides the data of its outcome, in bytes.
func (r *record) size() int64 {
	n := recordSize + len(r.note.Key) + len(r.note.Request)
	for _, s := range r.note.Scope {
		n += len(s)
	}
	return int64(n)
}

// reserve takes room for n bytes, after removing what is past its retention if there is no room
// otherwise. It reports whether there was room. The shard is locked by the caller.
func (s *Store) reserve(sh *shard, n int64, now instant) bool {
	if s.take(n) {
		return true
	}
	s.sweepShard(sh, now, sh.aging.n)
	for i := range s.shards {
		if s.take(n) {
			return true
		}
		// Two of us must not wait for each other's shard; one that is in use is left out.
		if rest := &s.shards[i]; rest != sh && rest.mu.TryLock() {
			s.sweepShard(rest, now, rest.aging.n)
			rest.mu.Unlock()
		}
	}
	return s.take(n)
}

// take counts n bytes as used if they fit. What doesn't fit is never counted, not even for a moment
// in which somebody else would find no room.
func (s *Store) take(n int64) bool {
	for {
		used := s.used.Load()
		if used+n > s.cfg.MaxBytes {
			return false
		}
		if s.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// expired reports whether a record is past its retention, which counts from the later of the last
// arrival and the end of the work.
func (r *record) expired(now instant) bool {
	return (r.state == completed || r.state == released) && now >= r.expires()
}

func (r *record) expires() instant { return max(r.finished, r.last).add(r.retention) }

// slot is where the records of an identity are looked for. Its first byte has chosen the shard.
func slot(id once.Identity) uint64 { return binary.LittleEndian.Uint64(id[8:]) }

// look returns the record of an identity, nil if there is none, and the first one of its place.
func (sh *shard) look(id once.Identity) (first, r *record) {
	first = sh.records[slot(id)]
	for r = first; r != nil && r.id != id; {
		r = r.next
	}
	return first, r
}

func (sh *shard) find(id once.Identity) *record {
	_, r := sh.look(id)
	return r
}

// drop takes a record out.
func (sh *shard) drop(r *record) {
	at := slot(r.id)
	first := sh.records[at]
	switch {
	case first == r && r.next == nil:
		delete(sh.records, at)
	case first == r:
		sh.records[at] = r.next
	default:
		for first.next != r {
			first = first.next
		}
		first.next = r.next
	}
}

func (s *Store) remove(sh *shard, r *record) {
	sh.leaveAging(r)
	sh.drop(r)
	sh.forgotten = max(sh.forgotten, r.fence)
	s.used.Add(-r.size() - int64(len(r.data)))
}

// Sweep implements [once.Sweeper].
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	if limit < 1 {
		return 0, fmt.Errorf("sweep: limit %d, want at least 1", limit)
	}
	n := 0
	for i := range s.shards {
		if err := ctx.Err(); err != nil {
			return n, unavailable(err)
		}
		sh := &s.shards[i]
		sh.mu.Lock()
		n += s.sweepShard(sh, s.now(), limit-n)
		sh.mu.Unlock()
	}
	return n, nil
}
