package oncesqlite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// stored is a row as the writer sees it.
type stored struct {
	queue.Row
	lane  int64
	phase phase
	flags int64
	peer  string
	// tried is true while what came of a try is settled, not the decision of a person or of the
	// store itself.
	tried bool
	// retention and keepBody in microseconds.
	retention, keepBody int64
}

// rowColumns are read by scanRow; headColumns leave out what can be long.
const (
	headColumns = `seq, identity, kind, lane, phase, fence, attempt, lost, flags, revision,
	duplicates, conflicts, received_at, last_at, next_at, started_at, finished_at, expires_at,
	retention, keep_body, source, event, flow, task, order_key, key, resource, cause, error,
	dead_cause, waits, trace, peer, fingerprint, wait_until`
	rowColumns = headColumns + `, meta, body`
)

const (
	bySeq = "SELECT " + rowColumns + " FROM rows WHERE seq = ?"
	// byPlace reads a row that was found by its place, if it has such an identity.
	byPlace = bySeq + " AND identity >= ? AND identity <= ?"
)

// rowBy reads one row; once.ErrNotFound if there is none.
func (t *txn) rowBy(query string, args ...any) (*stored, error) {
	return readRow(t.c, query, args...)
}

func readRow(c *conn, query string, args ...any) (*stored, error) {
	var row *stored
	err := c.query(query, func(r *stmt) (err error) {
		row, err = scanRow(r, true)
		return err
	}, args...)
	if err == nil && row == nil {
		return nil, once.ErrNotFound
	}
	return row, err
}

// rowByID reads a row by its kind and public id.
func (s *Store) rowByID(c *conn, k queue.Kind, id string) (*stored, error) {
	prefix, err := once.ParseID(id)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", once.ErrNotFound, err)
	}
	last := once.Identity(bytes.Repeat([]byte{0xff}, len(once.Identity{})))
	copy(last[:], prefix[:])
	row, err := s.rowBetween(c, prefix[:], last[:])
	if err != nil {
		return nil, err
	}
	if row.Kind != k {
		return nil, once.ErrNotFound
	}
	return row, nil
}

// scanRow reads the columns of headColumns, and of rowColumns when full.
func scanRow(r *stmt, full bool) (*stored, error) {
	w := &stored{lane: r.int(3), phase: r.phase(4), flags: r.int(8), peer: r.text(32),
		retention: r.int(18), keepBody: r.int(19)}
	row := &w.Row
	row.Seq, row.Kind = r.int(0), queue.Kind(r.int(2))
	copy(row.Identity[:], r.raw.ColumnRawBlob(1))
	row.Fence, row.Attempt, row.Lost = r.int(5), int(r.int(6)), int(r.int(7))
	row.Revision, row.Duplicates, row.Conflicts = int(r.int(9)), r.int(10), r.int(11)
	row.ReceivedAt, row.LastAt = timeOf(r.int(12)), timeOf(r.int(13))
	row.NextAt, row.StartedAt = timeOf(r.int(14)), timeOf(r.int(15))
	row.FinishedAt, row.ExpiresAt = timeOf(r.int(16)), timeOf(r.int(17))
	row.Source, row.Event, row.Flow, row.Task = r.text(20), r.text(21), r.text(22), r.text(23)
	row.OrderKey, row.Resource, row.Cause = r.text(24), r.text(26), r.text(27)
	row.Error, row.DeadCause = r.text(28), queue.Cause(r.text(29))
	row.TraceParent, row.TraceState, _ = strings.Cut(r.text(31), " ")
	copy(row.Fingerprint[:], r.raw.ColumnRawBlob(33))
	row.WaitUntil = timeOf(r.int(34))
	row.State = w.phase.state(row.Kind)
	row.Frees = w.flags&flagFrees != 0
	row.LimitPassed = w.flags&flagLimitPassed != 0
	if row.LastAt.IsZero() {
		row.LastAt = row.ReceivedAt
	}
	if full {
		row.Meta, row.Body = r.blob(35), r.blob(36)
	}
	if err := texts(r.text(25), &row.Key); err != nil {
		return nil, fmt.Errorf("row %d: key: %w", row.Seq, err)
	}
	if err := texts(r.text(30), &row.Waits); err != nil {
		return nil, fmt.Errorf("row %d: waits: %w", row.Seq, err)
	}
	return w, nil
}

// traceText is a trace context as one column holds it: a traceparent has no blank.
func traceText(parent, state string) string {
	if state == "" {
		return parent
	}
	return parent + " " + state
}

// texts reads a JSON list of texts as keyText writes it; an empty text is an empty list.
func texts(s string, out *[]string) error {
	switch {
	case s == "":
		return nil
	case len(s) >= 4 && strings.HasPrefix(s, `["`) && strings.HasSuffix(s, `"]`) &&
		strings.IndexByte(s, '\\') < 0: // nothing is escaped, so quotes only stand around texts
		*out = strings.Split(s[2:len(s)-2], `","`)
		return nil
	}
	return json.Unmarshal([]byte(s), out)
}

// makeDue makes a row due at once, with its tries counted anew.
func (t *txn) makeDue(row *stored) error {
	p, err := t.placeInLine(row)
	if err != nil {
		return err
	}
	row.flags &^= flagBlock | flagLimitPassed
	err = t.c.exec("UPDATE rows SET phase = ?, attempt = 0, lost = 0, flags = ?, "+
		"next_at = NULL, finished_at = NULL, sweep_at = NULL, dead_cause = NULL "+
		"WHERE seq = ?", p, row.flags, row.Seq)
	if err != nil {
		return err
	}
	t.count(rowCounter(row.Kind, row.Source, row.State), -1)
	t.count(rowCounter(row.Kind, row.Source, queue.Pending), 1)
	t.ring(row.lane)
	t.forget(row.Identity)
	return nil
}
