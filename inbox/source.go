package inbox

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// Message is one incoming request as the functions of a Source see it. It is reused for later
// requests: a function must not keep it after it returned, nor change what it refers to.
type Message struct {
	Source string
	Method string
	// Path as the sender wrote it, percent-decoded.
	Path string
	// Peer is the network address of the sender, as host:port; without a port if a proxy has told
	// only the host.
	Peer   string
	Header http.Header
	// Query is nil if the request has none.
	Query url.Values
	// RawQuery is the query as it came, without the question mark.
	RawQuery string
	// Host as the request names it.
	Host string
	// TLS is the state of the connection; nil if it has none.
	TLS *tls.ConnectionState
	// Raw is the body, byte for byte. It is nil if it was not read.
	Raw []byte
	// Body is the decoded body in the terms of package internal/value: JSON, or the form as an
	// object of texts. It is nil before it was decoded and in the reply to a message that can't be.
	Body any
	// Item is the element that is looked at, where the source has Each; nil elsewhere.
	Item any
	// Error is the reason of an invalid, unauthorized or unavailable reply, for people.
	Error string

	identity  once.Identity
	url       *url.URL   // of the request; nil for a message that was stored
	publicURL string     // of the source, without a slash at its end
	forwarded *forwarded // nil: it came through no trusted proxy
	in        *intake    // nil: it is not being received
	// content is the body without its content coding, once it was asked for; fault is why there is
	// none.
	content []byte
	coding  string
	fault   *contentFault
}

// ID returns the public id of the callback that the message belongs to; empty before its key was
// made, and of a message with several elements.
func (m *Message) ID() string {
	if m.identity.IsZero() {
		return ""
	}
	return m.identity.ID()
}

// OneHeader returns the only value of a header, for keys that are built from one. A header that is
// absent or empty is a [once.ErrKeyIncomplete], one that is given twice a [once.ErrKeyInvalid]: of
// two values nobody can know which one was meant.
func (m *Message) OneHeader(name string) (string, error) {
	values := m.Header[http.CanonicalHeaderKey(name)]
	switch {
	case len(values) == 0:
		return "", fmt.Errorf("header %s is missing: %w", name, once.ErrKeyIncomplete)
	case len(values) > 1:
		return "", fmt.Errorf("header %s is given %d times: %w", name, len(values),
			once.ErrKeyInvalid)
	case values[0] == "":
		return "", fmt.Errorf("header %s is empty: %w", name, once.ErrKeyIncomplete)
	}
	return values[0], nil
}

// Source is a place where callbacks come from. Its functions are called by many goroutines at
// once. An error of Each, Key, Event, Fingerprint or Route makes the message or the element
// invalid; its text should say what could not be made, is told to the sender and must hold no
// secret. A panic makes the message unavailable.
type Source struct {
	// Name is 1 to 64 letters, digits, dots, dashes and underscores.
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
	// PublicURL is the base of the URLs under which senders reach the source, such as
	// https://example.org/hooks, for what is signed with the URL. Default: what the request says.
	PublicURL string
	// Form says that bodies are application/x-www-form-urlencoded: Body is an object of texts, and
	// a doubled name has the list of its texts. Default: bodies are JSON.
	Form bool
	// Each returns the elements of a message that are callbacks of their own, in the terms of
	// package internal/value. While Key, Event, Fingerprint and Route are called, Message.Item is
	// the element; a Fingerprint has to be of the element alone. All elements become durable
	// together, and have one reply: accepted if any of them is new, else conflict if any is, else
	// duplicate. An empty list makes the message invalid. Nil: a message is one callback.
	Each func(*Message) ([]any, error)
	// MaxElements of a message; more make it invalid. Default 1000.
	MaxElements int
	// RefuseBad lets one bad element make the whole message invalid. Default: the good ones are
	// stored, the bad ones go to the ring of refused messages, and the message is invalid only if
	// none is good.
	RefuseBad bool
	// Probes are looked at in order, those of a text before all others, when the sender was
	// verified: the first that matches answers the message, of which nothing is stored.
	Probes []Probe
	// NewAfter makes a repeat a new callback with an identity of its own that comes longer than
	// this after the last arrival under its key, by the store's clock. At most Retention. 0: never.
	NewAfter time.Duration
	// MaxBody in bytes. Default 1 MiB.
	MaxBody int64
	// MaxDepth of nesting of a JSON body. Default 64.
	MaxDepth int
	// Retention of identities. Default 7 days.
	Retention time.Duration
	// KeepBody is how long payloads are kept; 0: as long as the identity.
	KeepBody time.Duration
	// ReplaceDead lets a conflicting message take the place of a first one that is dead and had no
	// effect.
	ReplaceDead bool
	// DropHeaders are names of headers of which only a keyed digest is kept, beside
	// Authorization, Cookie and Proxy-Authorization.
	DropHeaders []string
	// Replies by outcome. A missing duplicate is replied like accepted, a missing conflict like a
	// duplicate; any other missing one is the built-in.
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

// Reply is what a sender is told. A function that fails or panics doesn't change the outcome: its
// header is left out, its body is the built-in one.
type Reply struct {
	// Status is 200 to 599; 0: the built-in one of the outcome. Unauthorized and unavailable are
	// never below 400. A message that is too large is always answered 413, one with a wrong
	// method 405.
	Status int
	Header map[string]func(*Message) (string, error)
	// Body makes the bytes of the body and their content type; nil: no body.
	// An empty content type is application/json. The bytes may be shared; they are not changed.
	Body func(*Message) (body []byte, contentType string, err error)
}

// Verifier proves who the sender of a message is, over the raw bytes, before anything is stored. It
// returns an error for people if it does not; the error must not hold a secret. Safe for concurrent
// use. Two optional interfaces are probed once: [HeaderVerifier] and [Challenger].
type Verifier interface {
	Verify(ctx context.Context, m *Message) error
}

// HeaderVerifier is a Verifier that doesn't look at the body. If HeaderOnly returns true, Verify is
// called before the body is read, so that strangers can't fill the memory for bodies.
type HeaderVerifier interface {
	HeaderOnly() bool
}

// Challenger is a Verifier that says how to prove oneself. Challenge is the WWW-Authenticate header
// of a 401 (RFC 9110, section 11.6.1).
type Challenger interface {
	Challenge() string
}
