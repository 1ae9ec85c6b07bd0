package oncesqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/oncekit/once"
)

const (
	// defaultRecordPage is the length of a page that names none.
	defaultRecordPage = 100
	// recordLooks bounds the records that one page looks at. Past it the page ends early and says
	// where to go on.
	recordLooks = 2000
	// recordPart is how many are read at once.
	recordPart = 250
)

// Record implements [once.Browser]. A record that can't be read is an error wrapping
// once.ErrCorrupt.
func (r *Records) Record(ctx context.Context, id once.Identity) (once.Record, error) {
	var row *record
	err := r.read(ctx, func(c *conn) (err error) {
		row, err = recordBy(c, id, wholeData)
		return err
	})
	at := r.s.clock.instant()
	switch {
	case err != nil:
		return once.Record{}, fmt.Errorf("read record: %w", err)
	case row == nil || row.expired(at.now):
		return once.Record{}, once.ErrNotFound
	}
	return row.public(at), nil
}

// Records implements [once.Browser]. The order is that of the first claims, the latest one first;
// a record that was forgotten and claimed anew has its new place.
//
// A page looks at no more than 2000 records, then it ends early and has a Next. Records in a state
// other than completed are found by an index. For a scope there is none, since it would cost every
// claim a page: one that has few records among very many takes a page for each 2000 of those.
//
// A record that can't be read is listed without a state where none was asked for.
func (r *Records) Records(ctx context.Context, f once.RecordFilter) (once.RecordPage, error) {
	before := int64(1) << 62
	if f.After != "" {
		n, err := strconv.ParseInt(f.After, 36, 64)
		if err != nil || n < 1 {
			return once.RecordPage{}, fmt.Errorf("list records: no page begins at %q", f.After)
		}
		before = n
	}
	if f.Limit <= 0 {
		f.Limit = defaultRecordPage
	}
	f.Limit = min(f.Limit, once.MaxRecordPage)
	f.Scope = decodeNote(encodeNote(once.Note{Scope: f.Scope})).Scope // as it is kept
	if f.State == once.Completed && r.Counts()[once.Completed] == 0 {
		return once.RecordPage{}, nil // rather than looking at all the others
	}
	var page once.RecordPage
	err := r.read(ctx, func(c *conn) (err error) {
		page, err = recordPage(c, f, before, r.s.clock.instant())
		return err
	})
	if err != nil {
		return once.RecordPage{}, fmt.Errorf("list records: %w", err)
	}
	return page, nil
}

// recordPage walks the records latest first and keeps those that match.
func recordPage(c *conn, f once.RecordFilter, before int64, at instant) (page once.RecordPage,
	err error) {
	for looks := 0; ; {
		part, more, err := recordsBefore(c, f.State, before)
		if err != nil {
			return page, err
		}
		for _, row := range part {
			if len(page.Records) == f.Limit || looks == recordLooks {
				page.Next = strconv.FormatInt(row.seq+1, 36)
				return page, nil
			}
			looks, before = looks+1, row.seq
			if out, ok := row.shown(&f, at); ok {
				page.Records = append(page.Records, out)
			}
		}
		if !more {
			return page, nil
		}
	}
}

// shown returns what a page tells of a record, and whether it belongs there.
func (row *record) shown(f *once.RecordFilter, at instant) (once.Record, bool) {
	state := row.stateAt(at.lap).name()
	if row.corrupt {
		state = ""
	} else if row.expired(at.now) {
		return once.Record{}, false
	}
	if f.State != "" && f.State != state {
		return once.Record{}, false
	}
	out := row.public(at)
	out.State = state
	return out, len(f.Scope) == 0 || slices.Equal(f.Scope, out.Note.Scope)
}

const listRecords = "SELECT " + recordColumns + " FROM records WHERE seq < ?2"

// lists are the queries by which the records of a state are found: each in order, by its index. A
// lease may have ended without anybody having written so.
var (
	listAll = []string{listRecords}
	lists   = map[once.RecordState][]string{
		once.InFlight: {listRecords + " AND state <> 2 AND state = 1"},
		once.Released: {listRecords + " AND state <> 2 AND state = 3"},
		once.Lost: {listRecords + " AND state <> 2 AND state = 1",
			listRecords + " AND state <> 2 AND state = 4"},
		once.Held: {listRecords + " AND state <> 2 AND state = 1",
			listRecords + " AND state <> 2 AND state = 5"},
	}
)

// recordsBefore returns the latest records before one, those that may be in a state, and whether
// there may be more.
func recordsBefore(c *conn, state once.RecordState, before int64) (part []*record, more bool,
	err error) {
	queries := lists[state]
	if queries == nil {
		queries = listAll
	}
	from := int64(0) // what a query has left out comes before this one
	for _, q := range queries {
		n := 0
		err := c.query(q+" ORDER BY seq DESC LIMIT ?3", func(r *stmt) error {
			row, err := scanRecord(r)
			row.corrupt = errors.Is(err, once.ErrCorrupt)
			part = append(part, row)
			n++
			return nil
		}, noData, before, recordPart)
		if err != nil {
			return nil, false, err
		}
		if n == recordPart {
			from, more = max(from, part[len(part)-1].seq), true
		}
	}
	if len(queries) > 1 {
		slices.SortFunc(part, func(a, b *record) int { return int(b.seq - a.seq) })
		part = slices.DeleteFunc(part, func(row *record) bool { return row.seq < from })
	}
	return part, more, nil
}
