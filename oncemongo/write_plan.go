package oncemongo

import (
	"fmt"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once/write"
)

// ownMember is the member of users' documents in which the steps leave their traces: ids, the
// events between their change and their mark, and e, the epoch, which bars attempts of former
// times.
const ownMember = "_once"

// changePlan is a change in MongoDB's words.
type changePlan struct {
	// conditions have to hold in the document, besides its key.
	conditions bson.D
	// update is what is done to it, but the lists ("$push"), which the steps add to; empty for an
	// Insert.
	update bson.D
	push   bson.D
	// insert is the document of an Insert, without its key.
	insert bson.D
	// makes: a document that is missing is made.
	makes bool
	// numbers are the members that are added to, list the one that is appended to.
	numbers []string
	list    string

	// What tells why the conditions don't hold: the member that orders events and the event's
	// value, the member that holds the state and the states in which it may be.
	newer      string
	newerValue any
	field      string
	change     write.Transition
}

// planOf turns a change into MongoDB's words. The errors are *write.EventError.
func planOf(change write.Change, decimals bool) (*changePlan, error) {
	b := &planBuilder{decimals: decimals}
	switch c := change.(type) {
	case write.Insert:
		b.plan.insert = append(bson.D{}, b.fields("Set", c.Set)...)
	case write.Upsert:
		b.plan.makes = true
		b.operator("$set", "Set", c.Set)
		b.operator("$setOnInsert", "SetOnInsert", c.SetOnInsert)
		b.increment("Increment", c.Increment)
		b.onlyNewer(c.Newer, c.Set)
	case write.Increment:
		b.plan.makes = true
		b.increment("By", c.By)
		b.operator("$setOnInsert", "SetOnInsert", c.SetOnInsert)
	case write.Append:
		b.plan.makes = true
		b.operator("$setOnInsert", "SetOnInsert", c.SetOnInsert)
		b.check("To", c.To)
		b.plan.list = c.To
		list := b.value("Values", c.Values)
		b.plan.push = bson.D{{Key: c.To, Value: bson.D{{Key: "$each", Value: list}}}}
	case write.Transition:
		b.transition(c)
	default:
		return nil, &write.EventError{Field: "Change", Reason: fmt.Sprintf("is a Go %T", change)}
	}
	return &b.plan, b.err
}

// planBuilder keeps the first error.
type planBuilder struct {
	plan     changePlan
	decimals bool
	err      error
}

func (b *planBuilder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// check refuses the member that is not the user's.
func (b *planBuilder) check(part, name string) {
	if name == ownMember {
		b.fail(&write.EventError{Field: part + "." + name, Reason: "is the writer's own"})
	}
}

func (b *planBuilder) value(at string, v any) any {
	made, err := valueToBSON(at, v, b.decimals)
	if err != nil {
		b.fail(err)
	}
	return made
}

func (b *planBuilder) fields(part string, f write.Fields) bson.D {
	b.check(part, onlyOwn(f))
	doc, err := fieldsToBSON(part, f, b.decimals)
	if err != nil {
		b.fail(err)
	}
	return doc
}

func onlyOwn(f write.Fields) string {
	if _, found := f[ownMember]; found {
		return ownMember
	}
	return ""
}

func (b *planBuilder) operator(name, part string, f write.Fields) {
	if len(f) > 0 {
		b.plan.update = append(b.plan.update, bson.E{Key: name, Value: b.fields(part, f)})
	}
}

func (b *planBuilder) increment(part string, f write.Fields) {
	b.operator("$inc", part, f)
	b.plan.numbers = slices.Sorted(maps.Keys(f))
}

// onlyNewer makes the change depend on a member that is smaller, or null, or missing. A list would
// match by any of its elements, so it must be none.
func (b *planBuilder) onlyNewer(name string, set write.Fields) {
	if name == "" {
		return
	}
	b.plan.newer, b.plan.newerValue = name, b.value("Set."+name, set[name])
	b.plan.conditions = append(b.plan.conditions,
		bson.E{Key: "$or", Value: bson.A{
			bson.D{{Key: name, Value: nil}},
			bson.D{{Key: name, Value: bson.D{{Key: "$lt", Value: b.plan.newerValue}}}},
		}}, noList(name))
}

// noList holds for members that are no list, or an empty one.
func noList(name string) bson.E {
	return bson.E{Key: name + ".0", Value: bson.D{{Key: "$exists", Value: false}}}
}

func (b *planBuilder) transition(c write.Transition) {
	b.check("Field", c.Field)
	b.plan.field, b.plan.change = c.Field, c
	from := make(bson.A, len(c.From))
	for i, state := range c.From {
		from[i] = state
	}
	b.plan.conditions = bson.D{
		{Key: c.Field, Value: bson.D{{Key: "$in", Value: from}}},
		noList(c.Field),
	}
	b.onlyNewer(c.Newer, c.Set)
	set := append(b.fields("Set", c.Set), bson.E{Key: c.Field, Value: c.To})
	b.plan.update = bson.D{{Key: "$set", Value: set}}
}

// verdict is what a document says to a change.
type verdict int

const (
	// may: the conditions hold.
	may verdict = iota
	// stale: the document is newer.
	stale
	// refusedNow: the change can't be made; the error says why.
	refusedNow
)

// judge tells whether the change may be made to a document, nil if there is none, and if not, why.
func (p *changePlan) judge(in string, doc bson.Raw) (verdict, error) {
	if doc == nil {
		if p.field != "" {
			return refusedNow, &write.StateError{
				Missing: true, From: p.change.From, To: p.change.To,
			}
		}
		return may, nil
	}
	if p.insert != nil {
		return refusedNow, write.ErrExists
	}
	if p.newer != "" {
		newer, err := newerThan(p.newerValue, doc.Lookup(p.newer))
		switch {
		case err != nil:
			return refusedNow, &write.ShapeError{In: in, Field: p.newer, Reason: err.Error()}
		case !newer:
			return stale, nil
		}
	}
	if p.field != "" {
		state, _ := doc.Lookup(p.field).StringValueOK()
		if !slices.Contains(p.change.From, state) {
			return refusedNow, &write.StateError{
				State: state, From: p.change.From, To: p.change.To,
			}
		}
	}
	return may, nil
}

// misfit tells which member of a document can't be added to; empty if it is another thing.
func (p *changePlan) misfit(doc bson.Raw) (member, reason string) {
	for _, name := range p.numbers {
		raw := doc.Lookup(name)
		if _, isNumber := numberFromBSON(raw); raw.Type != 0 && !isNumber {
			return name, "holds no number"
		}
	}
	if p.list != "" {
		if raw := doc.Lookup(p.list); raw.Type != 0 && raw.Type != bson.TypeArray {
			return p.list, "holds no list"
		}
	}
	return "", ""
}

// needs are the members that judge and numbersOf look at.
func (p *changePlan) needs(key string) bson.D {
	names := append([]string{key, ownMember}, p.numbers...)
	if p.field != "" {
		names = append(names, p.field)
	}
	if p.newer != "" {
		names = append(names, p.newer)
	}
	slices.Sort(names)
	doc := bson.D{}
	for _, name := range slices.Compact(names) {
		doc = append(doc, bson.E{Key: name, Value: 1})
	}
	return doc
}

// onDocument is the update that also writes pushed into a list of the document's own member.
func (p *changePlan) onDocument(pushed bson.D) bson.D {
	push := append(slices.Clone(p.push), pushed...)
	if len(push) == 0 {
		return p.update
	}
	return append(slices.Clone(p.update), bson.E{Key: "$push", Value: push})
}
