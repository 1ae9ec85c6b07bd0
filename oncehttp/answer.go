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

// answer is what is kept of an answer. The encoding is fixed: a version; the length of the head;
// the head: status, number of all values, headers, trailers; the body. Numbers are varints, texts
// and lists have their length before them.
type answer struct {
	status            int
	headers, trailers []field
	body              []byte
}

const answerVersion = 1

// Bounds of what is read back: no handler sends more, and a damaged record must not cost memory.
const (
	maxFields    = 10_000
	maxHeadBytes = 16 << 20
)

func (a *answer) appendTo(dst []byte) []byte {
	head := getBuffer()
	defer putBuffer(head)
	*head = a.appendHead(*head)
	dst = append(dst, answerVersion)
	dst = binary.AppendUvarint(dst, uint64(len(*head)))
	dst = append(dst, *head...)
	return append(dst, a.body...)
}

func (a *answer) appendHead(dst []byte) []byte {
	values := 0
	for _, list := range [...][]field{a.headers, a.trailers} {
		for _, f := range list {
			values += len(f.values)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(a.status))
	dst = binary.AppendUvarint(dst, uint64(values))
	dst = appendFields(dst, a.headers)
	return appendFields(dst, a.trailers)
}

// fits reports whether parseAnswer would read what appendTo writes.
func (a *answer) fits() bool {
	fields, values, bytes := 0, 0, 0
	for _, list := range [...][]field{a.headers, a.trailers} {
		fields = max(fields, len(list))
		for _, f := range list {
			values += len(f.values)
			bytes += len(f.name) + binary.MaxVarintLen64
			for _, v := range f.values {
				bytes += len(v) + binary.MaxVarintLen64
			}
		}
	}
	return fields <= maxFields && values <= maxFields && bytes <= maxHeadBytes
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
func parseAnswer(data []byte) (answer, error) {
	if len(data) == 0 || data[0] != answerVersion {
		return answer{}, fmt.Errorf("read answer: unknown version: %w", once.ErrCorrupt)
	}
	length, size := binary.Uvarint(data[1:])
	rest := data[1+max(size, 0):]
	if size <= 0 || length > maxHeadBytes || length > uint64(len(rest)) {
		return answer{}, fmt.Errorf("read answer: it is cut off: %w", once.ErrCorrupt)
	}
	start := 1 + size
	p := parser{rest: string(data[start : start+int(length)])} // all texts are parts of this one
	a := answer{status: int(p.number(maxStatus))}
	p.values = make([]string, 0, p.number(maxFields))
	a.headers = p.fields()
	a.trailers = p.fields()
	a.body = data[start+int(length):]
	if p.bad || p.rest != "" || a.status < http.StatusContinue {
		return answer{}, fmt.Errorf("read answer: it is damaged: %w", once.ErrCorrupt)
	}
	return a, nil
}

const maxStatus = 999

// parser reads the head of an answer. Once bad it reads nothing more.
type parser struct {
	rest   string
	values []string // of all fields, one after the other
	bad    bool
}

func (p *parser) number(limit uint64) uint64 {
	var n uint64
	for i := range min(len(p.rest), binary.MaxVarintLen64) {
		n |= uint64(p.rest[i]&0x7f) << (7 * i)
		if p.rest[i] < 0x80 {
			p.rest = p.rest[i+1:]
			if n <= limit {
				return n
			}
			break
		}
	}
	p.bad, p.rest = true, ""
	return 0
}

func (p *parser) text() string {
	n := p.number(maxHeadBytes)
	if n > uint64(len(p.rest)) {
		p.bad, p.rest = true, ""
		return ""
	}
	s := p.rest[:n]
	p.rest = p.rest[n:]
	return s
}

func (p *parser) fields() []field {
	n := p.number(maxFields)
	if n == 0 || n > uint64(len(p.rest)) {
		p.bad = p.bad || n > 0
		return nil
	}
	fields := make([]field, 0, n)
	for range n {
		name, start := p.text(), len(p.values)
		for range p.number(maxFields) {
			p.values = append(p.values, p.text())
			if p.bad {
				return nil
			}
		}
		fields = append(fields, field{name, p.values[start:len(p.values):len(p.values)]})
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
		"Date", "Age", "Proxy-Status", "X-Request-Id", "X-Correlation-Id",
		"Request-Id", "Traceparent", "Tracestate", "Server-Timing", "X-Runtime", "X-Response-Time",
		"Ratelimit", "Ratelimit-Policy", "Ratelimit-Limit", "Ratelimit-Remaining",
		"Ratelimit-Reset", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset",
		"X-Rate-Limit-Limit", "X-Rate-Limit-Remaining", "X-Rate-Limit-Reset",
		// ours
		HeaderReplayed, HeaderStored, HeaderGuarded,
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
		if strings.HasPrefix(f.name, http.TrailerPrefix) {
			h[f.name] = f.values // the server has to know that some follow
			continue
		}
		h.Add("Trailer", f.name)
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
	p.Detail = "The first request with this key was worked and answered. Its answer was too " +
		"large or a stream, and was not kept; the work is not run again."
	a.setHeaders(w.Header(), r)
	for _, name := range []string{"Content-Length", "Content-Encoding", "Content-Range", "Etag",
		"Content-Disposition", "Accept-Ranges", "Last-Modified", "Content-Digest", "Repr-Digest",
		"Digest", "Content-Md5"} {
		w.Header().Del(name)
	}
	p.write(w, docs)
}
