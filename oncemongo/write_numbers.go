package oncemongo

import (
	"encoding/json"
	"math/big"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once/write"
)

// additions are the whole numbers that an event adds; ok is false if it adds others, whose sums a
// server rounds.
func (j *writeJob) additions() (by map[string]int64, ok bool) {
	var fields write.Fields
	switch c := j.event.Change.(type) {
	case write.Increment:
		fields = c.By
	case write.Upsert:
		fields = c.Increment
	}
	by = make(map[string]int64, len(fields))
	for name, v := range fields {
		n, err := write.Number(v)
		whole, isWhole := n.(int64)
		if err != nil || !isWhole {
			return nil, false
		}
		by[name] = whole
	}
	return by, true
}

// assigns tells whether an event writes a member otherwise than by adding to it.
func (j *writeJob) assigns(name string) bool {
	var set, onInsert write.Fields
	switch c := j.event.Change.(type) {
	case write.Insert:
		set = c.Set
	case write.Upsert:
		set, onInsert = c.Set, c.SetOnInsert
	case write.Increment:
		onInsert = c.SetOnInsert
	case write.Append:
		onInsert = c.SetOnInsert
	case write.Transition:
		set = c.Set
		if name == c.Field {
			return true
		}
	}
	_, inSet := set[name]
	_, inInsert := onInsert[name]
	return inSet || inInsert
}

// follows tells whether what the earlier events of one document in a bulk have added to can be told
// from the document after it, when the event is one of the bulk too: it adds whole numbers, and
// takes no sum away.
func (j *writeJob) follows(earlier []*writeJob) bool {
	_, whole := j.additions()
	for _, e := range earlier {
		for _, name := range e.plan.numbers {
			if !whole || j.assigns(name) {
				return false
			}
		}
	}
	return true
}

// sums are the numbers of the events of one document in a bulk, which were applied in this order:
// those of the document after it, less what the later ones have added.
func sums(doc bson.Raw, applied []*writeJob) []write.Fields {
	all := make([]write.Fields, len(applied))
	later := map[string]int64{}
	for i := len(applied) - 1; i >= 0; i-- {
		j := applied[i]
		all[i] = numbersOf(doc, j.plan.numbers)
		for name, n := range all[i] {
			all[i][name] = less(n, later[name])
		}
		by, _ := j.additions()
		for name, n := range by {
			later[name] += n
		}
	}
	return all
}

// less is a number of write.Number's without what was added to it.
func less(n any, added int64) any {
	if whole, ok := n.(int64); ok {
		return whole - added
	}
	literal, _ := n.(json.Number)
	r, ok := new(big.Rat).SetString(string(literal))
	if !ok || added == 0 {
		return n
	}
	r.Sub(r, new(big.Rat).SetInt64(added))
	digits, _ := r.FloatPrec() // exact: it is a decimal
	if difference, err := write.Number(json.Number(r.FloatString(digits))); err == nil {
		return difference
	}
	return n
}
