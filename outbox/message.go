package outbox

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/oncekit/once/queue"
)

// ErrNotConnected is wrapped by the failure of a Gate that has no connection, when the message is
// known not to have been sent. Such a try is not counted.
var ErrNotConnected error = plainError("not connected")

// plainError is an error whose text never holds anything that came from outside.
type plainError string

func (e plainError) Error() string { return string(e) }

// Public returns the text: see [queue.Public].
func (e plainError) Public() string { return string(e) }

// NewMessage makes a sender's message of an effect's row. The error says that what is stored
// beside the payload can't be read; the same row never succeeds.
func NewMessage(row queue.Row) (Message, error) {
	var meta Meta
	if len(row.Meta) > 0 {
		if err := json.Unmarshal(row.Meta, &meta); err != nil {
			return Message{}, fmt.Errorf("read addressing of effect: %w", err)
		}
	}
	return Message{
		ID:          row.ID(),
		Name:        row.Event,
		Destination: row.Source,
		Attempt:     row.Attempt,
		Fence:       meta.Fence,
		TraceParent: row.TraceParent,
		TraceState:  row.TraceState,
		Meta:        meta,
		Payload:     row.Body,
	}, nil
}

// contentType returns the message's media type: the one it was given, else what its payload looks
// like; empty for an empty payload.
func (m *Message) contentType() string {
	switch {
	case m.Meta.ContentType != "":
		return m.Meta.ContentType
	case len(m.Payload) == 0:
		return ""
	case json.Valid(m.Payload):
		return "application/json"
	case utf8.Valid(m.Payload):
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// failf makes a failure; the format may wrap a cause with %w. What a log may show of it is the
// format itself with what may be shown of the causes, and without texts: they come from outside.
func failf(c Class, format string, args ...any) *Failure {
	shown := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case error:
			shown[i] = plainError(cmp.Or(queue.Public(arg), notShown))
		case string:
			shown[i] = notShown
		default:
			shown[i] = arg
		}
	}
	return &Failure{Class: c, Err: fmt.Errorf(format, args...),
		Shown: fmt.Errorf(format, shown...).Error()}
}

// notShown stands in a log for what must not be in it. The row has the whole text.
const notShown = "(not shown)"

// printable returns at most limit characters of s on one line, with everything else than printable
// characters replaced by a space. It is for texts that came from outside.
func printable(s string, limit int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n == limit {
			b.WriteString("…")
			break
		}
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			r = ' '
		}
		b.WriteRune(r)
		n++
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
