package write

import (
	"context"
	"time"
)

// Bounds of an event.
const (
	// MaxID is how long an event's id may be, in bytes: an index entry has to hold it everywhere.
	MaxID = 512
	// MaxBatch is how many events one WriteAll takes.
	MaxBatch = 1000
)

// Event is one change of one document, named by what caused it.
type Event struct {
	// ID names the event: 1 to MaxID bytes of UTF-8 without NUL, compared byte for byte. Give the
	// id that the event's producer gave it, or once.ContentID.
	ID string
	// In is the collection or table: the name of a Target of the writer.
	In string
	// Key finds the document: a string of 1 to MaxID bytes or an integer (int, int64).
	Key any
	// Change is what the event does.
	Change Change
}

// Fields are members of a document, or columns of a row, by name. Values are nil, bool, string,
// int, int64, float64, json.Number (exact), []byte, time.Time, and []any and map[string]any of
// them. Times are kept as exactly as the database does: milliseconds in MongoDB, microseconds in
// SQL.
type Fields map[string]any

// Change is what an event does to its document: Insert, Upsert, Increment, Append or Transition,
// each as a value, not a pointer.
// (A function inside the transaction is a method of the writers whose databases have transactions.)
type Change interface {
	change()
}

// Insert makes a new document. One that is there already, made by another event, is an
// ErrExists, and nothing is written.
type Insert struct {
	Set Fields
}

// Upsert changes a document, or makes it.
type Upsert struct {
	// Set is written in both cases. At least one of Set, SetOnInsert and Increment names a field.
	Set Fields
	// SetOnInsert is written only when the document is made.
	SetOnInsert Fields
	// Increment adds numbers; a member that is missing counts as 0.
	Increment Fields
	// Newer names a member of Set, a number, a time or a text (compared byte by byte): the event is
	// applied only if it is greater than what is there, or nothing (or null) is there. Else it is
	// Stale. Empty: always applied.
	Newer string
}

// Increment adds numbers to a document, or makes it.
type Increment struct {
	// By names at least one member; one that is missing counts as 0.
	By          Fields
	SetOnInsert Fields
}

// Append puts values at the end of a list of a document, or makes it. A list that is missing is
// empty.
type Append struct {
	To          string
	Values      []any
	SetOnInsert Fields
}

// Transition moves a document from one state to the next. A document in another state, or none, is
// a *StateError, and nothing is written: the event may come again when its time has come.
type Transition struct {
	// Field holds the state, a text.
	Field string
	// From are the states in which it may start.
	From []string
	To   string
	Set  Fields
	// Newer as in Upsert; it is looked at before the state: an older event is Stale in any state.
	Newer string
}

// Outcome says what came of an event.
type Outcome string

// The outcomes.
const (
	// Applied: the change was made, now.
	Applied Outcome = "applied"
	// Duplicate: the event was written before; nothing was changed.
	Duplicate Outcome = "duplicate"
	// Conflict: another change was written under this event id; nothing was changed.
	Conflict Outcome = "conflict"
	// Stale: the document is newer; nothing was changed, and the event is remembered.
	Stale Outcome = "stale"
)

// Result is what came of one event.
type Result struct {
	Outcome Outcome
	// Numbers are what the incremented members are now (Applied), or became at the first time
	// (Duplicate); nil for other outcomes and changes. Each is an int64, or a json.Number where no
	// int64 holds it exactly: see Number.
	Numbers Fields
	// First is what the event did at the first time; set for Duplicate and Conflict.
	First *First
	// Err is why this event of a batch was not written (Outcome is empty then); the others were.
	// It is what Write would have returned.
	Err error
}

// First is what an event did at the first time.
type First struct {
	// Outcome is Applied or Stale.
	Outcome Outcome
	// At is when, by the database's clock.
	At time.Time
	// In and Key (a string or an int64) are the document that it changed.
	In  string
	Key any
}

// Writer writes events. Safe for concurrent use.
type Writer interface {
	// Write makes one change happen once. It returns after the change is durable (inside a caller's
	// transaction: after it is part of it).
	Write(ctx context.Context, e Event) (Result, error)
	// WriteAll writes up to MaxBatch events in as few round trips as the database allows, a result
	// for each, as if they were written one after the other: also when some are duplicates of each
	// other, or not valid. An error means that no result is known: write them all again.
	WriteAll(ctx context.Context, events []Event) ([]Result, error)
}

// Target is a collection or table whose documents events change.
type Target struct {
	// Name of the collection or table; for PostgreSQL it may have a schema before a dot.
	Name string
	// Key is the member or column by which documents are found. There has to be a unique index over
	// it alone: it is looked for when the writer is opened. Default "_id" in MongoDB, "id" in SQL.
	Key string
}

func (Insert) change()     {}
func (Upsert) change()     {}
func (Increment) change()  {}
func (Append) change()     {}
func (Transition) change() {}
