package writetest

import (
	"context"
	"errors"
	"strings"

	"github.com/oncekit/once"
	"github.com/oncekit/once/write"
)

func refusedCases() []Case {
	return []Case{
		{
			Name:    "Refused/WrongEvents",
			Promise: "A wrong event is an EventError, and nothing is written.",
			run:     refusedEvents,
		},
		{
			Name:    "Refused/WrongShape",
			Promise: "A document of another shape is a ShapeError; the event is forgotten.",
			run:     refusedShape,
		},
		{
			Name:    "Refused/EndedContext",
			Promise: "A context that has ended is its error, and nothing is written.",
			run:     refusedContext,
		},
		{
			Name:    "B13/LargeValues",
			Promise: "A value of a megabyte is written; a change above the limit is ErrTooLarge.",
			run:     largeValues,
		},
	}
}

func refusedEvents(k *kit) {
	good := write.Event{
		ID: "e", In: "accounts", Key: "a", Change: write.Insert{Set: write.Fields{"n": 1}},
	}
	with := func(change func(e *write.Event)) write.Event {
		e := good
		change(&e)
		return e
	}
	for _, c := range []struct {
		event write.Event
		field string
	}{
		{with(func(e *write.Event) { e.ID = "" }), "ID"},
		{with(func(e *write.Event) { e.ID = strings.Repeat("x", 1<<20) }), "ID"},
		{with(func(e *write.Event) { e.In = "others" }), "In"},
		{with(func(e *write.Event) { e.In = "ACCOUNTS" }), "In"},
		{with(func(e *write.Event) { e.Key = "" }), "Key"},
		{with(func(e *write.Event) { e.Change = nil }), "Change"},
		{with(func(e *write.Event) { e.Change = write.Upsert{} }), "Change"},
		{with(func(e *write.Event) {
			e.Change = write.Upsert{Set: write.Fields{"a.b": 1}}
		}), "Set.a.b"},
		{with(func(e *write.Event) {
			e.Change = write.Upsert{Set: write.Fields{"$set": 1}}
		}), "Set.$set"},
		{with(func(e *write.Event) {
			e.Change = write.Upsert{
				SetOnInsert: write.Fields{"n": 1}, Increment: write.Fields{"n": 1},
			}
		}), "Increment.n"},
	} {
		err := k.refuse(c.event, write.ErrEvent)
		var bad *write.EventError
		if !errors.As(err, &bad) || bad.Field != c.field {
			k.Errorf("%v, want one about %s", err, c.field)
		}
	}
	k.wantNone("a")
	k.want("outcome", k.write(good).Outcome, write.Applied)
}

func refusedShape(k *kit) {
	k.do("a", write.Insert{Set: write.Fields{"name": "x", "n": 1}})
	for _, c := range []struct {
		change write.Change
		field  string
	}{
		{write.Increment{By: write.Fields{"name": 1, "n": 1}}, "name"},
		{write.Upsert{Set: write.Fields{"n": 2}, Increment: write.Fields{"name": 1}}, "name"},
		{write.Append{To: "name", Values: []any{"y"}}, "name"},
	} {
		e := k.event("a", c.change)
		for range 2 {
			err := k.refuse(e, write.ErrShape)
			var shape *write.ShapeError
			if !errors.As(err, &shape) || shape.In != "accounts" || shape.Field != c.field {
				k.Errorf("%v, want one about %s", err, c.field)
			}
		}
		k.wantDoc("a", write.Fields{"name": "x", "n": int64(1)})
		e.Change = write.Increment{By: write.Fields{"n": 0}}
		k.want("outcome of the mended event", k.write(e).Outcome, write.Applied)
	}
}

func refusedContext(k *kit) {
	e := k.event("a", write.Increment{By: write.Fields{"n": 1}})
	ended, cancel := context.WithCancel(k.ctx)
	cancel()
	if r, err := k.h.Writer.Write(ended, e); !errors.Is(err, context.Canceled) {
		k.Errorf("write: %v, %v", r, err)
	}
	r, err := k.h.Writer.WriteAll(ended, []write.Event{e, k.event("b", e.Change)})
	if !errors.Is(err, context.Canceled) {
		k.Errorf("write all: %v, %v", r, err)
	}
	k.wantNone("a")
	k.wantNone("b")
	k.want("outcome", k.write(e).Outcome, write.Applied)
	k.wantDoc("a", write.Fields{"n": int64(1)})
}

func largeValues(k *kit) {
	text := strings.Repeat("ä", 1<<19)
	k.do("a", write.Insert{Set: write.Fields{"name": text}})
	k.wantDoc("a", write.Fields{"name": text})
	e := k.event("b", write.Insert{Set: write.Fields{"name": strings.Repeat("x", 17<<20)}})
	k.refuse(e, once.ErrTooLarge)
	k.wantNone("b")
	e.Change = write.Insert{}
	k.want("outcome", k.write(e).Outcome, write.Applied)
}
