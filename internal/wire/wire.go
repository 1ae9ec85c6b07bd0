// Package wire has the shapes of the operator's API: what internal/api writes and reads, and
// internal/client reads and writes, so that both sides can't mean different things.
//
// The json tags give the names. The doc tags are the descriptions, and the enum tags the values, in
// the OpenAPI description that internal/api makes of these types. A member without omitempty is
// always there; a pointer may be null, unless a null tag says no.
package wire

import (
	"encoding/base64"
	"fmt"
	"time"
	"unicode/utf8"
)

// Instant is a time as the API writes it: RFC 3339 in UTC with microseconds, which is what the
// stores keep.
type Instant time.Time

const instantLayout = "2006-01-02T15:04:05.000000Z"

// MarshalJSON writes the time as a text.
func (t Instant) MarshalJSON() ([]byte, error) {
	return []byte(time.Time(t).UTC().Format(`"` + instantLayout + `"`)), nil
}

// UnmarshalJSON reads any time of RFC 3339.
func (t *Instant) UnmarshalJSON(b []byte) error {
	at, err := time.Parse(`"`+time.RFC3339Nano+`"`, string(b))
	if err != nil {
		return fmt.Errorf("read time: %w", err)
	}
	*t = Instant(at)
	return nil
}

// Time returns the time; the zero time for nil.
func (t *Instant) Time() time.Time {
	if t == nil {
		return time.Time{}
	}
	return time.Time(*t)
}

// Maybe returns nil, which is written as null, for the zero time.
func Maybe(t time.Time) *Instant {
	if t.IsZero() {
		return nil
	}
	i := Instant(t)
	return &i
}

// Payload is a body as text where it is one, else in base64.
type Payload struct {
	Body       *string `json:"body" doc:"The body byte for byte; null: not kept, or no text."`
	BodyBase64 *string `json:"body_base64,omitempty" doc:"A body that is no text, in base64."`
}

// PayloadOf returns a body as it is written; nil is one that is not kept.
func PayloadOf(b []byte) Payload {
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

// Bytes returns the body as it came; false: it is not kept.
func (p *Payload) Bytes() ([]byte, bool) {
	switch {
	case p == nil:
		return nil, false
	case p.Body != nil:
		return []byte(*p.Body), true
	case p.BodyBase64 != nil:
		b, err := base64.StdEncoding.DecodeString(*p.BodyBase64)
		return b, err == nil
	}
	return nil, false
}

// Problem is a refusal as it is told (RFC 9457).
type Problem struct {
	Type   string `json:"type" doc:"Stable name of the kind of problem."`
	Title  string `json:"title" doc:"The kind of problem in words."`
	Status int    `json:"status" doc:"The HTTP status."`
	Detail string `json:"detail" doc:"What is wrong with this request."`
}

// Error returns the detail.
func (p *Problem) Error() string { return p.Detail }

// Health is the answer of /healthz and /readyz.
type Health struct {
	Status string `json:"status" doc:"alive or ready."`
}

// Index is what the listener has, for a person who looks at it without having read anything.
type Index struct {
	Version string      `json:"version" doc:"Of the program."`
	Routes  []IndexLine `json:"routes" doc:"What this listener answers."`
}

// IndexLine is one route.
type IndexLine struct {
	Method  string `json:"method"`
	Path    string `json:"path"`
	Summary string `json:"summary"`
}
