package oncepg

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/oncekit/once/internal/turn"
	"github.com/oncekit/once/queue"
)

// maxNodes bounds the nodes that are listed; those that have ended are forgotten after a while.
const maxNodes = 1000

// Nodes returns the processes that serve the store, and what each has in its hands. Whether one is
// alive is judged by the database's clock, and by this node's own StoreConfig.NodeLost.
func (s *Store) Nodes(ctx context.Context) ([]queue.Node, error) {
	rows, err := s.pool.Query(ctx, s.sql.at(`SELECT node, started_at, seen_at, CASE
			WHEN ended THEN 'ended'
			WHEN seen_at + $2::bigint * interval '1 microsecond' < `+clock+` THEN 'silent'
			ELSE 'alive' END
		FROM @queue_nodes ORDER BY started_at, node LIMIT $3`), planned([]any{s.nowOut(),
		s.cfg.NodeLost.Microseconds(), maxNodes})...)
	list, err := scanned(rows, err, func(rows pgx.Rows) (*queue.Node, error) {
		n := &queue.Node{}
		var started, seen turn.Stamp
		err := rows.Scan(&n.Name, into(&started), into(&seen), (*string)(&n.State))
		n.StartedAt, n.SeenAt = started.Time(), seen.Time()
		return n, err
	})
	if err != nil {
		return nil, away(err)
	}
	out := make([]queue.Node, 0, len(list))
	for _, n := range list {
		out = append(out, *n)
	}
	return out, away(s.addHands(ctx, out))
}

// addHands adds what nodes have in their hands.
func (s *Store) addHands(ctx context.Context, list []queue.Node) error {
	names, at := make([]string, len(list)), map[string]*queue.Node{}
	for i := range list {
		names[i], at[list[i].Name] = list[i].Name, &list[i]
	}
	rows, err := s.pool.Query(ctx, s.sql.at(`SELECT `+rowColumns+`
		FROM unnest($1::text[]) AS n (name), LATERAL (SELECT * FROM @queue_rows r
			WHERE r.lease_until IS NOT NULL AND r.node = n.name
			ORDER BY r.started_at, r.seq LIMIT $2) r
		ORDER BY r.started_at, r.seq`), planned([]any{names, queue.MaxNodeRows + 1})...)
	found, err := scanned(rows, err, scanHead)
	if err != nil {
		return err
	}
	for _, r := range found {
		n := at[r.Node]
		if n == nil {
			continue
		}
		if len(n.Rows) == queue.MaxNodeRows {
			n.More = true
			continue
		}
		n.Rows = append(n.Rows, r.Public(true))
	}
	return nil
}
