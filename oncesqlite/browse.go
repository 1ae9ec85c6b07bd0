package oncesqlite

import (
	"context"
	"fmt"
	"strconv"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

const (
	// maxPage bounds a page.
	maxPage = 1000
	// maxLooks bounds the rows that one page may look at, maxProbes the segments of the search
	// index: past either the page ends early and says where to go on.
	maxLooks, maxProbes = 5000, 1500
)

// Rows returns a page of rows, latest first.
func (s *Store) Rows(ctx context.Context, q queue.RowQuery) (queue.RowPage, error) {
	if q.Limit < 1 || q.Limit > maxPage {
		return queue.RowPage{}, fmt.Errorf("rows: limit %d, want 1 to %d", q.Limit, maxPage)
	}
	if q.State != "" && !q.State.Valid(q.Kind) {
		return queue.RowPage{}, fmt.Errorf("rows: no state %q of a %v", q.State, q.Kind)
	}
	before := int64(1) << 62
	if q.Cursor != "" {
		n, err := strconv.ParseInt(q.Cursor, 36, 64)
		if err != nil || n < 1 {
			return queue.RowPage{}, fmt.Errorf("rows: cursor %q was not given by a page", q.Cursor)
		}
		before = n
	}
	var page queue.RowPage
	err := s.read(ctx, func(c *conn) (err error) {
		page, err = s.page(c, q, before)
		return err
	})
	return page, err
}

// walker gives the numbers of rows, latest first.
type walker interface {
	// at returns the next number, and false at the end.
	at() (int64, bool, error)
	// costly reports whether enough was looked at for one page.
	costly() bool
}

// page walks the narrowest index that fits and looks at each row.
func (s *Store) page(c *conn, q queue.RowQuery, before int64) (page queue.RowPage, err error) {
	w, err := walk(c, q, before)
	if err != nil {
		return page, err
	}
	for looks := 0; ; looks++ {
		seq, ok, err := w.at()
		if err != nil || !ok {
			return page, err
		}
		if len(page.Rows) == q.Limit || looks == maxLooks || looks > 0 && w.costly() {
			page.Next = strconv.FormatInt(seq+1, 36)
			return page, nil
		}
		match, err := matches(c, seq, q)
		if err != nil {
			return page, err
		}
		if !match {
			continue
		}
		row, err := rowHead(c, seq)
		if err != nil {
			return page, err
		}
		if err := explain(c, row); err != nil {
			return page, err
		}
		page.Rows = append(page.Rows, row.Row)
	}
}

// walk picks the index: what names one thing before what names many.
func walk(c *conn, q queue.RowQuery, before int64) (walker, error) {
	var v term
	switch {
	case q.Key != "":
		v = termOf(q.Key)
	case q.Task != "":
		v = termOf(q.Task)
	case q.State != "" && q.State != queue.Done:
		return newStateWalk(c, q, before)
	case q.Event != "":
		v = termOf(q.Event)
	case q.Source != "":
		v = termOf(q.Source)
	default:
		v = kindTerm(q.Kind)
	}
	p, err := newPostings(c, v, before)
	return termWalk{p}, err
}

type termWalk struct{ p *postings }

func (w termWalk) at() (int64, bool, error) {
	ok := w.p.next()
	return w.p.seq, ok, w.p.err
}

func (w termWalk) costly() bool { return w.p.probes > maxProbes }

// stateWalk merges the parts of the index of work that make up a state.
type stateWalk struct {
	c     *conn
	parts []*workPart
}

// workPart is what one lane has in one phase, latest first, read page by page.
type workPart struct {
	phase phase
	lane  int64
	seqs  []int64
	ended bool
	// before: only rows with a smaller seq.
	before int64
}

// workPage is how many numbers of a part are read at once.
const workPage = 64

// newStateWalk finds the lanes that have rows in the state and rows of the kind.
func newStateWalk(c *conn, q queue.RowQuery, before int64) (*stateWalk, error) {
	w := &stateWalk{c: c}
	for _, p := range phases(q.State) {
		for lane, more := int64(0), true; more; {
			var kinds int64
			var err error
			more, err = c.one("SELECT r.lane, l.kinds "+
				"FROM rows AS r JOIN lanes AS l ON l.id = r.lane "+
				"WHERE r.phase = ? AND r.lane > ? ORDER BY r.lane LIMIT 1",
				func(r *stmt) { lane, kinds = r.int(0), r.int(1) }, p, lane)
			if err != nil {
				return nil, err
			}
			if more && kinds&int64(q.Kind) != 0 {
				w.parts = append(w.parts, &workPart{phase: p, lane: lane, before: before})
			}
		}
	}
	return w, nil
}

// fill reads the part's next page when there is none.
func (p *workPart) fill(c *conn) error {
	if len(p.seqs) > 0 || p.ended {
		return nil
	}
	err := c.query("SELECT seq FROM rows WHERE phase = ? AND lane = ? AND seq < ? "+
		"ORDER BY seq DESC LIMIT ?", func(r *stmt) error {
		p.seqs = append(p.seqs, r.int(0))
		return nil
	}, p.phase, p.lane, p.before, workPage)
	p.ended = len(p.seqs) < workPage
	if len(p.seqs) > 0 {
		p.before = p.seqs[len(p.seqs)-1]
	}
	return err
}

func (w *stateWalk) at() (int64, bool, error) {
	var best *workPart
	for _, p := range w.parts {
		if err := p.fill(w.c); err != nil {
			return 0, false, err
		}
		if len(p.seqs) > 0 && (best == nil || p.seqs[0] > best.seqs[0]) {
			best = p
		}
	}
	if best == nil {
		return 0, false, nil
	}
	seq := best.seqs[0]
	best.seqs = best.seqs[1:]
	return seq, true, nil
}

func (w *stateWalk) costly() bool { return false }

// matches compares a row with a query. It reads no more than that needs.
func matches(c *conn, seq int64, q queue.RowQuery) (bool, error) {
	var ok bool
	_, err := c.one("SELECT kind, source, event, task, phase, key FROM rows WHERE seq = ?",
		func(r *stmt) {
			k := queue.Kind(r.int(0))
			ok = k == q.Kind &&
				(q.Source == "" || r.text(1) == q.Source) &&
				(q.Event == "" || r.text(2) == q.Event) &&
				(q.Task == "" || r.text(3) == q.Task) &&
				(q.State == "" || r.phase(4).state(k) == q.State) &&
				(q.Key == "" || hasPart(r.text(5), q.Key))
		}, seq)
	return ok, err
}

func hasPart(keyText, part string) bool {
	var parts []string
	if err := texts(keyText, &parts); err != nil {
		return false
	}
	for _, p := range parts {
		if p == part {
			return true
		}
	}
	return false
}

// Row returns one row with everything that is kept about it.
func (s *Store) Row(ctx context.Context, k queue.Kind, id string) (d queue.RowDetail, err error) {
	err = s.read(ctx, func(c *conn) error {
		row, err := s.rowByID(c, k, id)
		if err != nil {
			return err
		}
		if err := explain(c, row); err != nil {
			return err
		}
		d.Row = row.Row
		if d.Arrivals, err = arrivals(c, row.Seq); err != nil {
			return err
		}
		if d.Attempts, err = attempts(c, row); err != nil {
			return err
		}
		d.Audit, err = audit(c, k.String()+"/"+row.ID())
		return err
	})
	return d, err
}

func arrivals(c *conn, seq int64) (out []queue.StoredArrival, err error) {
	err = c.query("SELECT n, at, outcome, peer, fingerprint, meta, body, accepted FROM receipts "+
		"WHERE seq = ? ORDER BY n", func(r *stmt) error {
		a := queue.StoredArrival{N: r.int(0), At: timeOf(r.int(1)),
			Outcome: queue.Outcome(r.text(2)), Peer: r.text(3), Meta: r.blob(5), Body: r.blob(6),
			Accepted: r.text(7)}
		copy(a.Fingerprint[:], r.raw.ColumnRawBlob(4))
		out = append(out, a)
		return nil
	}, seq)
	return out, err
}

// attempts returns the remembered tries, and the last one where that is kept in the row itself.
func attempts(c *conn, row *stored) (out []queue.Attempt, err error) {
	err = c.query("SELECT attempt, started_at, ended_at, result, error FROM attempts "+
		"WHERE seq = ? ORDER BY n", func(r *stmt) error {
		out = append(out, queue.Attempt{N: int(r.int(0)), StartedAt: timeOf(r.int(1)),
			EndedAt: timeOf(r.int(2)), Result: r.text(3), Error: r.text(4)})
		return nil
	}, row.Seq)
	switch row.State {
	case queue.Done, queue.Stale, queue.Unrouted, queue.Expired, queue.Parked:
	default:
		return out, err
	}
	if n := len(out); row.StartedAt.IsZero() ||
		n > 0 && out[n-1].N == row.Attempt && out[n-1].StartedAt.Equal(row.StartedAt) {
		return out, err
	}
	last := queue.Attempt{N: row.Attempt, StartedAt: row.StartedAt, EndedAt: row.FinishedAt,
		Result: string(row.State), Error: row.Error}
	if row.State == queue.Parked { // decided and parked in one transaction
		last.EndedAt = row.StartedAt
	}
	return append(out, last), err
}

func audit(c *conn, target string) (out []queue.AuditEntry, err error) {
	err = c.query("SELECT at, action, actor, reason FROM audit WHERE target = ? ORDER BY id",
		func(r *stmt) error {
			out = append(out, queue.AuditEntry{At: timeOf(r.int(0)), Target: target,
				Action: queue.Action{Name: r.text(1), Actor: r.text(2), Reason: r.text(3)}})
			return nil
		}, target)
	return out, err
}

// maxHistory bounds the lines of a task's history that are returned: the latest ones.
const maxHistory = 1000

// Task returns a task and its history.
func (s *Store) Task(ctx context.Context, flow, id string) (task queue.Task,
	lines []queue.HistoryEntry, err error) {
	err = s.read(ctx, func(c *conn) error {
		var row int64
		if task, row, err = readTask(c, flow, id); err != nil {
			return err
		}
		if row == 0 {
			return once.ErrNotFound
		}
		return c.query("SELECT version, at, event, origin, state, note, actor, reason, callback "+
			"FROM (SELECT * FROM history WHERE id = ? ORDER BY version DESC LIMIT ?) "+
			"ORDER BY version", func(r *stmt) error {
			lines = append(lines, queue.HistoryEntry{Version: r.int(0), At: timeOf(r.int(1)),
				Event: r.text(2), From: r.text(3), To: r.text(4), Note: r.text(5),
				Actor: r.text(6), Reason: r.text(7), Callback: r.text(8)})
			return nil
		}, row, maxHistory)
	})
	return task, lines, err
}

// Rejected returns the latest refused messages.
func (s *Store) Rejected(ctx context.Context, source string, limit int) ([]queue.Rejected, error) {
	if limit < 1 || limit > maxPage {
		return nil, fmt.Errorf("rejected: limit %d, want 1 to %d", limit, maxPage)
	}
	var out []queue.Rejected
	err := s.read(ctx, func(c *conn) error {
		query := "SELECT id, source, at, outcome, reason, peer, meta, body, size FROM rejected "
		var args []any
		if source != "" {
			query, args = query+"WHERE source = ? ", append(args, source)
		}
		return c.query(query+"ORDER BY id DESC LIMIT ?", func(r *stmt) error {
			out = append(out, queue.Rejected{ID: r.int(0), Source: r.text(1), At: timeOf(r.int(2)),
				Outcome: queue.Outcome(r.text(3)), Reason: r.text(4), Peer: r.text(5),
				Meta: r.blob(6), Body: r.blob(7), Size: r.int(8)})
			return nil
		}, append(args, limit)...)
	})
	return out, err
}

// explain says of a row in line behind which row it waits: nothing else would.
func explain(c *conn, row *stored) error {
	if row.phase != phaseInLine {
		return nil
	}
	first, err := c.int("SELECT min(seq) FROM lines WHERE lane = ? AND order_key = ? AND seq < ?",
		row.lane, row.OrderKey, row.Seq)
	if err != nil || first == 0 {
		return err // those before it are through: it is due with the next commit
	}
	before, err := rowHead(c, first)
	if err == nil {
		row.Error = fmt.Sprintf("waits behind %v %s, which is %s", before.Kind, before.ID(),
			before.State)
	}
	return err
}

// rowHead reads a row without what can be long; once.ErrNotFound if there is none.
func rowHead(c *conn, seq int64) (*stored, error) {
	var row *stored
	err := c.query("SELECT "+headColumns+" FROM rows WHERE seq = ?", func(r *stmt) (err error) {
		row, err = scanRow(r, false)
		return err
	}, seq)
	if err == nil && row == nil {
		return nil, once.ErrNotFound
	}
	return row, err
}
