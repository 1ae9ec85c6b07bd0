package oncemongo

import (
	"context"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/oncekit/once/queue"
)

// nodeDoc is one process that uses the store.
type nodeDoc struct {
	ID string `bson:"_id"`
	// Beat rises while it lives.
	Beat int64 `bson:"beat"`
	// StartedAt is when it gave its first sign of life, and At its last one, by the store's clock.
	StartedAt stamp `bson:"started_at,omitempty"`
	At        stamp `bson:"at"`
	// Ended is true for one that was closed in order; its leases are void.
	Ended bool `bson:"ended"`
}

const (
	// nodeBeats is how many signs of life a node gives in Config.NodeLost.
	nodeBeats = 5
	// waitGrace bounds the time by which the limits of waits are put off after a start: while
	// nobody served the store, nothing could come of what was waited for.
	waitGrace = time.Minute
	// backPerCommit bounds the rows of a lost node that one batch takes back.
	backPerCommit = 256
)

// sign gives a sign of life.
func (s *Store) sign(ctx context.Context) error {
	_, err := s.db.Collection(nodes, quickly()).UpdateOne(ctx,
		bson.D{{Key: "_id", Value: s.node}}, bson.D{
			{Key: "$inc", Value: bson.D{{Key: "beat", Value: int64(1)}}},
			{Key: "$set", Value: bson.D{{Key: "at", Value: s.now()},
				{Key: "ended", Value: false}}},
			{Key: "$setOnInsert", Value: bson.D{{Key: "started_at", Value: s.now()}}},
		}, options.UpdateOne().SetUpsert(true))
	return fault(err)
}

// leave says that this node has ended.
func (s *Store) leave() {
	if s.killed.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), batchLimit)
	defer cancel()
	_, err := s.db.Collection(nodes, quickly()).UpdateOne(ctx, bson.D{{Key: "_id", Value: s.node}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "ended", Value: true},
			{Key: "at", Value: s.now()}}}})
	if err != nil {
		s.cfg.Logger.Warn("the store was not closed in order; its leases are void after a while",
			"error", err)
	}
}

func (s *Store) readNodes(ctx context.Context) ([]nodeDoc, error) {
	found, err := s.find(ctx, nodes, bson.D{}, nil, 0, nil)
	if err != nil {
		return nil, err
	}
	var out []nodeDoc
	for _, raw := range found {
		var n nodeDoc
		if err := bson.Unmarshal(raw, &n); err != nil {
			return nil, errDamaged
		}
		out = append(out, n)
	}
	return out, nil
}

// arrive begins this node's work in its first batch: the limits of waits are put off by the time
// for which nobody served the store, and the leases of nodes that have ended are void.
func (t *txn) arriveAfter(known stamp) {
	if known == 0 { // in a new store nothing waits
		return
	}
	end := t.now + min(t.now-known, stamp(waitGrace.Milliseconds()))
	if end > t.now && end > t.state.WaitsEnd {
		t.set(func(s *turnState) { s.WaitsEnd = end })
	}
}

func (s *Store) arrive(t *txn) error {
	list, err := s.readNodes(t.ctx)
	if err != nil {
		return err
	}
	known := t.state.At
	for _, n := range list {
		known = max(known, n.At)
	}
	t.arriveAfter(known)
	for _, n := range list {
		if n.ID != s.node && (n.Ended || s.cfg.alone) {
			if err := t.takeBack(n.ID); err != nil {
				return err
			}
		}
	}
	return s.sign(t.ctx)
}

// takeBack makes the rows due that a node had in hand which has ended, and forgets the node when
// none is left.
func (t *txn) takeBack(node string) error {
	n := 0
	for _, k := range []queue.Kind{queue.Callback, queue.Effect} {
		rows, err := t.selectRows(rowQuery{Kind: k, Node: node, Phases: []phase{phaseWorking}},
			backPerCommit)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if err := t.backToDue(r, "the process that worked it ended"); err != nil {
				return err
			}
		}
		n += len(rows)
	}
	if n > 0 {
		t.durable = append(t.durable, func() {
			t.s.cfg.Logger.Info("rows of a node that has ended are due again", "node", node,
				"rows", n)
		})
	}
	if n < backPerCommit { // else the next look goes on
		t.durable = append(t.durable, func() { t.s.forgetNode(node) })
	}
	return nil
}

