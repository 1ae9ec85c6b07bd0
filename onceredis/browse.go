package onceredis

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/oncekit/once"
)

const (
	defaultPage = 100
	// scanStep is about how many keys the server looks at in one SCAN, at most.
	scanStep = 256
	// maxScans is about how many SCANs are made for one page: it may have fewer records than were
	// asked for.
	maxScans = 16
	// peekSize is how much of a record is read for a list, in bytes: the header and most notes.
	peekSize = headerSize + 512
)

// Record implements [once.Browser].
func (s *Store) Record(ctx context.Context, id once.Identity) (once.Record, error) {
	out, err := s.run(ctx, readScript, id)
	if err != nil {
		return once.Record{}, fmt.Errorf("read record: %w", err)
	}
	if out.word != "record" {
		return once.Record{}, out.err("read record")
	}
	value := out.text(2)
	h, err := parseHeader(value)
	if err != nil {
		return once.Record{}, fmt.Errorf("read record: %w", err)
	}
	r, _ := h.record(id, out.int(1))
	dataFrom := headerSize + h.notes
	if r.Note, err = decodeNote([]byte(value[headerSize:dataFrom])); err != nil {
		return once.Record{}, fmt.Errorf("read record: %w", err)
	}
	r.Outcome.Data = []byte(value[dataFrom:])
	return r, nil
}

// place is where a page begins: on a node, at a SCAN's cursor. Where one bucket of the server's
// table has more records than a page, it begins after a key of that bucket, and until is the cursor
// that follows: while SCAN gives that one again, it is the same bucket.
type place struct {
	node          string
	cursor, until uint64
	after         string
}

func (p place) String() string {
	return fmt.Sprintf("%s|%d|%d|%s", p.node, p.cursor, p.until, p.after)
}

func parsePlace(s string) (place, error) {
	if s == "" {
		return place{}, nil
	}
	parts := strings.Split(s, "|")
	if len(parts) == 4 {
		cursor, err := strconv.ParseUint(parts[1], 10, 64)
		until, err2 := strconv.ParseUint(parts[2], 10, 64)
		if err == nil && err2 == nil {
			return place{parts[0], cursor, until, parts[3]}, nil
		}
	}
	return place{}, fmt.Errorf("list records: no page begins at %q", s)
}

// Records implements [once.Browser]. The order is the server's: SCAN's, node by node in a Cluster.
// A page costs a bounded number of steps, so it may be short, or empty, and have a Next. A record
// that exists all the while is listed; it may come twice where the server resizes its table
// meanwhile, or a node takes another's slots. A record that can't be read is left out.
func (s *Store) Records(ctx context.Context, f once.RecordFilter) (once.RecordPage, error) {
	if err := ctx.Err(); err != nil {
		return once.RecordPage{}, unavailable(err)
	}
	from, err := parsePlace(f.After)
	if err != nil {
		return once.RecordPage{}, err
	}
	if f.Limit <= 0 {
		f.Limit = defaultPage
	}
	f.Limit = min(f.Limit, once.MaxRecordPage)
	f.Scope = once.Note{Scope: f.Scope}.Cut().Scope
	var page once.RecordPage
	err = s.bounded(ctx, func() error {
		var err error
		page, err = s.page(ctx, f, from)
		return err
	})
	if err != nil {
		return once.RecordPage{}, fmt.Errorf("list records: %w", unavailable(err))
	}
	return page, nil
}

func (s *Store) page(
	ctx context.Context, f once.RecordFilter, at place,
) (once.RecordPage, error) {
	nodes, err := s.masters(ctx)
	if err != nil {
		return once.RecordPage{}, err
	}
	var page once.RecordPage
	scans := maxScans
	for _, node := range nodes {
		name := node.Options().Addr
		if name < at.node {
			continue
		}
		if name != at.node { // the first one, the next one, or one that took a lost one's place
			at = place{node: name}
		}
		for through := false; !through; {
			room := f.Limit - len(page.Records)
			if room == 0 || scans == 0 {
				page.Next = at.String()
				return page, nil
			}
			records, next, err := s.scan(ctx, node, f, &at, room, &scans)
			if err != nil {
				return once.RecordPage{}, err
			}
			if len(records) > room { // of one bucket
				if len(page.Records) == 0 {
					page.Records = records[:room:room]
					at.after, at.until = hexOf(records[room-1].Identity), next
				}
				page.Next = at.String()
				return page, nil
			}
			page.Records = append(page.Records, records...)
			at = place{node: name, cursor: next}
			through = next == 0
		}
	}
	return page, nil
}

