// Package turn is what a store of a queue does in its turn: operations that are worked out in
// memory, over what a database holds, and that become true together with one commit.
//
// A [Batch] reads through a [Stored], which the store of a technology is, and keeps what it changes
// to itself. When all operations are worked out, the store writes down what [Batch.Changes] tells.
// Between the two nobody else may have changed what a batch read: whoever works a batch has the
// turn, over all nodes that use the database. How a node gets it, and how a commit becomes durable,
// is the store's affair; what happens in a turn does not depend on the database, and is written
// here. oncepg is on it; oncemongo, from which it was taken, still has its own and is to follow.
//
// A Batch is not safe for concurrent use. Its operations are methods that follow those of
// [github.com/oncekit/once/queue.Store] and its optional interfaces. What runs after the commit is
// told to [Batch.Committed].
package turn
