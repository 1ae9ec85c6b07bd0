package writetest

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/write"
)

var (
	noon = time.Date(2030, 1, 2, 12, 0, 0, 250e6, time.UTC)
	// east is the same moment as noon, on another clock.
	east = noon.In(time.FixedZone("", 2*3600))
)

func changeCases() []Case {
	return []Case{
		{
			Name:    "Insert/MakesADocument",
			Promise: "Insert makes a document with every type of value.",
			run:     insertMakes,
		},
		{
			Name:    "Insert/LeavesADocumentOfAnotherEvent",
			Promise: "Insert of a document that is there is ErrExists, and the event is forgotten.",
			run:     insertExists,
		},
		{
			Name:    "Upsert/MakesAndChanges",
			Promise: "Set is written always, SetOnInsert only when the document is made.",
			run:     upsertBoth,
		},
		{
			Name:    "Increment/CountsFromZero",
			Promise: "A missing document or member counts as 0, and the result has the sum.",
			run:     incrementCounts,
		},
		{
			Name:    "Append/KeepsTheOrder",
			Promise: "Values are put at the end of a list, which is made if it is missing.",
			run:     appendOrder,
		},
		{
			Name:    "Transition/OnlyFromItsStates",
			Promise: "A transition from another state, or of no document, is a StateError.",
			run:     transitionStates,
		},
		{
			Name:    "Transition/ComesAgainWhenItsTimeHasCome",
			Promise: "A refused transition is forgotten: the same event may be applied later.",
			run:     transitionLater,
		},
	}
}

func insertMakes(k *kit) {
	r := k.do("a", write.Insert{Set: write.Fields{
		"n": 1<<53 + 1, "version": int64(-2), "amount": 0.25, "name": "ä'\"\\\n{,}", "at": east,
		"list": []any{"x", 1, true, nil}, "tag": nil,
	}})
	k.want("numbers", r.Numbers, write.Fields(nil))
	k.wantDoc("a", write.Fields{
		"n": int64(9007199254740993), "version": int64(-2), "amount": json.Number("0.25"),
		"name": "ä'\"\\\n{,}", "at": noon, "list": []any{"x", int64(1), true, nil},
	})
	k.do(7, write.Insert{Set: write.Fields{"n": json.Number("3")}})
	k.wantDoc(7, write.Fields{"n": int64(3)})
	k.do("bare", write.Insert{})
	k.wantDoc("bare", write.Fields{})
}

func insertExists(k *kit) {
	k.do("a", write.Insert{Set: write.Fields{"n": 1}})
	again := k.event("a", write.Insert{Set: write.Fields{"n": 2}})
	err := k.refuse(again, write.ErrExists)
	if !errors.Is(err, once.ErrConflict) {
		k.Errorf("%v is no once.ErrConflict", err)
	}
	k.refuse(again, write.ErrExists)
	k.wantDoc("a", write.Fields{"n": int64(1)})
	again.Key = "b" // the same id is free for another change
	k.want("outcome", k.write(again).Outcome, write.Applied)
}

func upsertBoth(k *kit) {
	c := write.Upsert{
		Set:         write.Fields{"name": "x", "version": 1},
		SetOnInsert: write.Fields{"tag": "made"},
		Increment:   write.Fields{"n": 2},
	}
	r := k.do("a", c)
	k.want("numbers", r.Numbers, write.Fields{"n": int64(2)})
	k.wantDoc("a", write.Fields{
		"name": "x", "version": int64(1), "tag": "made", "n": int64(2),
	})
	c.Set = write.Fields{"name": nil, "version": 2}
	c.SetOnInsert = write.Fields{"tag": "made again", "state": "new"}
	r = k.do("a", c)
	k.want("numbers", r.Numbers, write.Fields{"n": int64(4)})
	k.wantDoc("a", write.Fields{"version": int64(2), "tag": "made", "n": int64(4)})

	k.do("a", write.Upsert{SetOnInsert: write.Fields{"tag": "y"}})
	k.wantDoc("a", write.Fields{"version": int64(2), "tag": "made", "n": int64(4)})
	k.do("b", write.Upsert{SetOnInsert: write.Fields{"tag": "y"}})
	k.wantDoc("b", write.Fields{"tag": "y"})
}

