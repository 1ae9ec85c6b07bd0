package oncepg

import (
	"testing"
	"time"

	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/queue"
)

// nodeOf finds a store's own node in what a store tells.
func nodeOf(t *testing.T, asked, of *Store) queue.Node {
	t.Helper()
	list, err := asked.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range list {
		if n.Name == of.node {
			return n
		}
	}
	return queue.Node{}
}

func TestNodesSayWhoIsAliveAndWhatEachWorksOn(t *testing.T) {
	t.Parallel()
	address := testserver.Postgres(t).URL()
	cfg := StoreConfig{NodeLost: time.Second}
	// b takes nothing back by itself: it looks at others when it is asked to.
	a, b := openStore(t, openPool(t, address, 6), cfg), openStore(t, openPool(t, address, 6),
		StoreConfig{NodeLost: time.Hour})
	_, err := a.Append(t.Context(), []queue.Arrival{testArrival("1", "1")})
	if err != nil {
		t.Fatal(err)
	}
	if n := nodeOf(t, b, a); n.State != queue.NodeAlive || len(n.Rows) > 0 || n.More ||
		n.StartedAt.IsZero() || n.SeenAt.Before(n.StartedAt) {
		t.Errorf("before it works: %+v", n)
	}
	got, err := a.Lease(t.Context(), queue.LeaseRequest{Lane: testLane, Max: 1, For: time.Hour})
	if err != nil || len(got.Rows) != 1 {
		t.Fatalf("leased %d rows, %v", len(got.Rows), err)
	}
	n := nodeOf(t, b, a)
	if len(n.Rows) != 1 || n.More || n.Rows[0].Identity != got.Rows[0].Identity ||
		n.Rows[0].State != queue.Running || n.Rows[0].StartedAt.IsZero() {
		t.Errorf("with a row in hand: %+v", n)
	}
	if n := nodeOf(t, b, b); n.State != queue.NodeAlive || len(n.Rows) > 0 {
		t.Errorf("the other one: %+v", n)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if n := nodeOf(t, a, b); n.State != queue.NodeEnded && n.Name != "" { // else it is forgotten
		t.Errorf("after its end: %+v", n)
	}
	a.killed.Store(true) // no sign of life any more
	testserver.Until(t, patience, "it is silent", func() bool {
		return nodeOf(t, a, a).State == queue.NodeSilent
	})
}
