package oncepg

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/oncekit/once/internal/turn"
	"github.com/oncekit/once/queue"
)

// maxWaiting bounds the waiters of a resource that are counted.
const maxWaiting = 1000

// Tasks returns a page of tasks, those that were created last first. With a state but no flow a
// page looks at a bounded number of tasks, and may end before its limit.
func (s *Store) Tasks(ctx context.Context, q queue.TaskQuery) (queue.TaskPage, error) {
	var page queue.TaskPage
	if q.Limit < 1 || q.Limit > maxPage {
		return page, fmt.Errorf("tasks: limit %d, want 1 to %d", q.Limit, maxPage)
	}
	before, err := cursorOf("tasks", q.Cursor)
	if err != nil {
		return page, err
	}
	f := &filter{}
	f.add("NOT t.gone")
	if before > 0 {
		f.add("t.n < $", before)
	}
	if q.Flow != "" {
		f.add("t.flow = $", recordText(q.Flow))
	}
	if q.Flow != "" && q.State != "" {
		f.add("t.state = $", recordText(q.State))
	}
	look := q.Limit + 1
	if q.State != "" && q.Flow == "" {
		look = maxLook
	}
	f.args = append(f.args, look)
	rows, err := s.pool.Query(ctx, s.sql.at(`SELECT `+taskColumns+` FROM @tasks t WHERE `+
		f.where()+` ORDER BY t.n DESC LIMIT $`+strconv.Itoa(len(f.args))), planned(f.args)...)
	found, err := scanned(rows, err, func(rows pgx.Rows) (*turn.Task, error) {
		return scanTask(rows)
	})
	if err != nil {
		return page, away(err)
	}
	last := int64(0)
	for i, d := range found {
		if q.State != "" && d.State != q.State {
			if last = d.N; i == maxLook-1 {
				page.Next = strconv.FormatInt(last, 36)
			}
			continue
		}
		if len(page.Tasks) == q.Limit {
			page.Next = strconv.FormatInt(last, 36)
			break
		}
		last = d.N
		if i == maxLook-1 {
			page.Next = strconv.FormatInt(last, 36)
		}
		page.Tasks = append(page.Tasks, queue.Task{Flow: d.Flow, ID: d.Task, State: d.State,
			Version: d.Version, Final: d.Final, CreatedAt: d.CreatedAt.Time(),
			SinceAt: d.SinceAt.Time(), UpdatedAt: d.UpdatedAt.Time(),
			OverdueAt: d.OverdueAt.Time()})
	}
	return page, nil
}

// Resources returns a page of resources by kind and name, each with the number of its waiters.
func (s *Store) Resources(ctx context.Context, q queue.ResourceQuery) (queue.ResourcePage, error) {
	var page queue.ResourcePage
	if q.Limit < 1 || q.Limit > maxPage {
		return page, fmt.Errorf("resources: limit %d, want 1 to %d", q.Limit, maxPage)
	}
	f := &filter{}
	if q.Kind != "" {
		f.add("r.kind = $", recordText(q.Kind))
	}
	if kind, name, ok := strings.Cut(q.Cursor, "/"); ok {
		f.add("(r.kind, r.name) > ($, $)", recordText(kind), recordText(name))
	}
	f.args = append(f.args, q.Limit+1)
	rows, err := s.pool.Query(ctx, s.sql.resources+f.where()+" ORDER BY r.kind, r.name LIMIT $"+
		strconv.Itoa(len(f.args)), planned(f.args)...)
	found, err := scanned(rows, err, scanResource)
	if err != nil {
		return page, away(err)
	}
	for i, d := range found {
		if i == q.Limit {
			last := page.Resources[i-1]
			page.Next = last.Kind + "/" + last.Name
			break
		}
		wait := &filter{}
		wait.wait(queue.WaitResource(d.Kind, d.Name))
		wait.args = append(wait.args, maxWaiting)
		n := 0
		err := s.pool.QueryRow(ctx, s.sql.at("SELECT count(*) FROM (SELECT FROM @queue_work r "+
			"WHERE "+wait.where()+" LIMIT $"+strconv.Itoa(len(wait.args))+") r"),
			planned(wait.args)...).Scan(&n)
		if err != nil {
			return page, away(err)
		}
		page.Resources = append(page.Resources,
			queue.ResourceStatus{Resource: d.Public(), Waiting: n})
	}
	return page, nil
}

// Rejected returns the latest refused messages.
func (s *Store) Rejected(ctx context.Context, source string, limit int) ([]queue.Rejected, error) {
	if limit < 1 || limit > maxPage {
		return nil, fmt.Errorf("rejected: limit %d, want 1 to %d", limit, maxPage)
	}
	f := &filter{}
	f.text("source", source)
	f.args = append(f.args, limit)
	rows, err := s.pool.Query(ctx, s.sql.at(`SELECT id, source, at, outcome, reason, peer,
		size, meta, body FROM @rejected r WHERE `+f.where()+` ORDER BY id DESC LIMIT $`+
		strconv.Itoa(len(f.args))), planned(f.args)...)
	found, err := scanned(rows, err, func(rows pgx.Rows) (*queue.Rejected, error) {
		d, at := &queue.Rejected{}, turn.Stamp(0)
		err := rows.Scan(&d.ID, &d.Source, into(&at), (*string)(&d.Outcome), &d.Reason, &d.Peer,
			&d.Size, &d.Meta, &d.Body)
		d.At = at.Time()
		d.Source, d.Reason, d.Peer = plainText(d.Source), plainText(d.Reason), plainText(d.Peer)
		return d, err
	})
	var out []queue.Rejected
	for _, d := range found {
		out = append(out, *d)
	}
	return out, away(err)
}
