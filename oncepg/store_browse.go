package oncepg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/turn"
	"github.com/oncekit/once/queue"
)

const (
	// maxPage bounds a page.
	maxPage = 1000
	// maxLook bounds the rows that one page looks at.
	maxLook = 10_000
	// maxHistory bounds the lines of a task's history that are returned: the latest ones.
	maxHistory = 1000
)

// cursorOf reads where a page goes on; 0: at its beginning.
func cursorOf(what, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 36, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s: cursor %q was not given by a page", what, text)
	}
	return n, nil
}

// gone makes a fault of the database one of the store.
func away(err error) error { return turn.AsUnavailable(turn.Fault(err)) }

// planned has a statement planned with the values of its arguments, which decide what index is the
// best one. A statement that is kept, as others are, is soon planned without them.
func planned(args []any) []any { return append([]any{pgx.QueryExecModeExec}, args...) }

// phasesOf are the phases that people see as a state.
func phasesOf(s queue.State, k queue.Kind) []turn.Phase {
	var out []turn.Phase
	for _, p := range turn.Phases {
		if p.State(k) == s {
			out = append(out, p)
		}
	}
	return out
}

// Rows returns a page of rows, latest first. What is looked at is found by one of the filters, the
// one that selects the fewest as a rule; the others leave rows out, and a page that has looked at
// very many ends there.
func (s *Store) Rows(ctx context.Context, q queue.RowQuery) (queue.RowPage, error) {
	var page queue.RowPage
	if q.Limit < 1 || q.Limit > maxPage {
		return page, fmt.Errorf("rows: limit %d, want 1 to %d", q.Limit, maxPage)
	}
	if q.State != "" && !q.State.Valid(q.Kind) {
		return page, fmt.Errorf("rows: no state %q of a %v", q.State, q.Kind)
	}
	before, err := cursorOf("rows", q.Cursor)
	if err != nil {
		return page, err
	}
	f, all := pageFilter(q, before)
	look := q.Limit + 1
	if !all {
		look = maxLook
	}
	f.args = append(f.args, look, q.Limit+1)
	n := len(f.args)
	text := s.sql.at(`SELECT ` + rowColumns + ` FROM (SELECT * FROM @queue_rows r WHERE ` +
		f.where() + ` ORDER BY r.seq DESC LIMIT $` + strconv.Itoa(n-1) + `) r WHERE ` +
		restFilter(q, f) + ` ORDER BY r.seq DESC LIMIT $` + strconv.Itoa(n))
	rows, err := s.pool.Query(ctx, text, planned(f.args)...)
	found, err := scanned(rows, err, scanHead)
	if err != nil {
		return page, away(err)
	}
	if len(found) > q.Limit {
		page.Next = strconv.FormatInt(found[q.Limit-1].Seq, 36)
		found = found[:q.Limit]
	} else if !all {
		if page.Next, err = s.lookedAt(ctx, q, before); err != nil {
			return page, away(err)
		}
	}
	page.Rows, err = s.explained(ctx, found, true)
	return page, away(err)
}

// pageFilter selects what a page looks at: by its kind, where it goes on, and the one other filter
// that has an index. all tells that there is none beside.
func pageFilter(q queue.RowQuery, before int64) (f *filter, all bool) {
	f = &filter{}
	f.add("r.kind = $", int16(q.Kind))
	if before > 0 {
		f.add("r.seq < $", before)
	}
	n := 0
	for _, text := range []string{q.Source, string(q.State), q.Event, q.Task, q.Key} {
		if text != "" {
			n++
		}
	}
	switch {
	case q.Key != "":
		f.add("r.key_marks @> ARRAY[$::bigint]", mark(q.Key))
		f.add("r.key @> ARRAY[$::text]", recordText(q.Key))
	case q.Task != "":
		f.long("task", q.Task)
		f.add("r.task <> ''")
	case q.State != "":
		f.state(q)
	case q.Event != "":
		f.long("event", q.Event)
	default:
		f.text("source", q.Source)
	}
	// What is pending or done has no index of its own: it is among the others.
	scans := q.State != "" && q.Key == "" && q.Task == "" && !isUnwell(q.State)
	if scans {
		f.parts = f.parts[:len(f.parts)-1]
	}
	return f, n <= 1 && !scans
}

