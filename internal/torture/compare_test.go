package torture_test

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"testing"
)

// evidence is what is there in the end: what the senders know, the store and the sink have.
type evidence struct {
	t         *testing.T
	db        *sql.DB
	callbacks []*callback
	rows      []row
	byID      map[string]row // callbacks by source and key
	arrivals  []arrival
	tasks     map[string]*task // by the model
	starts    map[string]int64 // seq of the callback that started a task
}

// compare checks everything that was promised.
func compare(t *testing.T, r *rig) {
	t.Helper()
	e := &evidence{t: t, db: openStore(t, r), callbacks: r.book.callbacks(),
		byID: map[string]row{}, tasks: map[string]*task{}, starts: map[string]int64{}}
	e.rows, e.arrivals = readRows(t, e.db), readArrivals(t, r)
	for _, w := range e.rows {
		if w.kind == 1 {
			e.byID[w.source+" "+w.key] = w
		}
	}
	t.Logf("%d callbacks, %d rows, %d arrivals at the sink", len(e.callbacks), len(e.rows),
		len(e.arrivals))
	t.Run("the file is consistent", e.with((*evidence).checkFile))
	t.Run("kept counters equal a count", e.with((*evidence).checkCounters))
	t.Run("every acknowledged callback is there", e.with((*evidence).checkCallbacks))
	t.Run("tasks are what the model says", e.with((*evidence).checkTasks))
	t.Run("nothing is left in hand", e.with((*evidence).checkNothingWaits))
	t.Run("each effect went out, and no other", e.with((*evidence).checkEffects))
	t.Run("a roadway has one owner at a time", e.with((*evidence).checkRoadways))
	t.Run("the handler counted each callback once", e.with((*evidence).checkMeters))
	t.Run("the service got each callback in order", e.with((*evidence).checkOrders))
}

func (e *evidence) with(check func(*evidence)) func(*testing.T) {
	return func(t *testing.T) {
		own := *e
		own.t = t
		check(&own)
	}
}

func (e *evidence) checkFile() {
	query(e.t, e.db, "PRAGMA integrity_check", func(scan func(...any)) {
		var text string
		if scan(&text); text != "ok" {
			e.t.Error(text)
		}
	})
}

// checkCounters compares what is kept with what is there.
func (e *evidence) checkCounters() {
	kept, counted := map[string]int{}, map[string]int{}
	query(e.t, e.db, "SELECT kind, source, state, n FROM counters WHERE n <> 0",
		func(scan func(...any)) {
			var kind, n int
			var source, state string
			scan(&kind, &source, &state, &n)
			kept[fmt.Sprint(kind, " ", source, " ", state)] = n
		})
	for _, w := range e.rows {
		counted[fmt.Sprint(w.kind, " ", w.source, " ", w.state)]++
	}
	query(e.t, e.db, "SELECT flow, state, count(*) FROM tasks WHERE gone = 0 GROUP BY 1, 2",
		func(scan func(...any)) {
			var flow, state string
			var n int
			scan(&flow, &state, &n)
			counted["3 "+flow+" "+state] = n
		})
	if !maps.Equal(kept, counted) {
		e.t.Errorf("kept    %v\ncounted %v", kept, counted)
	}
}

// checkCallbacks looks for what the senders were told.
func (e *evidence) checkCallbacks() {
	known := map[string]bool{}
	for _, c := range e.callbacks {
		known[c.id()] = true
		w, ok := e.byID[c.id()]
		switch {
		case c.acks == 0:
			e.t.Errorf("%s was never acknowledged", c.id())
		case !ok && c.source == "lamps": // its retention is over
		case !ok:
			e.t.Errorf("%s was acknowledged and is not in the store", c.id())
		case w.event != c.event:
			e.t.Errorf("%s has event %s", c.id(), w.event)
		case w.duplicates > c.sends-1:
			e.t.Errorf("%s has %d duplicates of %d sent", c.id(), w.duplicates, c.sends)
		case w.conflicts < c.told || w.conflicts > c.conflicts:
			e.t.Errorf("%s has %d conflicts; %d were sent and %d acknowledged", c.id(),
				w.conflicts, c.conflicts, c.told)
		case c.source != "rcs" && w.state != "done":
			e.t.Errorf("%s is %s (%s): %s", c.id(), w.state, w.deadCause, w.problem)
		}
	}
	for id := range e.byID {
		if !known[id] {
			e.t.Errorf("%s is in the store, and nobody sent it", id)
		}
	}
}

// lines returns the callbacks of a source by line, in the order of acceptance. That order has to
// agree with the senders, who began a group when the one before was acknowledged.
func (e *evidence) lines(source string) map[string][]*callback {
	lines := map[string][]*callback{}
	for _, c := range e.callbacks {
		if c.source == source {
			lines[c.line] = append(lines[c.line], c)
		}
	}
	for _, list := range lines {
		slices.SortFunc(list, func(a, b *callback) int {
			return int(e.byID[a.id()].seq - e.byID[b.id()].seq)
		})
		for i := 1; i < len(list); i++ {
			if list[i].group < list[i-1].group {
				e.t.Errorf("%s was accepted before %s, which was acknowledged before it was sent",
					list[i-1].id(), list[i].id())
			}
		}
	}
	return lines
}

// checkTasks runs the model and compares each callback's and each task's end with it.
func (e *evidence) checkTasks() {
	type stored struct {
		state, roadway string
		seq            int
	}
	have := map[string]stored{}
	query(e.t, e.db, `SELECT task, state, coalesce(fields ->> '$.roadway', ''),
		coalesce(fields ->> '$.seq', -1) FROM tasks WHERE flow = 'transport'`,
		func(scan func(...any)) {
			var name string
			var s stored
			scan(&name, &s.state, &s.roadway, &s.seq)
			have[name] = s
		})
	for name, list := range e.lines("rcs") {
		k := runTask(name, list)
		e.tasks[name] = k
		if got, want := have[name], (stored{k.state, k.roadway, k.seq}); got != want {
			e.t.Errorf("%s is %+v, want %+v", name, got, want)
		}
		for i, c := range list {
			w := e.byID[c.id()]
			if w.state != k.became[i] || w.state == "dead" && w.deadCause != "illegal" {
				e.t.Errorf("%s is %s (%s: %s), want %q", c.id(), w.state, w.deadCause, w.problem,
					k.became[i])
			}
		}
		if k.starter >= 0 {
			e.starts[name] = e.byID[list[k.starter].id()].seq
		}
	}
	if len(have) != len(e.tasks) {
		e.t.Errorf("%d tasks, want %d", len(have), len(e.tasks))
	}
}

// checkNothingWaits looks for effects that did not come to their end, and rows that still wait.
func (e *evidence) checkNothingWaits() {
	for _, w := range e.rows {
		if w.kind == 2 && w.state != "done" {
			e.t.Errorf("effect %s of %s is %s: %s", w.event, w.task, w.state, w.problem)
		}
	}
	query(e.t, e.db, "SELECT count(*) FROM attempts WHERE result = 'lost'",
		func(scan func(...any)) {
			var n int
			if scan(&n); n == 0 {
				e.t.Error("no attempt was lost: the kills missed all of them")
			}
		})
	for _, text := range []string{"SELECT count(*) FROM lines", "SELECT count(*) FROM waits",
		"SELECT count(*) FROM resources WHERE task <> '' OR freeing <> 0"} {
		query(e.t, e.db, text, func(scan func(...any)) {
			var n int
			if scan(&n); n != 0 {
				e.t.Errorf("%s: %d, want 0", text, n)
			}
		})
	}
}
