package write

import (
	"errors"
	"fmt"
)

// Targets are the targets of a writer, by name. The zero value has none. Never changed after it
// was made; safe for concurrent use.
type Targets struct {
	names  []string
	byName map[string]Target
}

// NewTargets puts a list of targets together. key is what a Target without Key has. The error is
// for a list that is empty or has a name twice, and for an empty name.
func NewTargets(list []Target, key string) (Targets, error) {
	if len(list) == 0 {
		return Targets{}, errors.New("no target")
	}
	t := Targets{byName: make(map[string]Target, len(list))}
	for _, target := range list {
		if target.Key == "" {
			target.Key = key
		}
		if err := checkText("target", target.Name, MaxID); err != nil {
			return Targets{}, err
		}
		if err := checkText("key of target "+target.Name, target.Key, MaxName); err != nil {
			return Targets{}, err
		}
		if _, found := t.byName[target.Name]; found {
			return Targets{}, fmt.Errorf("target %s is there twice", target.Name)
		}
		t.names = append(t.names, target.Name)
		t.byName[target.Name] = target
	}
	return t, nil
}

// All lists the targets in the order in which they were given.
func (t Targets) All() []Target {
	list := make([]Target, len(t.names))
	for i, name := range t.names {
		list[i] = t.byName[name]
	}
	return list
}

// Check is [Check], and finds the target. It refuses an event for what is no target, and a change
// that names the target's key.
func (t Targets) Check(e Event) (Target, error) {
	if err := Check(e); err != nil {
		return Target{}, err
	}
	target, found := t.byName[e.In]
	if !found {
		return Target{}, refuse("In", "is not a target of this writer")
	}
	for part, names := range fieldsOf(e.Change) {
		if _, found := names[target.Key]; found {
			return Target{}, refuse(part+"."+target.Key, "is the key of the document")
		}
	}
	return target, nil
}

// fieldsOf are the fields that a change names, by the part that names them.
func fieldsOf(change Change) map[string]Fields {
	switch ch := change.(type) {
	case Insert:
		return map[string]Fields{"Set": ch.Set}
	case Upsert:
		return map[string]Fields{
			"Set": ch.Set, "SetOnInsert": ch.SetOnInsert, "Increment": ch.Increment,
		}
	case Increment:
		return map[string]Fields{"By": ch.By, "SetOnInsert": ch.SetOnInsert}
	case Append:
		return map[string]Fields{"To": {ch.To: nil}, "SetOnInsert": ch.SetOnInsert}
	case Transition:
		return map[string]Fields{"Field": {ch.Field: nil}, "Set": ch.Set}
	}
	return nil
}
