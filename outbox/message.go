package outbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/oncekit/once/queue"
)

// ErrNotConnected is wrapped by the failure of a Gate that has no connection, when the message is
// known not to have been sent. Such a try is not counted.
var ErrNotConnected = errors.New("not connected")

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

// failf makes a failure; the format may wrap a cause with %w.
func failf(c Class, format string, args ...any) *Failure {
	return &Failure{Class: c, Err: fmt.Errorf(format, args...)}
}

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
