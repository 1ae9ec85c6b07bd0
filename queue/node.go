package queue

import (
	"context"
	"time"
)

// NodeState says whether a process that serves a store is alive.
type NodeState string

// What a node can be.
const (
	NodeAlive NodeState = "alive"
	// NodeSilent: it has given no sign of life for so long that others take back what it has in its
	// hands. It may be frozen or cut off, and come back.
	NodeSilent NodeState = "silent"
	// NodeEnded: it was closed in order.
	NodeEnded NodeState = "ended"
)

// MaxNodeRows is how many of the rows that a node has in its hands are listed.
const MaxNodeRows = 20

// Node is a process that serves a store. Times are of the store's clock.
type Node struct {
	// Name tells it from all others: its host, its process id, and where several processes can
	// serve a store, something random.
	Name      string
	State     NodeState
	StartedAt time.Time
	SeenAt    time.Time // its last sign of life
	// Rows are what it has in its hands, the longest first, without bodies: at most MaxNodeRows,
	// and More says that there are others. What is decided in the store's own transaction (a step
	// of a flow) is in nobody's hands.
	Rows []Row
	More bool
}

// NodeLister tells which processes serve a store. Probed once at construction. Safe for concurrent
// use.
type NodeLister interface {
	// Nodes returns them, the eldest first: at most 1000.
	Nodes(ctx context.Context) ([]Node, error)
}
