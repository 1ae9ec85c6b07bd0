package oncemem

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/oncekit/once"
)

const defaultPage = 100

// Record implements [once.Browser].
func (s *Store) Record(ctx context.Context, id once.Identity) (once.Record, error) {
	if err := ctx.Err(); err != nil {
		return once.Record{}, unavailable(err)
	}
	sh, now := s.lock(id)
	defer sh.mu.Unlock()
	r := sh.find(id)
	if r == nil || r.expired(now) {
		return once.Record{}, once.ErrNotFound
	}
	out := r.public(now)
	out.Outcome = r.copied()
	return out, nil
}

// Records implements [once.Browser]. The order is that of the identities.
func (s *Store) Records(ctx context.Context, f once.RecordFilter) (once.RecordPage, error) {
	if err := ctx.Err(); err != nil {
		return once.RecordPage{}, unavailable(err)
	}
	after, err := hex.DecodeString(f.After)
	if err != nil {
		return once.RecordPage{}, fmt.Errorf("list records: no page begins at %q", f.After)
	}
	limit := f.Limit
	if limit <= 0 {
		limit = defaultPage
	}
	limit = min(limit, once.MaxRecordPage)
	f.Scope = once.Note{Scope: f.Scope}.Cut().Scope
	var all []once.Record
	for i := range s.shards {
		all = s.shards[i].collect(all, f, after, s.now())
	}
	slices.SortFunc(all, func(a, b once.Record) int {
		return bytes.Compare(a.Identity[:], b.Identity[:])
	})
	page := once.RecordPage{Records: all}
	if len(all) > limit {
		last := all[limit-1].Identity
		page.Records, page.Next = all[:limit:limit], hex.EncodeToString(last[:])
	}
	return page, nil
}

func (sh *shard) collect(
	all []once.Record, f once.RecordFilter, after []byte, now instant,
) []once.Record {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, r := range sh.records {
		for ; r != nil; r = r.next {
			if r.expired(now) || bytes.Compare(r.id[:], after) <= 0 && len(after) > 0 ||
				len(f.Scope) > 0 && !slices.Equal(f.Scope, r.note.Scope) {
				continue
			}
			if out := r.public(now); f.State == "" || f.State == out.State {
				all = append(all, out)
			}
		}
	}
	return all
}

// public is what people are shown of a record.
func (r *record) public(now instant) once.Record {
	out := once.Record{
		Identity: r.id, Fingerprint: r.fingerprint, OnUnknown: r.onUnknown, Fence: r.fence,
		Attempt: int(r.attempt), Note: r.note, ClaimedAt: r.claimed.time(),
		FinishedAt: r.finished.time(), LastAt: r.last.time(), LeaseEnd: r.leaseEnd.time(),
		Size: len(r.data), Outcome: once.Outcome{Kind: r.kind},
	}
	switch {
	case r.state == completed:
		out.State, out.ExpiresAt = once.Completed, r.expires().time()
	case r.state == released:
		out.State, out.ExpiresAt = once.Released, r.expires().time()
	case r.state == inFlight && now < r.leaseEnd:
		out.State = once.InFlight
	case r.onUnknown == once.Hold:
		out.State = once.Held
	default:
		out.State = once.Lost
	}
	return out
}
