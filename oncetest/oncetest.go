package oncetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once"
)

// Harness is a store under test and the hands on it. Only Store is needed; what the rest would
// show is left out where it is missing.
type Harness struct {
	// Store under test: new and empty. Its optional interfaces are probed.
	Store once.Store
	// Advance moves the store's clock on. The next call of the store sees the new time. Whether
	// the clock moves by itself too doesn't matter. Nil: the suite waits for real, short times, and
	// leaves out what would take too long.
	Advance func(d time.Duration)
	// Reopen ends the store as a restart does, and opens what it left behind.
	Reopen func() once.Store
	// Corrupt damages the stored record of an identity so that it can't be read.
	Corrupt func(id once.Identity)
	// MaxOutcome is the most bytes of one outcome that the store takes; 0: it has no such limit.
	MaxOutcome int
	// Twice is true for a store whose pages may show a record again while others come.
	Twice bool
}

// Open gives a new, empty store and ends it with the test. It is called from tests that run in
// parallel.
type Open func(t *testing.T) Harness

// Case is one promise of a store.
type Case struct {
	Name string
	// Promise is what the store has to keep, in one sentence.
	Promise string

	needs needs
	run   func(k *kit)
}

// needs are what a case has no meaning without.
type needs uint

const (
	renews needs = 1 << iota
	resolves
	waits
	sweeps
	browses
	clock
	reopens
	corrupts
	limits
)

// Run holds a store to every promise, each case on a store of its own. If prefixes of names are
// given, only cases that have one of them run.
func Run(t *testing.T, open Open, prefixes ...string) {
	t.Helper()
	have := probe(open(t)) // in no test of its own, so that -run can't leave it out
	for _, c := range Cases() {
		if c.needs&^have != 0 || !named(c.Name, prefixes) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel() // most of a case is waiting for the store
			c.run(newKit(t, open(t)))
			if t.Failed() {
				t.Logf("promise: %s", c.Promise)
			}
		})
	}
}

func named(name string, prefixes []string) bool {
	return len(prefixes) == 0 || slices.ContainsFunc(prefixes, func(p string) bool {
		return strings.HasPrefix(name, p)
	})
}

func probe(h Harness) (have needs) {
	has := func(n needs, ok bool) {
		if ok {
			have |= n
		}
	}
	_, ok := h.Store.(once.Renewer)
	has(renews, ok)
	_, ok = h.Store.(once.Resolver)
	has(resolves, ok)
	_, ok = h.Store.(once.Waiter)
	has(waits, ok)
	_, ok = h.Store.(once.Sweeper)
	has(sweeps, ok)
	_, ok = h.Store.(once.Browser)
	has(browses, ok)
	has(clock, h.Advance != nil)
	has(reopens, h.Reopen != nil)
	has(corrupts, h.Corrupt != nil)
	has(limits, h.MaxOutcome > 0)
	return have
}

// Cases returns every case, in the order in which Run runs them.
func Cases() []Case {
	return slices.Concat(
		claimCases(), identityCases(), mismatchCases(), raceCases(), staleCases(), settleCases(),
		outcomeCases(), fenceCases(), unknownCases(), renewCases(), retentionCases(), sweepCases(),
		contextCases(), noteCases(), browseCases(), resolveCases(), waitCases(), restartCases(),
		randomCases(),
	)
}
