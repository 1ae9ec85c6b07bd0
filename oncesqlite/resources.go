package oncesqlite

import (
	"context"
	"fmt"
	"strings"

	"github.com/oncekit/once/queue"
)

// maxWaiting bounds the waiters of a resource that are counted.
const maxWaiting = 1000

// Resources returns a page of resources by kind and name, each with the number of its waiters.
func (s *Store) Resources(ctx context.Context, q queue.ResourceQuery) (queue.ResourcePage, error) {
	var page queue.ResourcePage
	if q.Limit < 1 || q.Limit > maxPage {
		return page, fmt.Errorf("resources: limit %d, want 1 to %d", q.Limit, maxPage)
	}
	kind, name, _ := strings.Cut(q.Cursor, "/")
	if kind == "" {
		kind = q.Kind
	}
	where := "(kind, name) > (?, ?)"
	args := []any{kind, name}
	if q.Kind != "" {
		where, args = where+" AND kind = ?", append(args, q.Kind)
	}
	err := s.read(ctx, func(c *conn) error {
		err := c.query("SELECT "+resourceColumns+" FROM resources WHERE "+where+
			" ORDER BY kind, name LIMIT ?", func(r *stmt) error {
			page.Resources = append(page.Resources,
				queue.ResourceStatus{Resource: scanResource(r)})
			return nil
		}, append(args, q.Limit+1)...)
		if err != nil {
			return err
		}
		if len(page.Resources) > q.Limit {
			page.Resources = page.Resources[:q.Limit]
			last := page.Resources[q.Limit-1]
			page.Next = last.Kind + "/" + last.Name
		}
		for i := range page.Resources {
			r := &page.Resources[i]
			n, err := c.int("SELECT count(*) FROM (SELECT 1 FROM waits WHERE wait = ? LIMIT ?)",
				queue.WaitResource(r.Kind, r.Name), maxWaiting)
			if err != nil {
				return err
			}
			r.Waiting = int(n)
		}
		return nil
	})
	return page, err
}