func incrementCounts(k *kit) {
	r := k.do(1, write.Increment{By: write.Fields{"n": 5}})
	k.want("numbers", r.Numbers, write.Fields{"n": int64(5)})
	r = k.do(1, write.Increment{By: write.Fields{"n": int64(-7)}})
	k.want("numbers", r.Numbers, write.Fields{"n": int64(-2)})
	k.wantDoc(1, write.Fields{"n": int64(-2)})

	k.do("a", write.Insert{Set: write.Fields{"name": "x", "n": 1 << 53}})
	c := write.Increment{
		By:          write.Fields{"n": 1, "amount": 1.5},
		SetOnInsert: write.Fields{"tag": "made"},
	}
	r = k.do("a", c)
	k.want("numbers", r.Numbers,
		write.Fields{"n": int64(9007199254740993), "amount": json.Number("1.5")})
	r = k.do("a", c)
	k.want("numbers", r.Numbers, write.Fields{"n": int64(9007199254740994), "amount": int64(3)})
	k.wantDoc("a", write.Fields{
		"name": "x", "n": int64(9007199254740994), "amount": int64(3),
	})
	k.do("b", c)
	k.wantDoc("b", write.Fields{
		"n": int64(1), "amount": json.Number("1.5"), "tag": "made",
	})
}

func appendOrder(k *kit) {
	k.do("a", write.Append{
		To: "list", Values: []any{"x", 1}, SetOnInsert: write.Fields{"tag": "made"},
	})
	r := k.do("a", write.Append{
		To: "list", Values: []any{[]any{2}, nil, "x"}, SetOnInsert: write.Fields{"tag": "again"},
	})
	k.want("numbers", r.Numbers, write.Fields(nil))
	k.wantDoc("a", write.Fields{
		"tag": "made", "list": []any{"x", int64(1), []any{int64(2)}, nil, "x"},
	})
	k.do("b", write.Insert{Set: write.Fields{"n": 1}})
	k.do("b", write.Append{To: "list", Values: []any{"y"}})
	k.wantDoc("b", write.Fields{"n": int64(1), "list": []any{"y"}})
}

// move is a transition of the member state.
func move(to string, from ...string) write.Transition {
	return write.Transition{Field: "state", From: from, To: to}
}

func transitionStates(k *kit) {
	k.do("a", write.Insert{Set: write.Fields{"state": "new"}})
	c := move("paid", "open", "new")
	c.Set = write.Fields{"n": 5, "at": noon}
	k.do("a", c)
	k.wantDoc("a", write.Fields{"state": "paid", "n": int64(5), "at": noon})

	var state *write.StateError
	err := k.refuse(k.event("a", c), once.ErrState)
	if !errors.As(err, &state) || state.Missing || state.State != "paid" || state.To != "paid" ||
		len(state.From) != 2 {
		k.Errorf("wrong state: %+v", err)
	}
	err = k.refuse(k.event("none", c), once.ErrState)
	if !errors.As(err, &state) || !state.Missing || !errors.Is(err, once.ErrNotFound) {
		k.Errorf("no document: %+v", err)
	}
	k.wantNone("none")
	k.wantDoc("a", write.Fields{"state": "paid", "n": int64(5), "at": noon})

	k.do("b", write.Insert{Set: write.Fields{"n": 1}})
	err = k.refuse(k.event("b", c), once.ErrState)
	if !errors.As(err, &state) || state.Missing || state.State != "" {
		k.Errorf("no state: %+v", err)
	}
	k.wantDoc("b", write.Fields{"n": int64(1)})
}

func transitionLater(k *kit) {
	k.do("a", write.Insert{Set: write.Fields{"state": "new"}})
	ship := k.event("a", move("shipped", "paid"))
	k.refuse(ship, once.ErrState)
	k.do("a", move("paid", "new"))
	k.want("outcome", k.write(ship).Outcome, write.Applied)
	k.wantDoc("a", write.Fields{"state": "shipped"})
	k.want("outcome", k.write(ship).Outcome, write.Duplicate)
	k.do("a", move("paid", "shipped")) // a cycle
	k.want("outcome", k.write(ship).Outcome, write.Duplicate)
	k.wantDoc("a", write.Fields{"state": "paid"})
}
