package write

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oncekit/once"
)

// Bounds of a change.
const (
	// MaxChange is how large a change may be, in bytes: what a MongoDB document may hold, counted
	// as the bytes of its texts and names and 8 for anything else.
	MaxChange = 16 << 20
	// MaxFields is how many fields a change may name.
	MaxFields = 256
	// MaxName is how long the name of a field may be, in bytes.
	MaxName = 255
	// MaxDepth is how deep objects and lists of a value may be nested.
	MaxDepth = 64
	// maxNumber bounds the literal of a number, in bytes.
	maxNumber = 400
)

// Check finds what is wrong with an event without asking a database: an *[EventError], or nil. A
// name of a field may not be empty, contain a "." or a NUL, or begin with "$", at any depth, and no
// field may be named twice. Writers call it.
func Check(e Event) error {
	if err := checkText("ID", e.ID, MaxID); err != nil {
		return err
	}
	if e.In == "" {
		return refuse("In", "is empty")
	}
	if err := checkKey(e.Key); err != nil {
		return err
	}
	c := checker{room: MaxChange, names: map[string]string{}}
	return c.change(e.Change)
}

// CheckBatch checks that there are not too many events. What is wrong with one of them is that
// one's result.
func CheckBatch(events []Event) error {
	if len(events) > MaxBatch {
		return &EventError{
			Field:    "batch",
			Reason:   fmt.Sprintf("has more than %d events", MaxBatch),
			TooLarge: true,
		}
	}
	return nil
}

func refuse(field, reason string) error { return &EventError{Field: field, Reason: reason} }

// checkText is for ids and keys.
func checkText(field, s string, most int) error {
	switch {
	case s == "":
		return refuse(field, "is empty")
	case len(s) > most:
		return &EventError{
			Field:    field,
			Reason:   fmt.Sprintf("has more than %d bytes", most),
			TooLarge: true,
		}
	}
	return checkChars(field, s)
}

func checkChars(field, s string) error {
	switch {
	case !utf8.ValidString(s):
		return refuse(field, "is not valid UTF-8")
	case strings.IndexByte(s, 0) >= 0:
		return refuse(field, "contains NUL")
	}
	return nil
}

func checkKey(key any) error {
	switch k := key.(type) {
	case int, int64:
		return nil
	case string:
		return checkText("Key", k, MaxID)
	case nil:
		return refuse("Key", "is missing")
	}
	return refuse("Key", fmt.Sprintf("is a Go %T, not a string, int or int64", key))
}

// checker checks one change.
type checker struct {
	room  int               // bytes that are left
	names map[string]string // the top fields so far, and which part of the change named them
}

func (c *checker) change(change Change) error {
	switch ch := change.(type) {
	case Insert:
		return c.fields("Set", ch.Set)
	case Upsert:
		return c.upsert(ch)
	case Increment:
		if len(ch.By) == 0 {
			return refuse("Change", "names no field")
		}
		if err := c.numbers("By", ch.By); err != nil {
			return err
		}
		return c.fields("SetOnInsert", ch.SetOnInsert)
	case Append:
		return c.append(ch)
	case Transition:
		return c.transition(ch)
	case nil:
		return refuse("Change", "is missing")
	}
	return refuse("Change", fmt.Sprintf("is a Go %T, which is no change", change))
}

func (c *checker) upsert(ch Upsert) error {
	if len(ch.Set)+len(ch.SetOnInsert)+len(ch.Increment) == 0 {
		return refuse("Change", "names no field")
	}
	if err := c.fields("Set", ch.Set); err != nil {
		return err
	}
	if err := c.fields("SetOnInsert", ch.SetOnInsert); err != nil {
		return err
	}
	if err := c.numbers("Increment", ch.Increment); err != nil {
		return err
	}
	return checkNewer(ch.Newer, ch.Set)
}

func (c *checker) append(ch Append) error {
	if err := c.name("To", ch.To, true); err != nil {
		return err
	}
	if len(ch.Values) == 0 {
		return refuse("Values", "is empty")
	}
	if err := c.value("Values", ch.Values, 0); err != nil {
		return err
	}
	return c.fields("SetOnInsert", ch.SetOnInsert)
}