func (f *filter) state(q queue.RowQuery) {
	f.add("r.phase IN (" + phaseLiterals(phasesOf(q.State, q.Kind)) + ")")
}

// isUnwell reports whether the rows of a state have an index.
func isUnwell(s queue.State) bool {
	return s == queue.Parked || s == queue.Held || s == queue.Dead || s == queue.Stale ||
		s == queue.Unrouted || s == queue.Expired || s == queue.Discarded
}

// restFilter leaves out what the other filters of a page do. Its arguments go behind those of f.
func restFilter(q queue.RowQuery, f *filter) string {
	rest := &filter{args: f.args}
	rest.text("source", q.Source)
	rest.text("event", q.Event)
	rest.text("task", q.Task)
	if q.State != "" {
		rest.state(q)
	}
	f.args = rest.args
	return rest.where()
}

// lookedAt is the cursor behind the last row that a page has looked at; empty: it saw all.
func (s *Store) lookedAt(ctx context.Context, q queue.RowQuery, before int64) (string, error) {
	f, _ := pageFilter(q, before)
	f.args = append(f.args, maxLook)
	var seq, n int64
	err := s.pool.QueryRow(ctx, s.sql.at(`SELECT coalesce(min(seq), 0), count(*) FROM (
		SELECT r.seq FROM @queue_rows r WHERE `+f.where()+` ORDER BY r.seq DESC LIMIT $`+
		strconv.Itoa(len(f.args))+`) r`), planned(f.args)...).Scan(&seq, &n)
	if err != nil || n < maxLook {
		return "", err
	}
	return strconv.FormatInt(seq, 36), nil
}

// explained returns rows as people see them; of one in line it says behind which row it waits:
// nothing else would.
func (s *Store) explained(ctx context.Context, list []*turn.Row, head bool) ([]queue.Row, error) {
	var out []queue.Row
	for _, r := range list {
		row := r.Public(head)
		if r.Phase == turn.InLine {
			first, err := s.heldUpBy(ctx, r)
			if err != nil {
				return nil, err
			}
			if first != nil { // else those before it are through: it is due with the next commit
				row.Error = fmt.Sprintf("waits behind %v %s, which is %s", first.Kind(), first.ID(),
					first.State)
			}
		}
		out = append(out, row)
	}
	return out, nil
}