// scan returns the records that follow a place, as many as there is room for, and the cursor behind
// them. It returns more, in the order of their identities, only if one bucket has more. At least
// one SCAN is made, and scans is lowered by each.
func (s *Store) scan(
	ctx context.Context, node *redis.Client, f once.RecordFilter, at *place, room int, scans *int,
) ([]once.Record, uint64, error) {
	count := scanStep
	switch {
	case at.after != "":
		count = 1
	case f.State == "" && len(f.Scope) == 0:
		count = min(room, scanStep)
	}
	for {
		*scans = max(*scans-1, 0)
		keys, next, err := node.Scan(ctx, at.cursor, globText(s.cfg.Prefix)+"{*}",
			int64(count)).Result()
		if err != nil {
			return nil, 0, err
		}
		slices.Sort(keys)
		keys = slices.Compact(keys)
		if at.after != "" && next == at.until {
			prefix := len(s.cfg.Prefix) + 1
			for len(keys) > 0 && strings.TrimSuffix(keys[0][prefix:], "}") <= at.after {
				keys = keys[1:]
			}
		}
		records, err := s.peek(ctx, node, f, keys)
		if err != nil || len(records) <= room || count == 1 {
			return records, next, err
		}
		count = max(1, min(count-1, count*room/len(records)))
	}
}

// peek returns those of some records that a filter names.
func (s *Store) peek(
	ctx context.Context, node *redis.Client, f once.RecordFilter, keys []string,
) ([]once.Record, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	pipe := node.Pipeline()
	clock := pipe.Time(ctx)
	values := make([]*redis.StringCmd, len(keys))
	for i, k := range keys {
		values[i] = pipe.GetRange(ctx, k, 0, peekSize-1)
	}
	_, _ = pipe.Exec(ctx) // each command is looked at
	now, err := clock.Result()
	if err != nil {
		return nil, err
	}
	var records []once.Record
	for i, k := range keys {
		v, err := values[i].Result()
		if redis.HasErrorPrefix(err, "WRONGTYPE") {
			continue
		}
		if err != nil {
			return nil, err
		}
		r, ok, err := s.listed(ctx, node, k, v, now.UnixMicro()+s.offset.Load())
		if err != nil {
			return nil, err
		}
		if ok && (f.State == "" || f.State == r.State) &&
			(len(f.Scope) == 0 || slices.Equal(f.Scope, r.Note.Scope)) {
			records = append(records, r)
		}
	}
	return records, nil
}

// listed is a record from its beginning; false for one that is absent or can't be read.
func (s *Store) listed(
	ctx context.Context, node *redis.Client, key, v string, now int64,
) (once.Record, bool, error) {
	name := strings.TrimSuffix(strings.TrimPrefix(key, s.cfg.Prefix+"{"), "}")
	id, err := hex.DecodeString(name)
	if err != nil || len(id) != len(once.Identity{}) {
		return once.Record{}, false, nil // somebody else's key
	}
	h, err := parseHeader(v)
	if err != nil {
		return once.Record{}, false, nil
	}
	r, live := h.record(once.Identity(id), now)
	if !live {
		return once.Record{}, false, nil
	}
	end := headerSize + int(h.notes)
	if end > len(v) && len(v) == peekSize {
		if v, err = node.GetRange(ctx, key, 0, int64(end)-1).Result(); err != nil {
			return once.Record{}, false, err
		}
	}
	if end > len(v) {
		return once.Record{}, false, nil
	}
	r.Note, err = decodeNote([]byte(v[headerSize:end]))
	return r, err == nil, nil
}

// globText is a text as a pattern that only it matches.
func globText(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte(`*?[]\^-`, s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
