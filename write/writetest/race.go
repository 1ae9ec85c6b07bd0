package writetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/oncekit/once/write"
)

// writers is how many write at the same time.
const writers = 50

func raceCases() []Case {
	return []Case{
		{
			Name:    "K03/OneEventByManyWriters",
			Promise: "Of many writers of one event exactly one applies it; none sees an error.",
			run:     raceEvent,
		},
		{
			Name:    "B01/OneDocumentByManyWriters",
			Promise: "Concurrent upserts make one document and lose nothing.",
			run:     raceDocument,
		},
		{
			Name:    "B01/ManyInsertsOfOneDocument",
			Promise: "Of many inserts of one document exactly one succeeds, others are ErrExists.",
			run:     raceInsert,
		},
		{
			Name:    "B04/OneTransitionByManyEvents",
			Promise: "Of many events that move one state on exactly one does.",
			run:     raceTransition,
		},
		{
			Name:    "B06/RepeatedIncrements",
			Promise: "The sum is exact, however often and by whom events are repeated.",
			run:     raceSum,
		},
		{
			Name:    "B06/BatchesInAnyOrder",
			Promise: "Batches of the same events in any order apply each event once.",
			run:     raceBatches,
		},
		{
			Name:    "Newer/Race",
			Promise: "Whatever the order in which versions arrive, the newest stays.",
			run:     raceNewer,
		},
	}
}

// together runs n functions at the same time, half of them with the second writer.
func (k *kit) together(n int, f func(i int, w write.Writer)) {
	var (
		running sync.WaitGroup
		start   = make(chan struct{})
	)
	for i := range n {
		w := k.h.Writer
		if i%2 == 1 {
			w = k.h.Second
		}
		running.Go(func() {
			<-start
			f(i, w)
		})
	}
	close(start)
	running.Wait()
}

// tally counts outcomes; a nil error that is expected counts under its text.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *tally) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[what]++
}

func (k *kit) wantTally(c *tally, want map[string]int) {
	k.Helper()
	if fmt.Sprint(c.n) != fmt.Sprint(want) {
		k.Errorf("%v, want %v", c.n, want)
	}
}

func raceEvent(k *kit) {
	for round := range 3 {
		e := k.event(round, write.Increment{By: write.Fields{"n": 1}})
		var c tally
		k.together(writers, func(_ int, w write.Writer) {
			r, err := w.Write(k.ctx, e)
			if err != nil {
				k.Error(err)
			}
			if r.Numbers["n"] != int64(1) {
				k.Errorf("numbers of %s: %v", r.Outcome, r.Numbers)
			}
			c.add(string(r.Outcome))
		})
		k.wantTally(&c, map[string]int{"applied": 1, "duplicate": writers - 1})
		k.wantDoc(round, write.Fields{"n": int64(1)})
	}
}

func raceDocument(k *kit) {
	events := make([]write.Event, writers)
	for i := range events {
		events[i] = k.event("a", write.Upsert{
			Set:         write.Fields{"name": "x"},
			SetOnInsert: write.Fields{"tag": "made"},
			Increment:   write.Fields{"n": 1},
		})
	}
	var seen sync.Map
	k.together(writers, func(i int, w write.Writer) {
		r, err := w.Write(k.ctx, events[i])
		if err != nil || r.Outcome != write.Applied {
			k.Errorf("%v, %v", r, err)
		}
		if _, twice := seen.LoadOrStore(r.Numbers["n"], i); twice {
			k.Errorf("two events made it %v", r.Numbers["n"])
		}
	})
	k.wantDoc("a", write.Fields{"name": "x", "tag": "made", "n": int64(writers)})
}

func raceInsert(k *kit) {
	events := make([]write.Event, writers)
	for i := range events {
		events[i] = k.event("a", write.Insert{Set: write.Fields{"n": i}})
	}
	var c tally
	k.together(writers, func(i int, w write.Writer) {
		switch r, err := w.Write(k.ctx, events[i]); {
		case errors.Is(err, write.ErrExists):
			c.add("exists")
		case err != nil:
			k.Error(err)
		default:
			c.add(string(r.Outcome))
			k.wantDoc("a", write.Fields{"n": int64(i)})
		}
	})
	k.wantTally(&c, map[string]int{"applied": 1, "exists": writers - 1})
}

func raceTransition(k *kit) {
	k.do("a", write.Insert{Set: write.Fields{"state": "new"}})
	events := make([]write.Event, writers)
	for i := range events {
		c := move("paid", "new")
		c.Set = write.Fields{"n": i}
		events[i] = k.event("a", c)
	}
	var c tally
	k.together(writers, func(i int, w write.Writer) {
		var state *write.StateError
		switch r, err := w.Write(k.ctx, events[i]); {
		case errors.As(err, &state) && state.State == "paid":
			c.add("refused")
		case err != nil:
			k.Error(err)
		default:
			c.add(string(r.Outcome))
		}
	})
	k.wantTally(&c, map[string]int{"applied": 1, "refused": writers - 1})
}

func raceSum(k *kit) {
	const (
		each = 8
		docs = 3
	)
	events := make([]write.Event, writers*each)
	var want [docs]int64
	for i := range events {
		doc := i % docs
		events[i] = k.event(doc, write.Increment{By: write.Fields{"n": i}})
		want[doc] += int64(i)
	}
	// Each writer writes its own events, and those of its neighbour again.
	k.together(writers, func(i int, w write.Writer) {
		for j := range 2 * each {
			e := events[(i*each+j)%len(events)]
			if r, err := w.Write(k.ctx, e); err != nil || r.Outcome == write.Conflict {
				k.Errorf("%v, %v", r, err)
				return
			}
		}
	})
	for doc, sum := range want {
		k.wantDoc(doc, write.Fields{"n": sum})
	}
}

func raceBatches(k *kit) {
	const (
		batches = 8
		size    = 40
		docs    = 7
	)
	events := make([]write.Event, size)
	var want [docs]int64
	for i := range events {
		events[i] = k.event(i%docs, write.Increment{By: write.Fields{"n": i + 1}})
		want[i%docs] += int64(i + 1)
	}
	var applied tally
	k.together(batches, func(i int, w write.Writer) {
		mine := append([]write.Event(nil), events...)
		rand.Shuffle(size, func(a, b int) { mine[a], mine[b] = mine[b], mine[a] })
		rs, err := w.WriteAll(k.ctx, mine)
		if err != nil {
			k.Errorf("batch %d: %v", i, err)
		}
		for _, r := range rs {
			if r.Err != nil {
				k.Errorf("batch %d: %v", i, r.Err)
			}
			applied.add(string(r.Outcome))
		}
	})
	k.wantTally(&applied, map[string]int{"applied": size, "duplicate": size * (batches - 1)})
	for doc, sum := range want {
		k.wantDoc(doc, write.Fields{"n": sum})
	}
}

func raceNewer(k *kit) {
	events := make([]write.Event, writers)
	for i, version := range rand.Perm(writers) {
		events[i] = k.event("a", write.Upsert{
			Set: write.Fields{"version": version, "n": version * 2}, Newer: "version",
		})
	}
	k.together(writers, func(i int, w write.Writer) {
		r, err := w.Write(k.ctx, events[i])
		if err != nil || r.Outcome != write.Applied && r.Outcome != write.Stale {
			k.Errorf("%v, %v", r, err)
		}
	})
	k.wantDoc("a", write.Fields{
		"version": int64(writers - 1), "n": int64(2 * (writers - 1)),
	})
}
