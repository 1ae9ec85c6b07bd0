package oncehttp

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"

	"github.com/oncekit/once"
)

// field is one header of an answer with its values in order. No values, as opposed to no field:
// the handler has said that the server shall not add one.
type field struct {
	name   string
	values []string
}

// answer is what is kept of an answer. The encoding is fixed: a version, the status, the headers,
// the trailers, the body; texts and lists with their length before them.
type answer struct {
	status            int
	headers, trailers []field
	body              []byte
}

const answerVersion = 1

// Bounds of what is read back: no handler sends more, and a damaged record must not cost memory.
const (
	maxFields     = 10_000
	maxFieldBytes = 16 << 20
)

func (a *answer) appendTo(dst []byte) []byte {
	dst = append(dst, answerVersion)
	dst = binary.AppendUvarint(dst, uint64(a.status))
	dst = appendFields(dst, a.headers)
	dst = appendFields(dst, a.trailers)
	return append(dst, a.body...)
}

func appendFields(dst []byte, fields []field) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(fields)))
	for _, f := range fields {
		dst = appendText(dst, f.name)
		dst = binary.AppendUvarint(dst, uint64(len(f.values)))
		for _, v := range f.values {
			dst = appendText(dst, v)
		}
	}
	return dst
}

// parseAnswer reads what appendTo wrote. The body is a part of data.
func parseAnswer(data []byte) (*answer, error) {
	p := parser{rest: data}
	a := &answer{}
	if len(data) == 0 || data[0] != answerVersion {
		return nil, fmt.Errorf("read answer: unknown version: %w", once.ErrCorrupt)
	}
	p.rest = p.rest[1:]
	a.status = int(p.number(999))
	a.headers = p.fields()
	a.trailers = p.fields()
	if p.bad || a.status < 100 {
		return nil, fmt.Errorf("read answer: it is damaged: %w", once.ErrCorrupt)
	}
	a.body = p.rest
	return a, nil
}

type parser struct {
	rest []byte
	bad  bool
}

func (p *parser) number(limit uint64) uint64 {
	n, size := binary.Uvarint(p.rest)
	if size <= 0 || n > limit {
		p.bad, p.rest = true, nil
		return 0
	}
	p.rest = p.rest[size:]
	return n
}

func (p *parser) text() string {
	n := p.number(maxFieldBytes)
	if n > uint64(len(p.rest)) {
		p.bad = true
		return ""
	}
	s := string(p.rest[:n])
	p.rest = p.rest[n:]
	return s
}

func (p *parser) fields() []field {
	n := p.number(maxFields)
	fields := make([]field, 0, min(n, 64))
	for range n {
		f := field{name: p.text(), values: []string{}}
		for range p.number(maxFields) {
			f.values = append(f.values, p.text())
			if p.bad {
				return nil
			}
		}
		if p.bad {
			return nil
		}
		fields = append(fields, f)
	}
	return fields
}

// DroppedHeaders returns the names of the headers of answers that are never kept unless
// Config.KeepHeaders names them: those that belong to one connection (RFC 9110, section 7.6.1), to
// one exchange, or to one caller's credentials.
func DroppedHeaders() []string {
	return []string{
		// of the connection
		"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding",
		"Upgrade", "Alt-Svc",
		// of the caller's credentials
		"Set-Cookie", "Www-Authenticate", "Authentication-Info", "Proxy-Authenticate",
		"Proxy-Authentication-Info", "Clear-Site-Data",
		// of the exchange
		"Date", "Age", "X-Request-Id", "X-Correlation-Id", "Request-Id", "Traceparent", "Tracestate",
		"Server-Timing", "X-Runtime", "X-Response-Time",
		"Ratelimit", "Ratelimit-Policy", "Ratelimit-Limit", "Ratelimit-Remaining",
		"Ratelimit-Reset", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset",
		"X-Rate-Limit-Limit", "X-Rate-Limit-Remaining", "X-Rate-Limit-Reset",
		// ours
		HeaderReplayed, HeaderStored,
	}
}

// dropSet is the set of the headers that are not kept.
func (c *Config) dropSet() map[string]bool {
	drop := map[string]bool{}
	for _, name := range DroppedHeaders() {
		drop[name] = true
	}
	for _, name := range c.DropHeaders {
		drop[http.CanonicalHeaderKey(name)] = true
	}
	for _, name := range c.KeepHeaders {
		delete(drop, http.CanonicalHeaderKey(name))
	}
	return drop
}

// write sends the answer as a replay to a request.
func (a *answer) write(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	a.setHeaders(h, r)
	for _, f := range a.trailers {
		if !strings.HasPrefix(f.name, http.TrailerPrefix) {
			h.Add("Trailer", f.name)
		}
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // a client that left misses it
	for _, f := range a.trailers {
		h[f.name] = f.values
	}
}

// setHeaders puts the kept headers in the place of those that are there, and marks the answer. What
// allowed one origin (CORS) is not told to another.
func (a *answer) setHeaders(h http.Header, r *http.Request) {
	for _, f := range a.headers {
		if len(f.values) == 0 {
			h[f.name] = nil
			continue
		}
		h[f.name] = f.values
	}
	if allowed, origin := h.Get(headerAllowOrigin), r.Header.Get("Origin"); allowed != "" &&
		allowed != "*" && allowed != origin {
		delete(h, headerAllowOrigin)
		delete(h, "Access-Control-Allow-Credentials")
	}
	h[HeaderReplayed] = isTrue
}

const headerAllowOrigin = "Access-Control-Allow-Origin"

var isTrue = []string{"true"}
var isFalse = []string{"false"}

// writeTombstone tells that the work is done and its answer was not kept: with the status of the
// first answer, where that is known and can have a body.
func (a *answer) writeTombstone(w http.ResponseWriter, r *http.Request, docs string) {
	status := a.status
	if status < 200 || status == http.StatusNoContent || status == http.StatusNotModified {
		status = http.StatusConflict
	}
	p := problem(ProblemNotKept, status, "Done, but the answer was not kept")
	p.Detail = "The first request with this key was worked and answered. Its answer was too large " +
		"or a stream, and was not kept; the work is not run again."
	a.setHeaders(w.Header(), r)
	for _, name := range []string{"Content-Length", "Content-Encoding", "Content-Range", "Etag",
		"Content-Disposition", "Accept-Ranges", "Last-Modified"} {
		w.Header().Del(name)
	}
	p.write(w, docs)
}
