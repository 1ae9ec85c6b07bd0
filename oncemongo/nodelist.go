package oncemongo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// maxNodes bounds the nodes that are listed; those that have ended are forgotten after a while.
const maxNodes = 1000

// Nodes returns the processes that serve the store, and what each has in its hands. Whether one is
// alive is judged by the store's clock, and by this node's own Config.NodeLost.
func (s *Store) Nodes(ctx context.Context) ([]queue.Node, error) {
	list, err := s.readNodes(ctx)
	if err != nil {
		return nil, asUnavailable(err)
	}
	slices.SortFunc(list, func(a, b nodeDoc) int {
		return cmp.Or(cmp.Compare(a.StartedAt, b.StartedAt), cmp.Compare(a.ID, b.ID))
	})
	out := make([]queue.Node, 0, len(list))
	now := s.now()
	for _, d := range list[:min(len(list), maxNodes)] {
		n := queue.Node{Name: d.ID, State: d.stateAt(now, s.cfg.NodeLost),
			StartedAt: d.StartedAt.time(), SeenAt: d.At.time()}
		if err := s.addHands(ctx, &n); err != nil {
			return nil, asUnavailable(err)
		}
		out = append(out, n)
	}
	return out, nil
}

func (d *nodeDoc) stateAt(now stamp, lost time.Duration) queue.NodeState {
	switch {
	case d.Ended:
		return queue.NodeEnded
	case d.At.add(lost) < now:
		return queue.NodeSilent
	}
	return queue.NodeAlive
}

// addHands adds what a node has in its hands.
func (s *Store) addHands(ctx context.Context, n *queue.Node) error {
	for _, k := range []queue.Kind{queue.Callback, queue.Effect} {
		q := rowQuery{Kind: k, Node: n.Name, Phases: []phase{phaseWorking}}
		found, err := s.find(ctx, rowsOf(k), q.filter(),
			bson.D{{Key: "started_at", Value: 1}, {Key: "_id", Value: 1}}, queue.MaxNodeRows+1,
			headOnly)
		if err != nil {
			return err
		}
		for _, raw := range found {
			var r row
			if err := bson.Unmarshal(raw, &r); err != nil {
				return fmt.Errorf("read a row: %w: %w", once.ErrCorrupt, err)
			}
			out, err := r.public(true)
			if err != nil {
				return err
			}
			n.Rows = append(n.Rows, out)
		}
	}
	slices.SortStableFunc(n.Rows, func(a, b queue.Row) int {
		return a.StartedAt.Compare(b.StartedAt)
	})
	if n.More = len(n.Rows) > queue.MaxNodeRows; n.More {
		n.Rows = n.Rows[:queue.MaxNodeRows]
	}
	return nil
}
