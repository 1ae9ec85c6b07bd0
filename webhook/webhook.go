package webhook

import (
	"net/http"
	"net/netip"
	"time"
)

// Request is what a [Verifier] looks at. Only what its [Needs] name has to be filled in.
type Request struct {
	// Method of the request.
	Method string
	// URL under which the sender reached us: scheme, host, path and query as it wrote them.
	URL string
	// Header by canonical name.
	Header http.Header
	// Raw is the body as it came on the wire.
	Raw []byte
	// Content is the body without its Content-Encoding; Raw itself if there is none.
	Content []byte
	// Peer is the sender's network address; the zero Addr if it is not known.
	Peer netip.Addr
	// ClientNames are the names in the client's certificate, which the TLS layer has verified; nil
	// if there was none.
	ClientNames []string
	// Now is when the request came.
	Now time.Time
}

// Verifier proves who the sender of a request is. Verify returns nil or an [*Error]. Safe for
// concurrent use. Two optional interfaces are probed: [Needer] and [Challenger].
type Verifier interface {
	Verify(r *Request) error
}

// Needs are the fields of a Request that cost something to fill in.
type Needs uint8

// What a verifier may need beside Method, Header and Now.
const (
	NeedsRaw Needs = 1 << iota
	NeedsContent
	NeedsURL
	NeedsPeer
	NeedsClientNames

	// NeedsBody are the needs that only a body that was read to its end can fill.
	NeedsBody = NeedsRaw | NeedsContent
	needsAll  = NeedsBody | NeedsURL | NeedsPeer | NeedsClientNames
)

// Needer is a Verifier that says what it needs; one that doesn't say needs everything.
type Needer interface {
	Needs() Needs
}

// Challenger is a Verifier that says how to prove oneself. Challenge is the value of a
// WWW-Authenticate header (RFC 9110, section 11.6.1); empty: there is none.
type Challenger interface {
	Challenge() string
}

// NeedsOf returns what a verifier needs.
func NeedsOf(v Verifier) Needs {
	if n, ok := v.(Needer); ok {
		return n.Needs()
	}
	return needsAll
}

// ChallengeOf returns the challenge of a verifier, empty if it has none.
func ChallengeOf(v Verifier) string {
	if c, ok := v.(Challenger); ok {
		return c.Challenge()
	}
	return ""
}

// Kind is what is wrong with a request, for programs.
type Kind uint8

// The kinds of an Error.
const (
	// Missing: what proves the sender is not there.
	Missing Kind = iota + 1
	// Doubled: it is there twice.
	Doubled
	// Malformed: it has not the form that it should have.
	Malformed
	// Expired: its time stamp is too far away from the time of the request, in either direction.
	Expired
	// Mismatch: it is well-formed, and not the right one.
	Mismatch
)

// Error says why a request was refused. It never says which byte was wrong, and holds no secret.
type Error struct {
	Kind Kind
	// Reason is for people, the sender among them.
	Reason string
}

// Error returns the reason.
func (e *Error) Error() string { return e.Reason }
