package queuetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once/queue"
)

// Options are what a case asks of the store that it is given. Zero values ask for nothing.
type Options struct {
	// RejectedPerSource is the length of the ring of refused messages.
	RejectedPerSource int
	// CommitTimeout is how long a handler's Commit may take.
	CommitTimeout time.Duration
}

// Harness is a store under test and the hands on it.
type Harness struct {
	// Store under test. Its optional interfaces are probed.
	Store queue.Store
	// Now is the store's clock. It stands still between two calls of Advance.
	Now func() time.Time
	// Advance moves the store's clock on. The next call of the store sees the new time.
	Advance func(d time.Duration)
	// Reopen ends the store and opens what it left behind: closed in order when clean, else as
	// after the process was killed at this moment. It may be called from inside a Decide when not
	// clean; the old store is then used no more.
	Reopen func(t *testing.T, clean bool) Harness
	// Slow shortens the random walk, for a server that looks at everything for every question.
	Slow bool
	// SQL is true when a handler's Commit gets a transaction that speaks SQL.
	SQL bool
}

// Open opens a new, empty store, and closes it when the test ends.
type Open func(t *testing.T, opts Options) Harness

// Case is one promise of a store.
type Case struct {
	Name string
	// Promise is what the store has to keep, in one sentence.
	Promise string
	opts    Options
	needs   needs
	run     func(k *kit)
}

// needs are the optional interfaces without which a case has no meaning.
type needs uint

const (
	steps needs = 1 << iota // queue.Transactor
	people
	bells
	ring
	nodes
	sqlTx
)

// Run holds a store to every promise, each case on a store of its own. Cases whose optional
// interface the store lacks are left out, and so are, if prefixes of names are given, those that
// have none of them.
func Run(t *testing.T, open Open, prefixes ...string) {
	have := probe(t, open(t, Options{})) // in no test of its own, so that -run can't leave it out
	for _, c := range Cases() {
		if c.needs&^have != 0 || !named(c.Name, prefixes) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel() // most of a case is waiting for the disk
			k := newKit(t, open(t, c.opts))
			c.run(k)
			if t.Failed() {
				t.Logf("promise: %s", c.Promise)
			}
		})
	}
}

// named reports whether a name has one of the prefixes, or none is asked for.
func named(name string, prefixes []string) bool {
	return len(prefixes) == 0 || slices.ContainsFunc(prefixes, func(p string) bool {
		return strings.HasPrefix(name, p)
	})
}

func probe(t *testing.T, h Harness) (have needs) {
	if _, ok := h.Store.(queue.Browser); !ok {
		t.Fatal("the store is no queue.Browser; the suite can't look at it")
	}
	has := func(n needs, ok bool) {
		if ok {
			have |= n
		}
	}
	_, ok := h.Store.(queue.Transactor)
	has(steps, ok)
	_, ok = h.Store.(queue.Operator)
	has(people, ok)
	_, ok = h.Store.(queue.Notifier)
	has(bells, ok)
	_, ok = h.Store.(queue.Rejecter)
	has(ring, ok)
	_, ok = h.Store.(queue.NodeLister)
	has(nodes, ok)
	has(sqlTx, h.SQL)
	return have
}

// Cases returns every case, in the order in which Run runs them.
func Cases() []Case {
	var all []Case
	for _, group := range [][]Case{
		appendCases(), repeatCases(), newerCases(), sweepCases(), leaseCases(), orderCases(),
		lostCases(),
		settleCases(), changeCases(), commitCases(), stepCases(), waitCases(), taskCases(),
		browseCases(), pageCases(), nodeCases(), operateCases(), reviseCases(), restartCases(),
		randomCases(),
	} {
		all = append(all, group...)
	}
	return all
}
