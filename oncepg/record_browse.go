package oncepg

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/oncekit/once"
)

const (
	defaultRecordPage = 100
	// recordScan bounds the rows that are looked at for one page, however few of them are asked
	// for.
	recordScan = 5000
	// maxRecordSweep bounds the records of one sweep.
	maxRecordSweep = 1000
)

// Record implements [once.Browser].
func (r *Records) Record(ctx context.Context, id once.Identity) (once.Record, error) {
	var out once.Record
	err := r.step(ctx, r.own, func(ctx context.Context, s stepper) (bool, error) {
		old, err := s.look(ctx, id, once.Owner{}, true)
		switch {
		case errors.Is(err, once.ErrCorrupt):
			return true, err
		case err != nil:
			return false, err
		case old == nil || old.past():
			return true, once.ErrNotFound
		}
		out = old.public()
		return true, nil
	})
	if err != nil {
		return once.Record{}, stepError("read record", err)
	}
	return out, nil
}

// pageSQL reads a page in the order of the identities, so that a record is shown once, whatever
// comes meanwhile. Its last row is where the next one begins, if there may be one. $2 is where it
// begins, $3 how many are asked for, $4 how many are looked at, $5 the scope, if it is asked for.
const pageSQL = `
WITH {now}, part ({names}, parts, past) AS MATERIALIZED (
	SELECT {columns}, r.scope, {past} FROM {table} r
	WHERE r.identity > $2::bytea{state}
	ORDER BY r.identity LIMIT $4::text::bigint
), page AS (
	SELECT {names} FROM part WHERE NOT coalesce(past, false){scope}
	ORDER BY c1 LIMIT $3::text::bigint
), looked AS (
	SELECT c1, count(*) OVER () AS n FROM part ORDER BY c1 DESC LIMIT 1
), shown AS (
	SELECT c1, count(*) OVER () AS n FROM page ORDER BY c1 DESC LIMIT 1
)
SELECT {at}, page.* FROM page, clock
UNION ALL
SELECT 'next', coalesce(full_page.c1, looked.c1), {nulls}
FROM looked
LEFT JOIN shown AS full_page ON full_page.n = $3::text::bigint
WHERE looked.n = $4::text::bigint OR full_page.n IS NOT NULL AND
	full_page.c1 < looked.c1`

// pageStates narrow a page to a state, in words that the index of what is not completed knows.
var pageStates = map[once.RecordState]string{
	"":             "",
	once.InFlight:  " AND r.state = 'in_flight' AND r.lease_end > (SELECT now FROM clock)",
	once.Completed: " AND r.state = 'completed'",
	once.Released:  " AND r.state = 'released'",
	once.Lost: " AND r.state IN ('in_flight', 'unknown') AND NOT r.hold AND " +
		"(r.state = 'unknown' OR r.lease_end <= (SELECT now FROM clock))",
	once.Held: " AND r.state IN ('in_flight', 'unknown') AND r.hold AND " +
		"(r.state = 'unknown' OR r.lease_end <= (SELECT now FROM clock))",
}

func (r *Records) pageQuery(f once.RecordFilter, after []byte) (query, bool) {
	state, known := pageStates[f.State]
	scope := ""
	if len(f.Scope) > 0 {
		scope = " AND parts = $5::text::text[]"
	}
	nulls := "NULL::bytea, NULL::text, NULL::text, NULL::bytea" +
		strings.Repeat(", NULL::text", recordColumns-5)
	var names []string
	for i := range recordColumns {
		names = append(names, "c"+strconv.Itoa(i+1))
	}
	text := strings.NewReplacer("{state}", state, "{scope}", scope, "{nulls}", nulls,
		"{names}", strings.Join(names, ", "), "{at}", microsOf("now")).Replace(pageSQL)
	text = strings.ReplaceAll(recordParts.Replace(text), "{table}", r.sql.table)
	args := []any{r.offset.arg(), after, strconv.Itoa(f.Limit), strconv.Itoa(recordScan)}
	if scope != "" {
		args = append(args, scopeText(f.Scope))
	}
	return query{text, args}, known
}

// Records implements [once.Browser]. A page looks at up to 5000 records, so one that asks for few
// among many may be short, and has a Next.
func (r *Records) Records(ctx context.Context, f once.RecordFilter) (once.RecordPage, error) {
	after, err := hex.DecodeString(f.After)
	if err != nil || len(after) != 0 && len(after) != len(once.Identity{}) {
		return once.RecordPage{}, fmt.Errorf("list records: no page begins at %q", f.After)
	}
	if f.Limit <= 0 {
		f.Limit = defaultRecordPage
	}
	f.Limit = min(f.Limit, once.MaxRecordPage)
	f.Scope = once.Note{Scope: f.Scope}.Cut().Scope
	q, known := r.pageQuery(f, after)
	if !known {
		return once.RecordPage{}, nil
	}
	var page once.RecordPage
	err = r.step(ctx, r.own, func(ctx context.Context, s stepper) (bool, error) {
		got, err := s.ask(ctx, q)
		if err != nil {
			return false, err
		}
		page = readPage(got, f.State == "")
		return true, nil
	})
	if err != nil {
		return once.RecordPage{}, stepError("list records", err)
	}
	return page, nil
}

// readPage reads the rows of a page. A record that can't be read is listed without a state where
// none was asked for.
func readPage(rows []row, all bool) (page once.RecordPage) {
	for _, found := range rows {
		if *found[0] == "next" {
			page.Next = hex.EncodeToString([]byte(*found[1]))
			continue
		}
		at := cells{row: found}
		rec, err := readRecord(found[1:], at.int())
		switch {
		case err == nil:
			page.Records = append(page.Records, rec.public())
		case all:
			page.Records = append(page.Records, once.Record{
				Identity: rec.Identity, Fingerprint: rec.fingerprint, Note: rec.note,
			})
		}
	}
	return page
}

// Sweep implements [once.Sweeper]. One call removes at most 1000 records, the oldest first. Several
// may sweep at the same time.
func (r *Records) Sweep(ctx context.Context, limit int) (int, error) {
	if limit < 1 {
		return 0, fmt.Errorf("sweep records: limit %d, want at least 1", limit)
	}
	n := 0
	err := r.step(ctx, r.own, func(ctx context.Context, s stepper) (bool, error) {
		got, err := s.ask(ctx, query{s.sql.sweeps,
			[]any{s.offset.arg(), strconv.Itoa(min(limit, maxRecordSweep))}})
		if err != nil {
			return false, err
		}
		n, err = strconv.Atoi(*got[0][0])
		return true, err
	})
	if err != nil {
		return 0, stepError("sweep records", err)
	}
	return n, nil
}
