package oncepg

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekit/once/internal/turn"
)

// nodeBeats is how many signs of life a node gives in StoreConfig.NodeLost.
const nodeBeats = 5

// storeNode is one process that uses the store.
type storeNode struct {
	name            string
	n               int64
	startedAt, seen turn.Stamp
	ended           bool
}

func (s *Store) readNodes(ctx context.Context, in sender) ([]*storeNode, error) {
	rows, err := in.Query(ctx, s.sql.at(`SELECT node, n, started_at, seen_at, ended
		FROM @queue_nodes`))
	return scanned(rows, err, func(rows pgx.Rows) (*storeNode, error) {
		n := &storeNode{}
		return n, rows.Scan(&n.name, &n.n, into(&n.startedAt), into(&n.seen), &n.ended)
	})
}

// clock is the store's clock in a statement; $1 is a test's.
const clock = "coalesce($1::timestamptz, date_trunc('milliseconds', clock_timestamp()))"

// sign gives a sign of life. commits is what is known of this node's commits if it is not listed:
// none at its start, and nothing (-1) if others have forgotten it since.
func (s *Store) sign(ctx context.Context, commits int64) error {
	_, err := s.pool.Exec(ctx, s.sql.at(`INSERT INTO @queue_nodes AS n
		(node, n, started_at, seen_at)
		SELECT $2::text, $3::bigint, now, now FROM (SELECT `+clock+` AS now) c
		ON CONFLICT (node) DO UPDATE SET seen_at = greatest(n.seen_at, excluded.seen_at),
		ended = false`), s.nowOut(), s.node, commits)
	return err
}

// leave says that this node has ended, and puts what it counted to the sums.
func (s *Store) leave() {
	if s.killed.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endLimit)
	defer cancel()
	_, err := s.pool.Exec(ctx, s.sql.at("UPDATE @queue_nodes SET ended = true, seen_at = "+
		"greatest(seen_at, "+clock+") WHERE node = $2"), s.nowOut(), s.node)
	if err == nil {
		err = s.foldSlots(ctx, s.node)
	}
	if err != nil {
		s.cfg.Logger.Warn("the store was not closed in order; its leases are void after a while",
			"error", err)
	}
}

// foldSlots puts what a node that has ended counted to the sums.
func (s *Store) foldSlots(ctx context.Context, node string) error {
	_, err := s.pool.Exec(ctx, s.sql.at(`WITH gone AS (
			DELETE FROM @counters WHERE starts_with(slot, $1 || '/')
			RETURNING what, source, state, n
		) INSERT INTO @counters AS c (what, source, state, slot, n)
		SELECT what, source, state, '', sum(n) FROM gone GROUP BY what, source, state
		ORDER BY what, source, state
		ON CONFLICT (what, source, state, slot) DO UPDATE SET n = c.n + excluded.n`), node)
	return err
}

// arrive begins this node's work: the limits of waits are put off by the time for which nobody
// served the store, and the leases of nodes that have ended are void.
func (s *Store) arrive(ctx context.Context) error {
	if err := s.sign(ctx, 0); err != nil {
		return turn.Fault(err)
	}
	list, err := s.readNodes(ctx, s.pool)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(n *storeNode) bool { return n.name == s.node })
	return s.do(ctx, false, func(t *turn.Batch) error { return s.arriveIn(t, list) })
}

func (s *Store) arriveIn(t *turn.Batch, list []*storeNode) error {
	known := turn.Stamp(0)
	for _, n := range list {
		known = max(known, n.seen)
	}
	t.ArriveAfter(known)
	for _, n := range list {
		if !n.ended && !s.cfg.alone {
			continue
		}
		if err := s.takeBack(t, n); err != nil {
			return err
		}
	}
	return nil
}

// takeBack makes the rows due that a node had in hand which has ended, and forgets the node when
// none is left. The rows at the heads of lanes may be what ended one that was not closed.
func (s *Store) takeBack(t *turn.Batch, n *storeNode) error {
	rows, err := t.TakeBack(n.name)
	if err != nil {
		return err
	}
	if !n.ended {
		t.Suspect()
	}
	t.OnCommit(func() {
		if rows > 0 {
			s.cfg.Logger.Info("rows of a node that has ended are due again", "node", n.name,
				"rows", rows)
		}
		if rows < turn.BackPerCommit { // else the next look goes on
			s.forgetNode(n.name)
		}
	})
	return nil
}

// forgetNode removes a node that has ended and has nothing in hand.
func (s *Store) forgetNode(node string) {
	ctx, cancel := context.WithTimeout(context.Background(), endLimit)
	defer cancel()
	err := s.foldSlots(ctx, node)
	if err == nil {
		_, err = s.pool.Exec(ctx, s.sql.at("DELETE FROM @queue_nodes WHERE node = $1"), node)
	}
	if err != nil {
		s.cfg.Logger.Debug("an ended node stays listed", "error", err) // the next look tries again
	}
}

