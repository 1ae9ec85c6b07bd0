// Package queuetest is the conformance suite of the queue's stores: what package queue promises of
// a store, as tests that any store can run.
//
//	func TestStore(t *testing.T) {
//		queuetest.Run(t, func(t *testing.T, opts queuetest.Options) queuetest.Harness { … })
//	}
//
// A store under test has to be a queue.Browser: the suite looks at it through that. Cases of the
// other optional interfaces run if the store has them.
package queuetest
