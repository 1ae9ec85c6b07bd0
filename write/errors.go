package write

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/oncekit/once"
)

// The errors a caller can act on; test with errors.Is. After each of them nothing was changed and
// the event is not remembered. Two more come from the root: once.ErrTooLarge (the same event never
// succeeds) and once.ErrUnavailable (the database gave no answer: nobody knows whether the event
// was written. Write it again, which is what the event's id is for).
var (
	// ErrEvent: the event can't be written as it is. The same event never succeeds. An
	// *[EventError] says what is wrong.
	ErrEvent = errors.New("event is not valid")

	// ErrExists: an Insert found a document of another event. It is a once.ErrConflict too.
	ErrExists = fmt.Errorf("%w: the document exists", once.ErrConflict)

	// ErrShape: the document, or the table, is not such as the change expects: a column is missing,
	// a member that is to be added to is a text. A *[ShapeError] says which. The event may succeed
	// once a person has put the document or the table right.
	ErrShape = errors.New("document is not of the shape that the change expects")

	// ErrIndex: a target has no unique index over its key. An *[IndexError] has the command that
	// creates it.
	ErrIndex = errors.New("unique index is missing")

	// ErrBusy: others were changing the same document for too long, or a caller's transaction met
	// another one and has to be begun again. It is a once.ErrUnavailable too: write the event again
	// later.
	ErrBusy = fmt.Errorf("%w: others are changing the same document", once.ErrUnavailable)
)

// EventError says what is wrong with an event. It unwraps to [ErrEvent], and to once.ErrTooLarge
// where a size is meant. It never holds a value of the event.
type EventError struct {
	// Field is where: "ID", "Key", "Change", "Set.amount".
	Field string
	// Reason is for people: "is empty", "has more than 512 bytes".
	Reason string
	// TooLarge says that a limit on size was passed.
	TooLarge bool
}

// Error names the field and the reason.
func (e *EventError) Error() string { return "event: " + e.Field + " " + e.Reason }

// Unwrap returns the sentinels.
func (e *EventError) Unwrap() []error {
	if e.TooLarge {
		return []error{ErrEvent, once.ErrTooLarge}
	}
	return []error{ErrEvent}
}

// StateError says that a document is not in a state from which a transition may start. It unwraps
// to once.ErrState, and to once.ErrNotFound if there is no document.
type StateError struct {
	// Missing: there is no document.
	Missing bool
	// State is the one that it is in; empty if the member is missing, null or no text.
	State string
	// From and To are those of the transition.
	From []string
	To   string
}

// Error tells the state, and those from which it is possible.
func (e *StateError) Error() string {
	is := "the document is in state " + strconv.Quote(e.State)
	if e.Missing {
		is = "there is no document"
	}
	return fmt.Sprintf("transition to %q: %s, not in %q", e.To, is, e.From)
}

// Unwrap returns the sentinels.
func (e *StateError) Unwrap() []error {
	if e.Missing {
		return []error{once.ErrState, once.ErrNotFound}
	}
	return []error{once.ErrState}
}

// ShapeError says what of a document or table is not as a change expects. It unwraps to [ErrShape]
// and to what the database said. It never holds a value.
type ShapeError struct {
	// In is the collection or table, Field the member or column; empty if it is about the whole.
	In, Field string
	// Reason is for people: "no such column", "holds a text, not a number".
	Reason string
	// Err is what the database said, or nil.
	Err error
}

// Error names the place and the reason.
func (e *ShapeError) Error() string {
	place := e.In
	if e.Field != "" {
		place += ", " + e.Field
	}
	return fmt.Sprintf("%v: %s: %s", ErrShape, place, e.Reason)
}

// Unwrap returns the sentinel and the cause.
func (e *ShapeError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrShape}
	}
	return []error{ErrShape, e.Err}
}

// MaxDuplicates is how many duplicates an [IndexError] lists.
const MaxDuplicates = 10

// IndexError says that a target has no unique index over its key alone. It unwraps to [ErrIndex].
type IndexError struct {
	// In is the collection or table, Key the member or column.
	In, Key string
	// Command creates the index: SQL, or a line for mongosh.
	Command string
	// Duplicates are up to MaxDuplicates keys that are there more than once: the index can't be
	// created before they are put right.
	Duplicates []DuplicateKey
}

// DuplicateKey is a key that several documents have.
type DuplicateKey struct {
	// Key as text.
	Key string
	// Count of the documents.
	Count int64
}

// Error lists the duplicates, and gives the command.
func (e *IndexError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s has no unique index over %s alone", e.In, e.Key)
	if len(e.Duplicates) > 0 {
		b.WriteString("; these keys are there more than once and have to be put right first: ")
		for i, d := range e.Duplicates {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%s (%d times)", strconv.Quote(d.Key), d.Count)
		}
	}
	b.WriteString("; create it with: " + e.Command)
	return b.String()
}

// Unwrap returns the sentinel.
func (e *IndexError) Unwrap() error { return ErrIndex }
