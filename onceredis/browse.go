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
	// scanStep is about how many keys the server looks at in one SCAN. It never changes while
	// somebody has a page's Next, so that the same cursor gives the same keys.
	scanStep = 256
	// maxScans bounds the SCANs for one page: a page may have fewer records than were asked for.
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

// place is where a page begins: on a node, at a SCAN's cursor, after a key of what that returns.
type place struct {
	node   string
	cursor uint64
	after  string
}

func (p place) String() string {
	return p.node + "|" + strconv.FormatUint(p.cursor, 10) + "|" + p.after
}

func parsePlace(s string) (place, error) {
	if s == "" {
		return place{}, nil
	}
	parts := strings.Split(s, "|")
	if len(parts) != 3 {
		return place{}, fmt.Errorf("list records: no page begins at %q", s)
	}
	cursor, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return place{}, fmt.Errorf("list records: no page begins at %q", s)
	}
	return place{parts[0], cursor, parts[2]}, nil
}

// Records implements [once.Browser]. The order is the server's: SCAN's, node by node in a Cluster.
// A page costs a bounded number of steps, so it may be short, or empty, and have a Next. A record
// that exists all the while is listed; where the server resizes its table meanwhile it may come
// twice, or, if the table shrinks, once too few. A record that can't be read is left out.
func (s *Store) Records(ctx context.Context, f once.RecordFilter) (once.RecordPage, error) {
	if err := ctx.Err(); err != nil {
		return once.RecordPage{}, unavailable(err)
	}
	from, err := parsePlace(f.After)
	if err != nil {
		return once.RecordPage{}, err
	}
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
	limit := f.Limit
	if limit <= 0 {
		limit = defaultPage
	}
	limit = min(limit, once.MaxRecordPage)
	f.Scope = cutScope(f.Scope)
	var page once.RecordPage
	scans := 0
	for _, node := range nodes {
		name := node.Options().Addr
		if name < at.node {
			continue
		}
		if name != at.node { // the first one, the next one, or one that took a lost one's place
			at = place{node: name}
		}
		for {
			if len(page.Records) == limit || scans == maxScans {
				page.Next = at.String()
				return page, nil
			}
			scans++
			next, err := s.step(ctx, node, f, &at, limit, &page)
			if err != nil {
				return once.RecordPage{}, err
			}
			if at.after == "" && next == 0 {
				break // this node is through
			}
		}
	}
	return page, nil
}

// step adds the records of one SCAN, or of what is left of it, to a page, and moves the place on:
// behind the last key that was looked at, or to the next cursor, which it returns.
func (s *Store) step(
	ctx context.Context, node *redis.Client, f once.RecordFilter, at *place, limit int,
	page *once.RecordPage,
) (uint64, error) {
	keys, next, err := node.Scan(ctx, at.cursor, globText(s.cfg.Prefix)+"{*}", scanStep).Result()
	if err != nil {
		return 0, err
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	prefix := len(s.cfg.Prefix) + 1
	for len(keys) > 0 && len(keys[0]) > prefix && keys[0][prefix:] <= at.after {
		keys = keys[1:]
	}
	for len(keys) > 0 {
		room := limit - len(page.Records)
		if room == 0 {
			return next, nil
		}
		some := keys[:min(len(keys), room)]
		if err := s.peek(ctx, node, f, some, page); err != nil {
			return 0, err
		}
		at.after = some[len(some)-1][prefix:]
		keys = keys[len(some):]
	}
	at.cursor, at.after = next, ""
	return next, nil
}

// peek adds those of some records to a page that the filter names.
func (s *Store) peek(
	ctx context.Context, node *redis.Client, f once.RecordFilter, keys []string,
	page *once.RecordPage,
) error {
	pipe := node.Pipeline()
	clock := pipe.Time(ctx)
	values := make([]*redis.StringCmd, len(keys))
	for i, k := range keys {
		values[i] = pipe.GetRange(ctx, k, 0, peekSize-1)
	}
	_, _ = pipe.Exec(ctx) // each command is looked at
	now, err := clock.Result()
	if err != nil {
		return err
	}
	for i, k := range keys {
		v, err := values[i].Result()
		if redis.HasErrorPrefix(err, "WRONGTYPE") {
			continue
		}
		if err != nil {
			return err
		}
		r, ok, err := s.listed(ctx, node, k, v, now.UnixMicro()+s.offset.Load())
		if err != nil {
			return err
		}
		if ok && (f.State == "" || f.State == r.State) &&
			(len(f.Scope) == 0 || slices.Equal(f.Scope, r.Note.Scope)) {
			page.Records = append(page.Records, r)
		}
	}
	return nil
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
