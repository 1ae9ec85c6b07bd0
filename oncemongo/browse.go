package oncemongo

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// Readers are not in a batch: between the steps of a commit they may see some of what it writes and
// not yet the rest.

const (
	// maxPage bounds a page.
	maxPage = 1000
	// maxHistory bounds the lines of a task's history that are returned: the latest ones.
	maxHistory = 1000
)

// headOnly leaves out what can be long.
var headOnly = bson.D{{Key: "meta", Value: 0}, {Key: "body", Value: 0}, {Key: "attempts", Value: 0}}

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

// Rows returns a page of rows, latest first.
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
	found, err := s.find(ctx, rowsOf(q.Kind), pageFilter(q, before),
		bson.D{{Key: "_id", Value: -1}}, q.Limit+1, headOnly)
	if err != nil {
		return page, asUnavailable(err)
	}
	for i, raw := range found {
		var r row
		if err := bson.Unmarshal(raw, &r); err != nil {
			return page, fmt.Errorf("read a row: %w: %w", once.ErrCorrupt, err)
		}
		if i == q.Limit {
			page.Next = strconv.FormatInt(page.Rows[i-1].Seq, 36)
			break
		}
		out, err := s.explained(ctx, &r, true)
		if err != nil {
			return page, asUnavailable(err)
		}
		page.Rows = append(page.Rows, out)
	}
	return page, nil
}

func pageFilter(q queue.RowQuery, before int64) bson.D {
	f := bson.D{}
	for _, e := range []bson.E{{Key: "source", Value: q.Source},
		{Key: "state", Value: string(q.State)}, {Key: "event", Value: q.Event},
		{Key: "task", Value: q.Task}, {Key: "key", Value: q.Key}} {
		if e.Value != "" {
			f = append(f, e)
		}
	}
	if before > 0 {
		f = append(f, bson.E{Key: "_id", Value: bson.D{{Key: "$lt", Value: before}}})
	}
	return f
}

// explained returns a row as people see it; of one in line it says behind which row it waits:
// nothing else would.
func (s *Store) explained(ctx context.Context, r *row, head bool) (queue.Row, error) {
	out, err := r.public(head)
	if err != nil || r.Phase != phaseInLine {
		return out, err
	}
	var first *row
	for _, k := range []queue.Kind{queue.Callback, queue.Effect} {
		found, err := s.find(ctx, rowsOf(k), bson.D{{Key: "lane", Value: r.Lane},
			{Key: "order_key", Value: r.OrderKey}, {Key: "in_line", Value: true},
			{Key: "_id", Value: bson.D{{Key: "$lt", Value: r.Seq}}}},
			bson.D{{Key: "_id", Value: 1}}, 1, headOnly)
		if err != nil {
			return out, err
		}
		for _, raw := range found {
			var other row
			if err := bson.Unmarshal(raw, &other); err != nil {
				return out, fmt.Errorf("read a row: %w: %w", once.ErrCorrupt, err)
			}
			if first == nil || other.Seq < first.Seq {
				first = &other
			}
		}
	}
	if first != nil { // else those before it are through: it is due with the next commit
		out.Error = fmt.Sprintf("waits behind %v %s, which is %s", first.kind(), first.ID,
			first.State)
	}
	return out, nil
}

// Row returns one row with everything that is kept about it.
func (s *Store) Row(ctx context.Context, k queue.Kind, id string) (d queue.RowDetail, err error) {
	if _, err := once.ParseID(id); err != nil {
		return d, fmt.Errorf("%w: %w", once.ErrNotFound, err)
	}
	found, err := s.find(ctx, rowsOf(k), bson.D{{Key: "id", Value: id}}, nil, 1, nil)
	if err != nil {
		return d, asUnavailable(err)
	}
	if len(found) == 0 {
		return d, once.ErrNotFound
	}
	var r row
	if err := bson.Unmarshal(found[0], &r); err != nil {
		return d, fmt.Errorf("read a row: %w: %w", once.ErrCorrupt, err)
	}
	if d.Row, err = s.explained(ctx, &r, false); err != nil {
		return d, asUnavailable(err)
	}
	d.Attempts = attemptsOf(&r)
	if r.Duplicates+r.Conflicts > 0 {
		if d.Arrivals, err = s.arrivals(ctx, r.Seq); err != nil {
			return d, asUnavailable(err)
		}
	}
	if r.Acted {
		d.Audit, err = s.audit(ctx, k.String()+"/"+r.ID)
	}
	return d, asUnavailable(err)
}

