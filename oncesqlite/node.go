package oncesqlite

import (
	"context"
	"fmt"
	"os"

	"github.com/oncekit/once/queue"
)

// nodeName is that of this process.
func nodeName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// Nodes returns the one process that serves the file, this one, and what it has in its hands.
func (s *Store) Nodes(ctx context.Context) ([]queue.Node, error) {
	n := queue.Node{Name: nodeName(), State: queue.NodeAlive, StartedAt: timeOf(s.began),
		SeenAt: timeOf(s.clock.now())}
	err := s.read(ctx, func(c *conn) error {
		return c.query("SELECT "+headColumns+" FROM rows WHERE phase = 3 "+
			"ORDER BY started_at, seq LIMIT ?", func(r *stmt) error {
			row, err := scanRow(r, false)
			switch {
			case err != nil:
				return err
			case len(n.Rows) == queue.MaxNodeRows:
				n.More = true
			default:
				n.Rows = append(n.Rows, row.Row)
			}
			return nil
		}, queue.MaxNodeRows+1)
	})
	if err != nil {
		return nil, err
	}
	return []queue.Node{n}, nil
}