func (c *checker) transition(ch Transition) error {
	if err := c.name("Field", ch.Field, true); err != nil {
		return err
	}
	switch {
	case len(ch.From) == 0:
		return refuse("From", "is empty")
	case len(ch.From) > MaxFields:
		return refuse("From", fmt.Sprintf("has more than %d states", MaxFields))
	}
	for _, state := range ch.From {
		if err := checkText("From", state, MaxID); err != nil {
			return err
		}
	}
	if err := checkText("To", ch.To, MaxID); err != nil {
		return err
	}
	if err := c.fields("Set", ch.Set); err != nil {
		return err
	}
	return checkNewer(ch.Newer, ch.Set)
}

// checkNewer checks the field that orders events.
func checkNewer(name string, set Fields) error {
	if name == "" {
		return nil
	}
	v, found := set[name]
	if !found {
		return refuse("Newer", "names no field of Set")
	}
	switch v.(type) {
	case int, int64, float64, json.Number, string, time.Time:
		return nil
	}
	return refuse("Newer", "is neither a number nor a time nor a text")
}

// fields checks a part of a change, in the order of its names, so that of several faults always
// the same one is told.
func (c *checker) fields(part string, f Fields) error {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if err := c.name(part, name, true); err != nil {
			return err
		}
		if err := c.value(part+"."+name, f[name], 0); err != nil {
			return err
		}
	}
	return nil
}

// numbers checks a part that adds.
func (c *checker) numbers(part string, f Fields) error {
	if err := c.fields(part, f); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		switch f[name].(type) {
		case int, int64, float64, json.Number:
		default:
			return refuse(part+"."+name, "is not a number")
		}
	}
	return nil
}

// name checks the name of a member; those at the top of a document may be there once.
func (c *checker) name(part, name string, top bool) error {
	shown := part + "." + name
	switch {
	case name == "":
		return refuse(part, "has an empty name")
	case len(name) > MaxName:
		return refuse(part, fmt.Sprintf("has a name of more than %d bytes", MaxName))
	case !utf8.ValidString(name) || strings.IndexByte(name, 0) >= 0:
		return refuse(part, "has a name that is not valid UTF-8 or contains NUL")
	case strings.Contains(name, "."):
		return refuse(shown, `has a "." in its name`)
	case name[0] == '$':
		return refuse(shown, `has a name that begins with "$"`)
	}
	if !top {
		return c.take(len(name))
	}
	if other, found := c.names[name]; found {
		return refuse(shown, "is in "+other+" too")
	}
	if len(c.names) == MaxFields {
		return refuse("Change", fmt.Sprintf("names more than %d fields", MaxFields))
	}
	c.names[name] = part
	return c.take(len(name))
}

func (c *checker) take(n int) error {
	if c.room -= n; c.room < 0 {
		return &EventError{
			Field:    "Change",
			Reason:   fmt.Sprintf("has more than %d bytes", MaxChange),
			TooLarge: true,
		}
	}
	return nil
}

// plain is what a value without a length of its own counts.
const plain = 8

func (c *checker) value(at string, v any, depth int) error {
	switch v := v.(type) {
	case nil, bool, int, int64:
		return c.take(plain)
	case string:
		if err := checkChars(at, v); err != nil {
			return err
		}
		return c.take(len(v))
	case []byte:
		return c.take(len(v))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return refuse(at, "is not a finite number")
		}
		return c.take(plain)
	case json.Number:
		if _, ok := once.CanonicalNumber(string(v)); !ok || len(v) > maxNumber {
			return refuse(at, "is not a number")
		}
		return c.take(len(v))
	case time.Time:
		if year := v.UTC().Year(); year < 1 || year > 9999 {
			return refuse(at, "is a time outside the years 1 to 9999")
		}
		return c.take(plain)
	case []any, map[string]any:
		return c.nested(at, v, depth+1)
	}
	return refuse(at, fmt.Sprintf("is a Go %T, which is no value", v))
}

func (c *checker) nested(at string, v any, depth int) error {
	if depth > MaxDepth {
		return refuse(at, fmt.Sprintf("is nested deeper than %d", MaxDepth))
	}
	if list, isList := v.([]any); isList {
		for _, element := range list {
			if err := c.value(at, element, depth); err != nil {
				return err
			}
		}
		return c.take(plain)
	}
	object, _ := v.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if err := c.name(at, name, false); err != nil {
			return err
		}
		if err := c.value(at+"."+name, object[name], depth); err != nil {
			return err
		}
	}
	return c.take(plain)
}