// watch rings the lanes when another node made something due, does what is due by time, and takes
// back what lost nodes had in hand.
func (s *Store) watch(ctx context.Context) {
	tick := time.NewTicker(s.cfg.Poll)
	defer tick.Stop()
	var seen seenStore
	nodes := map[string]*neighbour{}
	var signed time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s.killed.Load() {
			return
		}
		err := s.look(ctx, &seen)
		if err == nil && time.Since(signed) >= s.cfg.NodeLost/nodeBeats {
			signed = time.Now()
			err = s.lookAtNodes(ctx, nodes)
		}
		if err != nil && ctx.Err() == nil {
			s.cfg.Logger.Debug("look at the store", "error", err) // whoever asks it meets it too
		}
	}
}

// seenStore is what changes when something becomes due.
type seenStore struct{ commits, arrivals int64 }

// look rings the lanes that have something due when something was committed, and lets the writer do
// what is due by time.
func (s *Store) look(ctx context.Context, seen *seenStore) error {
	var has seenStore
	var text []byte
	var now turn.Stamp
	err := s.pool.QueryRow(ctx, s.sql.at("SELECT t.n, q.last_value, t.state, "+clock+
		" FROM @queue_turn t, @queue_numbers q"), s.nowOut()).Scan(&has.commits, &has.arrivals,
		&text, into(&now))
	if err != nil {
		return err
	}
	var state turn.State
	if err := json.Unmarshal(text, &state); err != nil {
		return fmt.Errorf("read the turn: %w", err)
	}
	if has != *seen {
		lanes, err := s.dueLanes(ctx, s.bells.lanes(), &state)
		if err != nil {
			return err
		}
		for _, lane := range lanes {
			s.bells.ring(lane)
		}
		*seen = has
	}
	if state.Timer != 0 && state.Timer <= now {
		return s.do(ctx, true, func(*turn.Batch) error { return nil })
	}
	return nil
}

// dueLanes returns those of the lanes in which a row is due.
func (s *Store) dueLanes(ctx context.Context, lanes []string, state *turn.State) ([]string, error) {
	texts, from := make([]string, len(lanes)), make([]int64, len(lanes))
	for i, lane := range lanes {
		texts[i], from[i] = recordText(lane), state.DueFrom(lane)
	}
	rows, err := s.pool.Query(ctx, s.sql.at(`SELECT lane
		FROM unnest($1::text[], $2::bigint[]) AS l (lane, from_seq)
		WHERE EXISTS (SELECT FROM @queue_work r WHERE r.lane = l.lane AND r.phase = 'ready'
			AND r.seq + 0 >= l.from_seq)`), texts, from)
	if err != nil {
		return nil, err
	}
	due, err := pgx.CollectRows(rows, pgx.RowTo[string])
	plainTexts(due)
	return due, err
}

// neighbour is a node as this one has seen it.
type neighbour struct {
	was   storeNode
	since time.Time // since when nothing changed, by our own clock
}

// lookAtNodes gives a sign of life and takes back what nodes had in hand that give none.
func (s *Store) lookAtNodes(ctx context.Context, seen map[string]*neighbour) error {
	if err := s.sign(ctx, -1); err != nil {
		return err
	}
	list, err := s.readNodes(ctx, s.pool)
	if err != nil {
		return err
	}
	for _, n := range list {
		if n.name == s.node {
			continue
		}
		was := seen[n.name]
		if was == nil || was.was != *n {
			was = &neighbour{was: *n, since: time.Now()}
			seen[n.name] = was
		}
		if !n.ended && time.Since(was.since) < s.cfg.NodeLost {
			continue
		}
		err := s.do(ctx, true, func(t *turn.Batch) error { return s.takeBack(t, n) })
		if err != nil {
			return err
		}
		delete(seen, n.name)
	}
	return nil
}

// bells ring lanes in which rows became due.
type bells struct {
	mu sync.Mutex
	of map[string]chan struct{}
}

// Notify returns the bell of a lane. It also rings when another node has committed something, no
// later than after StoreConfig.Poll.
func (s *Store) Notify(lane string) <-chan struct{} {
	b := &s.bells
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of == nil {
		b.of = map[string]chan struct{}{}
	}
	c := b.of[lane]
	if c == nil {
		c = make(chan struct{}, 1)
		b.of[lane] = c
	}
	return c
}

func (b *bells) ring(lane string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.of[lane]; c != nil {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// lanes are those that somebody listens to.
func (b *bells) lanes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]string, 0, len(b.of))
	for lane := range b.of {
		out = append(out, lane)
	}
	return out
}
