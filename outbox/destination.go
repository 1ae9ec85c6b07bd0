package outbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/oncekit/once/queue"
)

// Message is an effect as a sender sees it.
type Message struct {
	// ID is stable over all tries: the Idempotency-Key.
	ID          string
	Name        string
	Destination string
	Attempt     int
	// Fence of the resource that the effect is about; 0: none.
	Fence int64
	// TraceParent and TraceState are the trace context of this try, or of what the effect comes
	// from where tries are not traced (W3C Trace Context); empty: none.
	TraceParent, TraceState string
	Meta                    Meta
	Payload                 []byte
}

// Meta is the addressing of an effect, stored with it as JSON.
type Meta struct {
	Topic       string            `json:"topic,omitempty"`  // MQTT
	Retain      bool              `json:"retain,omitempty"` // MQTT
	Path        string            `json:"path,omitempty"`   // HTTP, appended to the URL
	Method      string            `json:"method,omitempty"` // HTTP; default POST
	Header      map[string]string `json:"header,omitempty"` // HTTP header, MQTT 5 user properties
	ContentType string            `json:"content_type,omitempty"`
	Fence       int64             `json:"fence,omitempty"`
}

// Sender delivers messages to one destination. Send returns nil only when the destination has
// acknowledged. Other results are *Failure; any other error counts as Transient. Safe for
// concurrent use.
type Sender interface {
	Send(ctx context.Context, m Message) error
}

// Runner is a Sender that keeps a connection. Run blocks until ctx ends.
type Runner interface {
	Run(ctx context.Context) error
}

// Gate is a Sender that knows when it can't send. While Open returns false no row is taken, so a
// row that was never tried is never counted as a failure. Changed is signalled after each change.
// A gate that closes between Open and Send returns a failure that wraps ErrNotConnected.
type Gate interface {
	// Open reports whether messages can be sent now.
	Open() bool
	// Changed returns the one channel that is signalled; it is never closed.
	Changed() <-chan struct{}
}

// Explainer is a Gate that can say why it is closed. Err returns nil while it is open.
type Explainer interface {
	Err() error
}

// Class says what a failed Send means for the row.
type Class uint8

// The classes of failure.
const (
	// Transient: may pass; tried again after a backoff. It is known to have had no effect, or the
	// destination told us to come again.
	Transient Class = iota + 1
	// Unknown: nobody can know whether it had its effect (cut off, timed out after sending).
	Unknown
	// Permanent: will never pass; a dead letter now.
	Permanent
	// Pause: the destination refuses us (401, 403); it is paused with an alarm and the row stays.
	Pause
)

// Failure is the result of a Send that was not acknowledged.
type Failure struct {
	Class Class
	// RetryAfter as the destination asked for it; 0: none.
	RetryAfter time.Duration
	Err        error
	// Shown is as much of Err as a log may show: no part of the message or of the answer. Empty:
	// nothing of it.
	Shown string
}

// Error returns the text for people.
func (f *Failure) Error() string { return f.Err.Error() }

// Public returns Shown: see [queue.Public].
func (f *Failure) Public() string { return f.Shown }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Destination is where effects go to. Its fields are set before its first use and not changed
// after; its methods are safe for concurrent use. It must not be copied.
type Destination struct {
	Name   string
	Sender Sender
	// Retry is the backoff between tries and their number.
	Retry Retry
	// HoldUnknown makes an Unknown failure, or a lost worker, hold the row (on_unknown: hold).
	HoldUnknown bool
	// Timeout of one try. Default 10s.
	Timeout time.Duration
	// Concurrency of tries. Default 16.
	Concurrency int
	// Block keeps later rows of an order key waiting behind a dead or held one (on_dead:
	// block).
	Block bool
	// Probe is how long after a refusal (class Pause) one row is tried to see whether it still
	// stands. Default 1m.
	Probe time.Duration
	// Log for pauses and for senders that panic. Default: discarded.
	Log *slog.Logger

	gate queue.Gate
}

// Retry is a policy of repeated tries.
type Retry struct {
	Base     time.Duration // first backoff; default 500ms
	Cap      time.Duration // longest backoff; default 5m
	Attempts int           // tries until it is a dead letter; 0: no limit
}
