package writetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/oncekit/once/write"
)

// Harness is a writer under test over an empty database, and a look at what it wrote.
type Harness struct {
	// Writer under test, opened, with [Targets].
	Writer write.Writer
	// Second is another writer over the same database, as of another process; the same one if the
	// database has but one.
	Second write.Writer
	// Read returns the members of a document that are there and not null: numbers as write.Number
	// gives them, texts, times in UTC, and lists of such. ok is false if there is no document.
	Read func(t *testing.T, in string, key any) (doc write.Fields, ok bool)
}

// Open opens a new, empty database, and closes it when the test ends.
type Open func(t *testing.T) Harness

// Case is one promise of a writer.
type Case struct {
	Name string
	// Promise is what the writer has to keep, in one sentence.
	Promise string
	run     func(k *kit)
}

// Run holds a writer to every promise, each case on a database of its own. If prefixes of names are
// given, only those cases run that have one of them.
func Run(t *testing.T, open Open, prefixes ...string) {
	for _, c := range Cases() {
		if !named(c.Name, prefixes) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel() // most of a case is waiting for the disk
			k := newKit(t, open(t))
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

// Cases returns every case, in the order in which Run runs them.
func Cases() []Case {
	return slices.Concat(
		changeCases(), newerCases(), repeatCases(), refusedCases(), batchCases(), raceCases(),
		randomCases(),
	)
}
