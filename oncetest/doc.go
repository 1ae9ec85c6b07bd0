// Package oncetest is the conformance suite of stores of records: what [once.Store] and its
// optional interfaces promise, as tests that any store can run, and a benchmark.
//
//	func TestStore(t *testing.T) {
//		oncetest.Run(t, func(t *testing.T) oncetest.Harness {
//			store, clock := open(t)
//			return oncetest.Harness{Store: store, Advance: clock.Advance, MaxOutcome: 1 << 20}
//		})
//	}
//
// Cases of an optional interface, or of something that the harness can't do, run where it is there.
//
// What the suite leaves open, because the contract does: whether a lease that has ended, with
// nobody else there, can be renewed by its owner, or claimed by it again with the same token;
// whether what was lost under retry because its lease ended is remembered for longer than a
// retention after that;
// whether Takeover is told after an attempt was given back that was itself a takeover, or after a
// person decided; the order of the records in a page.
package oncetest