func (s *Store) arrivals(ctx context.Context, seq int64) (out []queue.StoredArrival, err error) {
	found, err := s.find(ctx, arrivals, bson.D{{Key: "row", Value: seq}},
		bson.D{{Key: "n", Value: 1}}, 0, nil)
	if err != nil {
		return nil, err
	}
	for _, raw := range found {
		var d arrivalDoc
		if err := bson.Unmarshal(raw, &d); err != nil {
			return nil, fmt.Errorf("read an arrival: %w: %w", once.ErrCorrupt, err)
		}
		a := queue.StoredArrival{N: d.N, At: d.At.time(), Outcome: d.Outcome, Peer: d.Peer,
			Meta: d.Meta, Body: d.Body, Accepted: d.Accepted}
		if d.Fingerprint != "" {
			if err := unhex(a.Fingerprint[:], d.Fingerprint); err != nil {
				return nil, fmt.Errorf("read an arrival: %w: %w", once.ErrCorrupt, err)
			}
		}
		out = append(out, a)
	}
	return out, nil
}

// attemptsOf returns the remembered tries, and the last one where that is kept in the row itself.
func attemptsOf(r *row) (out []queue.Attempt) {
	for _, a := range r.Attempts {
		out = append(out, queue.Attempt{N: a.N, StartedAt: a.StartedAt.time(),
			EndedAt: a.EndedAt.time(), Result: a.Result, Error: a.Error})
	}
	switch r.State {
	case queue.Done, queue.Stale, queue.Unrouted, queue.Expired, queue.Parked:
	default:
		return out
	}
	if n := len(r.Attempts); r.StartedAt == 0 || n > 0 &&
		r.Attempts[n-1].N == r.Attempt && r.Attempts[n-1].StartedAt == r.StartedAt {
		return out
	}
	last := queue.Attempt{N: r.Attempt, StartedAt: r.StartedAt.time(),
		EndedAt: r.FinishedAt.time(), Result: string(r.State), Error: r.Error}
	if r.State == queue.Parked { // decided and parked in one commit
		last.EndedAt = last.StartedAt
	}
	return append(out, last)
}

func (s *Store) audit(ctx context.Context, target string) (out []queue.AuditEntry, err error) {
	found, err := s.find(ctx, audit, bson.D{{Key: "target", Value: target}},
		bson.D{{Key: "n", Value: 1}}, 0, nil)
	if err != nil {
		return nil, err
	}
	for _, raw := range found {
		var d auditDoc
		if err := bson.Unmarshal(raw, &d); err != nil {
			return nil, fmt.Errorf("read an action: %w: %w", once.ErrCorrupt, err)
		}
		out = append(out, queue.AuditEntry{At: d.At.time(), Target: d.Target,
			Action: queue.Action{Name: d.Action, Actor: d.Actor, Reason: d.Reason}})
	}
	return out, nil
}

// Task returns a task and its history.
func (s *Store) Task(ctx context.Context, flow, id string) (task queue.Task,
	lines []queue.HistoryEntry, err error) {
	found, err := s.find(ctx, tasks, bson.D{{Key: "_id", Value: pairID(flow, id)}}, nil, 1, nil)
	if err != nil {
		return task, nil, asUnavailable(err)
	}
	if len(found) == 0 {
		return task, nil, once.ErrNotFound
	}
	var d taskDoc
	if err := bson.Unmarshal(found[0], &d); err != nil {
		return task, nil, fmt.Errorf("read a task: %w: %w", once.ErrCorrupt, err)
	}
	if task, err = d.public(); err != nil {
		return task, nil, err
	}
	found, err = s.find(ctx, history, bson.D{{Key: "task", Value: d.N}},
		bson.D{{Key: "version", Value: -1}}, maxHistory, nil)
	if err != nil {
		return task, nil, asUnavailable(err)
	}
	for _, raw := range slices.Backward(found) {
		var h historyDoc
		if err := bson.Unmarshal(raw, &h); err != nil {
			return task, nil, fmt.Errorf("read a history: %w: %w", once.ErrCorrupt, err)
		}
		lines = append(lines, queue.HistoryEntry{Version: h.Version, At: h.At.time(),
			Event: h.Event, From: h.From, To: h.To, Note: h.Note, Actor: h.Actor,
			Reason: h.Reason, Callback: h.Callback})
	}
	return task, lines, nil
}
