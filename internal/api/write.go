package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"
)

// writeJSON writes a value, indented for the people who read it.
func writeJSON(w http.ResponseWriter, status int, contentType string, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return fmt.Errorf("encode answer: %w", err)
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a caller that hung up gets nothing
	return nil
}

// instant is a time as the API writes it: RFC 3339 in UTC with microseconds, which is what the
// stores keep.
type instant time.Time

const instantLayout = "2006-01-02T15:04:05.000000Z"

// MarshalJSON writes the time as a text.
func (t instant) MarshalJSON() ([]byte, error) {
	return []byte(time.Time(t).UTC().Format(`"` + instantLayout + `"`)), nil
}

// maybe returns nil, which is written as null, for the zero time.
func maybe(t time.Time) *instant {
	if t.IsZero() {
		return nil
	}
	i := instant(t)
	return &i
}

// Payload is a body as text where it is one, else in base64.
type Payload struct {
	Body       *string `json:"body" doc:"The body byte for byte; null: not kept, or no text."`
	BodyBase64 *string `json:"body_base64,omitempty" doc:"A body that is no text, in base64."`
}

func payload(b []byte) Payload {
	switch {
	case b == nil:
		return Payload{}
	case utf8.Valid(b):
		s := string(b)
		return Payload{Body: &s}
	}
	s := base64.StdEncoding.EncodeToString(b)
	return Payload{BodyBase64: &s}
}

// texts returns the list itself, empty instead of nil, so that it is never written as null.
func texts(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