// forgetNode removes a node that has ended and has nothing in hand.
func (s *Store) forgetNode(node string) {
	ctx, cancel := context.WithTimeout(context.Background(), batchLimit)
	defer cancel()
	_, err := s.db.Collection(nodes, quickly()).DeleteOne(ctx, bson.D{{Key: "_id", Value: node}})
	if err != nil {
		s.cfg.Logger.Debug("an ended node stays listed", "error", err) // the next look tries again
	}
}

// neighbour is a node as this one has seen it.
type neighbour struct {
	beat  int64
	since time.Time // since when nothing changed, by our own clock
}

// watch rings the lanes when another node made something due, does what is due by time, and takes
// back what lost nodes had in hand.
func (s *Store) watch(ctx context.Context) {
	tick := time.NewTicker(s.cfg.Poll)
	defer tick.Stop()
	seen := map[string]*neighbour{}
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
		err := s.look(ctx)
		if err == nil && time.Since(signed) >= s.cfg.NodeLost/nodeBeats {
			signed = time.Now()
			err = s.lookAtNodes(ctx, seen)
		}
		if err != nil && ctx.Err() == nil {
			s.cfg.Logger.Debug("look at the store", "error", err) // whoever asks it meets it too
		}
	}
}

// look rings all lanes when somebody else has committed, and lets the writer do what is due.
func (s *Store) look(ctx context.Context) error {
	if err := s.clock.set(ctx, s); err != nil {
		return err
	}
	head, err := s.readTurn(ctx, bson.D{{Key: "n", Value: 1}, {Key: "wanted", Value: 1},
		{Key: "state.timer", Value: 1}})
	if err != nil {
		return err
	}
	s.wanted.Store(head.Wanted != "" && head.Wanted != s.node)
	if s.sees(head.N) {
		s.bells.ringAll()
	}
	if timer := head.State.Timer; timer != 0 && timer <= s.now() {
		return s.do(ctx, true, func(*txn) error { return nil })
	}
	return nil
}

// sees notes a commit, and reports whether it is later than all that were noted.
func (s *Store) sees(n int64) bool {
	for {
		old := s.seen.Load()
		if n <= old {
			return false
		}
		if s.seen.CompareAndSwap(old, n) {
			return true
		}
	}
}

// lookAtNodes gives a sign of life and takes back what nodes had in hand that give none.
func (s *Store) lookAtNodes(ctx context.Context, seen map[string]*neighbour) error {
	if err := s.sign(ctx); err != nil {
		return err
	}
	list, err := s.readNodes(ctx)
	if err != nil {
		return err
	}
	others := len(list)
	for _, n := range list {
		if n.ID == s.node {
			others--
		}
	}
	s.solo.Store(others == 0)
	for _, n := range list {
		if n.ID == s.node {
			continue
		}
		was := seen[n.ID]
		if was == nil || was.beat != n.Beat {
			was = &neighbour{beat: n.Beat, since: time.Now()}
			seen[n.ID] = was
		}
		if !n.Ended && time.Since(was.since) < s.cfg.NodeLost {
			continue
		}
		err := s.do(ctx, true, func(t *txn) error { return t.takeBack(n.ID) })
		if err != nil {
			return err
		}
		delete(seen, n.ID)
	}
	return nil
}

// bells ring lanes in which rows became due.
type bells struct {
	mu   sync.Mutex
	of   map[string]chan struct{}
	list []chan struct{}
}

// Notify returns the bell of a lane. It also rings when another node has committed something, no
// later than after Config.Poll.
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
		b.list = append(b.list, c)
	}
	return c
}

func (b *bells) ring(lane string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.of[lane]; c != nil {
		ringOne(c)
	}
}

func (b *bells) ringAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.list {
		ringOne(c)
	}
}

func ringOne(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