// heldUpBy is the first row of the line in which a row stands; nil: none is before it.
func (s *Store) heldUpBy(ctx context.Context, r *turn.Row) (*turn.Row, error) {
	f := &filter{}
	f.text("lane", r.Lane)
	f.long("order_key", r.OrderKey)
	f.add("r.in_line")
	f.add("r.seq < $", r.Seq)
	rows, err := s.pool.Query(ctx, s.sql.at(`SELECT `+rowColumns+` FROM @queue_rows r WHERE `+
		f.where()+` ORDER BY r.seq LIMIT 1`), planned(f.args)...)
	found, err := scanned(rows, err, scanHead)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// Row returns one row with everything that is kept about it.
func (s *Store) Row(ctx context.Context, k queue.Kind, id string) (d queue.RowDetail, err error) {
	raw, err := once.ParseID(id)
	if err != nil {
		return d, fmt.Errorf("%w: %w", once.ErrNotFound, err)
	}
	from, to := idRange(raw)
	rows, err := s.pool.Query(ctx, s.sql.rows+
		"r.identity >= $1 AND r.identity <= $2 AND r.kind = $3 LIMIT 1", from, to, int16(k))
	found, err := scanned(rows, err, scanWholeRow)
	if err != nil {
		return d, away(err)
	}
	if len(found) == 0 {
		return d, once.ErrNotFound
	}
	r := found[0]
	public, err := s.explained(ctx, found, false)
	if err != nil {
		return d, away(err)
	}
	d.Row, d.Attempts = public[0], r.Tries()
	if r.Duplicates+r.Conflicts > 0 {
		if d.Arrivals, err = s.storedArrivals(ctx, r.Seq); err != nil {
			return d, away(err)
		}
	}
	if r.Acted {
		d.Audit, err = s.storedAudit(ctx, k.String()+"/"+r.ID())
	}
	return d, away(err)
}

func (s *Store) storedArrivals(ctx context.Context, seq int64) (out []queue.StoredArrival,
	err error) {
	rows, err := s.pool.Query(ctx, s.sql.arrivals+"a.seq = $1 ORDER BY a.n", seq)
	found, err := scanned(rows, err, scanArrival)
	for _, d := range found {
		out = append(out, queue.StoredArrival{N: d.N, At: d.At.Time(), Outcome: d.Outcome,
			Peer: d.Peer, Fingerprint: d.Fingerprint, Meta: d.Meta, Body: d.Body,
			Accepted: d.Accepted})
	}
	return out, err
}

func (s *Store) storedAudit(ctx context.Context, target string) (out []queue.AuditEntry,
	err error) {
	rows, err := s.pool.Query(ctx, s.sql.at(`SELECT at, action, actor, reason FROM @audit
		WHERE target = $1 ORDER BY n`), recordText(target))
	found, err := scanned(rows, err, func(rows pgx.Rows) (*queue.AuditEntry, error) {
		e, at := &queue.AuditEntry{Target: target}, turn.Stamp(0)
		err := rows.Scan(into(&at), &e.Action.Name, &e.Action.Actor, &e.Action.Reason)
		e.At = at.Time()
		e.Action.Actor, e.Action.Reason = plainText(e.Action.Actor), plainText(e.Action.Reason)
		return e, err
	})
	for _, e := range found {
		out = append(out, *e)
	}
	return out, err
}

// Task returns a task and its history.
func (s *Store) Task(ctx context.Context, flow, id string) (task queue.Task,
	lines []queue.HistoryEntry, err error) {
	rows, err := s.pool.Query(ctx, s.sql.tasks+"t.flow = $1 AND t.task = $2", recordText(flow),
		recordText(id))
	found, err := scanned(rows, err, scanWholeTask)
	if err != nil {
		return task, nil, away(err)
	}
	if len(found) == 0 {
		return task, nil, once.ErrNotFound
	}
	rows, err = s.pool.Query(ctx, s.sql.at(`SELECT version, at, event, state_before, state_after,
		note, actor, reason, callback FROM @task_history WHERE n = $1 ORDER BY version DESC
		LIMIT $2`), found[0].N, maxHistory)
	list, err := scanned(rows, err, scanHistory)
	for _, h := range slices.Backward(list) {
		lines = append(lines, *h)
	}
	return found[0].Public(), lines, away(err)
}

func scanHistory(rows pgx.Rows) (*queue.HistoryEntry, error) {
	h, at := &queue.HistoryEntry{}, turn.Stamp(0)
	err := rows.Scan(&h.Version, into(&at), &h.Event, &h.From, &h.To, &h.Note, &h.Actor, &h.Reason,
		&h.Callback)
	h.At = at.Time()
	for _, text := range []*string{&h.Event, &h.From, &h.To, &h.Note, &h.Actor, &h.Reason,
		&h.Callback} {
		*text = plainText(*text)
	}
	return h, err
}

// Counts returns the kept counters.
func (s *Store) Counts(ctx context.Context) (queue.Counts, error) {
	out := queue.Counts{Rows: map[queue.RowCount]int64{}, Tasks: map[queue.TaskCount]int64{}}
	rows, err := s.pool.Query(ctx, s.sql.at(`SELECT what, source, state, sum(n)::bigint
		FROM @counters GROUP BY what, source, state`))
	if err != nil {
		return out, away(err)
	}
	var k turn.CounterKey
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&k.Of, &k.Source, &k.State, &n}, func() error {
		turn.CounterKey{Of: k.Of, Source: plainText(k.Source), State: plainText(k.State)}.
			AddTo(&out, n)
		return nil
	})
	return out, away(err)
}

// EventInUse reports whether a callback that is not finished carries the event.
func (s *Store) EventInUse(ctx context.Context, flow, event string) (bool, error) {
	q := turn.RowQuery{Kind: queue.Callback, Flow: flow, Event: event, Phases: turn.Unfinished}
	f := queryFilter(&q)
	var one int
	err := s.pool.QueryRow(ctx, s.sql.at("SELECT 1 FROM @queue_rows r WHERE "+f.where()+" LIMIT 1"),
		planned(f.args)...).Scan(&one)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, away(err)
}
