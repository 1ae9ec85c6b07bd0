package oncesqlite

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/oncekit/once/queue"
)

// Tasks returns a page of tasks, those that were created last first. There is no index by state: it
// would be written with each move of each task, for a question that is asked now and then. Instead
// the tasks are walked, a bounded number of them for a page, and the kept counters say when no more
// can follow.
func (s *Store) Tasks(ctx context.Context, q queue.TaskQuery) (queue.TaskPage, error) {
	var page queue.TaskPage
	if q.Limit < 1 || q.Limit > maxPage {
		return page, fmt.Errorf("tasks: limit %d, want 1 to %d", q.Limit, maxPage)
	}
	before := int64(1) << 62
	if q.Cursor != "" {
		n, err := strconv.ParseInt(q.Cursor, 36, 64)
		if err != nil || n < 1 {
			return page, fmt.Errorf("tasks: cursor %q was not given by a page", q.Cursor)
		}
		before = n
	}
	err := s.read(ctx, func(c *conn) (err error) {
		// What is counted is as of the same commit as what is walked.
		all, err := countTasks(c, q)
		if err != nil || all == 0 {
			return err
		}
		page, err = taskPage(c, q, before, all)
		return err
	})
	return page, err
}

// countTasks returns how many tasks there are that a query selects, on all of its pages.
func countTasks(c *conn, q queue.TaskQuery) (int64, error) {
	return c.int("SELECT sum(n) FROM counters WHERE kind = ?1 AND (?2 = '' OR source = ?2) AND "+
		"(?3 = '' OR state = ?3)", taskCounts, q.Flow, q.State)
}

const listedTask = `id, flow, task, state, version, gone, final, created_at, since_at, updated_at,
	overdue_at`

// taskPage walks the tasks before a number. When all there are were found it ends: the others need
// not be looked at.
func taskPage(c *conn, q queue.TaskQuery, before, all int64) (page queue.TaskPage, err error) {
	looks := 0
	err = c.query("SELECT "+listedTask+" FROM tasks WHERE id < ? ORDER BY id DESC LIMIT ?",
		func(r *stmt) error {
			if len(page.Tasks) == q.Limit || looks == maxLooks {
				page.Next = strconv.FormatInt(r.int(0)+1, 36)
				return errEnough
			}
			looks++
			if r.int(5) != 0 || q.Flow != "" && r.text(1) != q.Flow ||
				q.State != "" && r.text(3) != q.State {
				return nil
			}
			page.Tasks = append(page.Tasks, queue.Task{Flow: r.text(1), ID: r.text(2),
				State: r.text(3), Version: r.int(4), Final: r.int(6) != 0,
				CreatedAt: timeOf(r.int(7)), SinceAt: timeOf(r.int(8)),
				UpdatedAt: timeOf(r.int(9)), OverdueAt: timeOf(r.int(10))})
			if int64(len(page.Tasks)) == all {
				return errEnough
			}
			return nil
		}, before, maxLooks+1)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return page, err
}
