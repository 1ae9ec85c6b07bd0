package writetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/write"
)

func randomCases() []Case {
	return []Case{{
		Name:    "Random/AsTheModel",
		Promise: "Whatever comes, single or in batches, ends as it does in the model.",
		run:     randomWalk,
	}}
}

// walk makes random events over a few ids and keys, so that all outcomes come often.
type walk struct {
	r    *rand.Rand
	past []write.Event
}

func randomWalk(k *kit) {
	seed := rand.Uint64()
	k.Cleanup(func() {
		if k.Failed() {
			k.Logf("seed %d", seed)
		}
	})
	const steps = 250
	w := &walk{r: rand.New(rand.NewPCG(seed, 0))}
	model := NewModel()
	for step := range steps {
		events := []write.Event{w.event()}
		if w.r.IntN(6) == 0 {
			for range w.r.IntN(12) {
				events = append(events, w.event())
			}
		}
		want, err := model.WriteAll(k.ctx, events)
		if err != nil {
			k.Fatal(err)
		}
		var got []write.Result
		if len(events) == 1 {
			r, err := k.h.Writer.Write(k.ctx, events[0])
			r.Err = err
			got = []write.Result{r}
		} else if got, err = k.h.Writer.WriteAll(k.ctx, events); err != nil {
			k.Fatalf("step %d: %v", step, err)
		}
		for i := range want {
			if what := differs(got[i], want[i]); what != "" {
				k.Fatalf("step %d, event %d of %d, %+v: %s", step, i, len(events), events[i], what)
			}
		}
		for _, e := range events {
			k.compare(step, model, e)
		}
	}
}

// compare compares a document with the model's.
func (k *kit) compare(step int, model *Model, e write.Event) {
	if _, err := model.targets.Check(e); err != nil {
		return
	}
	want, has := model.Read(e.In, e.Key)
	got, found := k.h.Read(k.T, e.In, e.Key)
	if found != has || !equal(got, want) {
		k.Fatalf("step %d, %+v: document %v, %v, want %v, %v", step, e, got, found, want, has)
	}
}

// differs tells how a result is another one than the model's.
func differs(got, want write.Result) string {
	switch {
	case got.Outcome != want.Outcome:
		return fmt.Sprintf("outcome %q (%v), want %q (%v)",
			got.Outcome, got.Err, want.Outcome, want.Err)
	case !sameKind(got.Err, want.Err):
		return fmt.Sprintf("error %v, want %v", got.Err, want.Err)
	case !reflect.DeepEqual(got.Numbers, want.Numbers):
		return fmt.Sprintf("numbers %v, want %v", got.Numbers, want.Numbers)
	case (got.First == nil) != (want.First == nil):
		return fmt.Sprintf("first %v, want %v", got.First, want.First)
	case got.First == nil:
		return ""
	}
	g, w := *got.First, *want.First
	g.At, w.At = time.Time{}, time.Time{}
	if g != w {
		return fmt.Sprintf("first %v, want %v", g, w)
	}
	return ""
}

// sameKind compares errors by what a caller would ask.
func sameKind(a, b error) bool {
	for _, kind := range []error{
		write.ErrEvent, write.ErrExists, write.ErrShape, once.ErrState, once.ErrNotFound,
		once.ErrTooLarge, once.ErrUnavailable,
	} {
		if errors.Is(a, kind) != errors.Is(b, kind) {
			return false
		}
	}
	return (a == nil) == (b == nil)
}

func (w *walk) event() write.Event {
	if len(w.past) > 0 && w.r.IntN(4) == 0 {
		e := w.past[w.r.IntN(len(w.past))]
		if w.r.IntN(4) == 0 {
			e.Change = w.change()
			if e.In == "counters" { // it has but one member
				e.Change = write.Increment{By: write.Fields{"n": w.r.IntN(5)}}
			}
		}
		return e
	}
	e := write.Event{ID: fmt.Sprint("id ", len(w.past)), In: "accounts", Change: w.change()}
	e.Key = fmt.Sprint("key ", w.r.IntN(4))
	switch w.r.IntN(30) {
	case 0:
		e.In = "elsewhere"
	case 1:
		e.In, e.Key, e.Change = "counters", w.r.IntN(2), write.Increment{By: write.Fields{"n": 2}}
	}
	w.past = append(w.past, e)
	return e
}

func (w *walk) change() write.Change {
	n := w.r.IntN(5)
	switch w.r.IntN(7) {
	case 0:
		return write.Insert{Set: w.fields()}
	case 1:
		return write.Upsert{
			Set:         write.Fields{"name": w.word()},
			SetOnInsert: write.Fields{"tag": w.word()},
			Increment:   write.Fields{"n": n, "amount": float64(n) / 4},
		}
	case 2:
		set := write.Fields{"version": n, "name": w.word()}
		if w.r.IntN(2) == 0 {
			delete(set, "version")
			set["at"] = noon.Add(time.Duration(n) * time.Minute)
			return write.Upsert{Set: set, Newer: "at"}
		}
		return write.Upsert{Set: set, Newer: "version"}
	case 3:
		return write.Increment{By: write.Fields{"n": -n}, SetOnInsert: write.Fields{"state": "a"}}
	case 4:
		return write.Append{To: "list", Values: []any{n, w.word()}}
	case 5:
		return write.Upsert{Set: write.Fields{"state": w.state(), "tag": nil}}
	}
	c := move(w.state(), w.state(), w.state())
	c.Set = write.Fields{"name": w.word()}
	if n == 0 {
		c.Set["version"] = w.r.IntN(5)
		c.Newer = "version"
	}
	return c
}

func (w *walk) fields() write.Fields {
	all := write.Fields{
		"n": w.r.IntN(9), "version": w.r.IntN(5), "name": w.word(), "tag": nil,
		"state": w.state(), "list": []any{w.word()}, "at": noon,
	}
	for name := range all {
		if w.r.IntN(2) == 0 {
			delete(all, name)
		}
	}
	return all
}

func (w *walk) word() string { return []string{"x", "X", "x ", "", "ä"}[w.r.IntN(5)] }

func (w *walk) state() string { return []string{"a", "b", "c"}[w.r.IntN(3)] }
