package inbox

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// Message is one incoming request as the functions of a Source see it.
type Message struct {
	Source string
	Method string
	Path   string
	Peer   string
	Header http.Header
	Query  url.Values
	// Raw is the body, byte for byte.
	Raw []byte
	// Body is the decoded body in the terms of package internal/value.
	Body any
	// Error is the reason of an invalid, unauthorized or unavailable reply, for people.
	Error string
}

// Source is a place where callbacks come from.
type Source struct {
	Name string
	// Paths on which the source is reached beside /in/NAME.
	Paths []string
	// Key makes the parts that are unique together. Required.
	Key func(*Message) (once.Key, error)
	// Event names what happened. Nil: every message has the event "".
	Event func(*Message) (string, error)
	// Fingerprint digests what was asked. Required.
	Fingerprint func(*Message) (once.Fingerprint, error)
	// Route says who works the message. Required.
	Route func(*Message, string) (Route, error)
	// Verifier proves who the sender is; nil: everybody may send.
	Verifier Verifier
	// MaxBody in bytes. Default 1 MiB.
	MaxBody int64
	// MaxDepth of nesting of a JSON body. Default 64.
	MaxDepth int
	// Retention of identities. Default 7 days.
	Retention time.Duration
	// KeepBody is how long payloads are kept; 0: as long as the identity.
	KeepBody time.Duration
	// ReplaceDead lets a conflicting message take the place of a dead first one.
	ReplaceDead bool
	// DropHeaders are names of headers of which only a keyed digest is kept, beside
	// Authorization, Cookie and Proxy-Authorization.
	DropHeaders []string
	// Replies by outcome; a missing one is the built-in.
	Replies map[queue.Outcome]Reply
}

// Route says who works a message.
type Route struct {
	Lane     string
	OrderKey string
	Flow     string
	Task     string
	// Unrouted is true when nothing is declared for the event.
	Unrouted bool
}

// Reply is what a sender is told.
type Reply struct {
	Status int
	Header map[string]func(*Message) (string, error)
	// Body makes the bytes of the body and their content type; nil: no body.
	Body func(*Message) (body []byte, contentType string, err error)
}

// Verifier proves who the sender of a message is, over the raw bytes, before anything is stored. It
// returns an error for people if it does not; the error must not hold a secret. Safe for concurrent
// use.
type Verifier interface {
	Verify(ctx context.Context, m *Message) error
}
