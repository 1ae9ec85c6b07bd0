package torture_test

import (
	"slices"
	"strconv"
	"strings"
)

// checkEffects compares what the sink counted with what the model says went out.
func (e *evidence) checkEffects() {
	want, may := map[string]bool{}, map[string]bool{}
	for name, k := range e.tasks {
		for ef := range k.effects {
			want[name+" "+ef] = true
		}
		for ef := range k.alarms {
			may[name+" "+ef] = true
		}
	}
	for _, c := range e.callbacks {
		if c.source == "lamps" {
			want[c.line+" shine "] = true
		}
	}
	ids, names := map[string]string{}, map[string]string{} // both ways
	whistles := map[string]int{}
	for _, a := range e.arrivals {
		if a.to == "service" {
			continue
		}
		name := a.task + " " + a.effect + " " + a.resource
		if a.to == "siren" {
			if whistles[a.key]++; whistles[a.key] > 1 {
				e.t.Errorf("effect %s (%s) came again, and its destination asks for once", name,
					a.key)
			}
		}
		switch {
		case !want[name] && !may[name]:
			e.t.Errorf("effect %s (%s) came, and nothing explains it", name, a.key)
		case a.key != a.id || a.fence != a.hdr:
			e.t.Errorf("effect %s: key %s and fence %s, its payload says %s and %s", name, a.key,
				a.hdr, a.id, a.fence)
		case names[name] == "" && ids[a.key] == "":
			ids[a.key], names[name] = name, a.key
		case ids[a.key] != name || names[name] != a.key:
			e.t.Errorf("effect %s came as %s and as %s", name, names[name], a.key)
		}
	}
	for name := range want {
		if names[name] == "" {
			e.t.Errorf("effect %s never came", name)
		}
	}
	for _, w := range e.rows {
		if w.kind != 2 {
			continue
		}
		name := w.task + " " + w.event + " " + w.resource
		if names[name] != w.payload {
			e.t.Errorf("effect %s came as %q, and is stored as %q", name, names[name], w.payload)
		}
		want[name] = true // an alarm, too
	}
	if len(ids) != len(want) {
		e.t.Errorf("%d effects by their ids, want %d", len(ids), len(want))
	}
}

// reign is the time in which a task has a roadway.
type reign struct {
	task       string
	start      int64 // seq of its startFE
	from, to   int64 // by the task's history, in microseconds
	lock, free int   // first arrivals at the sink
	fence      int
}

// checkRoadways compares four orders of the tasks that had a roadway: of acceptance, of the fences,
// of the task's histories, and of the first arrivals at the sink.
func (e *evidence) checkRoadways() {
	byRoadway := map[string][]*reign{}
	byTask := map[string]*reign{}
	for name, k := range e.tasks {
		if k.starter >= 0 {
			g := &reign{task: name, start: e.starts[name], lock: -1, free: -1}
			byTask[name] = g
			byRoadway[k.roadway] = append(byRoadway[k.roadway], g)
		}
	}
	e.readHistory(byTask)
	for _, a := range e.arrivals {
		g := byTask[a.task]
		switch {
		case g == nil:
		case a.effect == "lock" && g.lock < 0:
			g.lock = a.n
		case a.effect == "unlock" && g.free < 0:
			g.free = a.n
			g.fence, _ = strconv.Atoi(a.fence) // 0 is no fence that is expected
		}
	}
	fences := e.readFences()
	for roadway, list := range byRoadway {
		slices.SortFunc(list, func(a, b *reign) int { return int(a.start - b.start) })
		if fences[roadway] != len(list) {
			e.t.Errorf("%s has fence %d, want %d", roadway, fences[roadway], len(list))
		}
		for i, g := range list {
			if g.fence != i+1 {
				e.t.Errorf("%s had %s with fence %d, want %d", g.task, roadway, g.fence, i+1)
			}
			if g.from == 0 || g.to < g.from {
				e.t.Errorf("%s had %s from %d to %d", g.task, roadway, g.from, g.to)
			}
			if i == 0 {
				continue
			}
			before := list[i-1]
			if before.to > g.from {
				e.t.Errorf("%s and %s had %s at the same time", before.task, g.task, roadway)
			}
			if before.free > g.lock || before.free > g.free {
				e.t.Errorf("%s: %s was locked for %s before it was unlocked for %s", roadway,
					roadway, g.task, before.task)
			}
		}
	}
}

// readHistory notes when tasks took and left their roadways.
func (e *evidence) readHistory(byTask map[string]*reign) {
	query(e.t, e.db, `SELECT t.task, h.at, h.event FROM history h JOIN tasks t USING (id)
		WHERE t.flow = 'transport' ORDER BY h.id, h.version`, func(scan func(...any)) {
		var task, event string
		var at int64
		scan(&task, &at, &event)
		g := byTask[task]
		switch {
		case g == nil:
			e.t.Errorf("%s has a history, and the model knows no start of it", task)
		case event == "startFE":
			g.from = at
		case (event == "finishFE" || event == "cancel") && g.to == 0:
			g.to = at
		}
	})
}

// readFences returns the fence of each roadway.
func (e *evidence) readFences() map[string]int {
	fences := map[string]int{}
	query(e.t, e.db, "SELECT name, fence FROM resources WHERE kind = 'roadway'",
		func(scan func(...any)) {
			var name string
			var fence int
			scan(&name, &fence)
			fences[name] = fence
		})
	return fences
}

// checkMeters compares the handler's own tables with the callbacks.
func (e *evidence) checkMeters() {
	want, have := map[string]int{}, map[string]int{}
	for meter, list := range e.lines("meters") {
		for _, c := range list {
			n, _ := c.fields["n"].(int)
			want["meter "+meter] += n
			want["reading "+c.text("id")]++
		}
	}
	sum := func(text string) {
		query(e.t, e.db, text, func(scan func(...any)) {
			var name string
			var n int
			scan(&name, &n)
			have[name] = n
		})
	}
	sum("SELECT 'meter ' || meter, n FROM meters")
	sum("SELECT 'reading ' || id, count(*) FROM readings GROUP BY 1")
	for name, n := range want {
		if have[name] != n {
			e.t.Errorf("%s: %d, want %d", name, have[name], n)
		}
	}
	if len(have) != len(want) {
		e.t.Errorf("%d meters and readings, want %d", len(have), len(want))
	}
}

// checkOrders compares what the service was handed with the callbacks.
func (e *evidence) checkOrders() {
	first := map[string][]string{} // ids of a line in the order of their first arrival
	keys := map[string]string{}
	for _, a := range e.arrivals {
		if a.to != "service" {
			continue
		}
		if keys[a.id] == "" {
			first[a.order] = append(first[a.order], a.id)
			keys[a.id] = a.key
		}
		if keys[a.id] != a.key {
			e.t.Errorf("callback %s was handed over as %s and as %s", a.id, keys[a.id], a.key)
		}
	}
	lines := e.lines("orders")
	for line, list := range lines {
		var want []string
		for _, c := range list {
			want = append(want, c.text("id"))
		}
		if !slices.Equal(first[line], want) {
			e.t.Errorf("%s was handed over in the order\n%s, want\n%s", line,
				strings.Join(first[line], " "), strings.Join(want, " "))
		}
	}
	if len(first) != len(lines) {
		e.t.Errorf("%d lines were handed over, want %d", len(first), len(lines))
	}
}
