package oncehttp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// recorder is the http.ResponseWriter of a guarded handler. It holds the answer back until it is
// stored, so that nobody is told what could still be lost, and so that an answer that can't be kept
// says so. An answer that can't wait goes out live: one that is flushed, and one that grows too
// large. A stream, a large answer and a taken-over connection are not kept; what is flushed is.
type recorder struct {
	w http.ResponseWriter

	mu       sync.Mutex // of all below
	hijacked bool
	*recording
}

// recording is what a recorder knows of the answer. It goes back to a pool, while a handler may
// keep its recorder for longer.
type recording struct {
	max int // bytes of a body that is kept

	state   recorderState
	keeping bool // the body is captured
	ended   bool // the handler has returned
	failed  bool // the client is gone
	stream  bool // an answer that may have no end
	status  int  // 0: not told yet
	// declared is the Content-Length; -1: none.
	declared int64
	forced   *Verdict // set where the answer isn't the handler's own; nil: the policy counts
	written  int64
	// head is the header as it was when the status was told; what the handler does to it later has
	// no effect, but for trailers.
	head   []field
	before http.Header // what outer handlers had set; nil for none
	buf    *[]byte     // the body
	// sniffed is how much of the body a server may look at to find its type; -1: all of it.
	sniffed int
	// room for the head of ordinary answers.
	room struct {
		fields [3]field
		lines  [3]string
		kept   [4]field
	}
}

var recordings = sync.Pool{New: func() any { return new(recording) }}

// through is what all recorders know whose request is through. It is never written to.
var through = &recording{ended: true}

type recorderState byte

const (
	holding recorderState = iota // nothing was sent
	live                         // all is sent as it comes
)

var errShort = errors.New("answer is shorter than its Content-Length")

func newRecorder(w http.ResponseWriter, limit int) *recorder {
	known, _ := recordings.Get().(*recording)
	r := &recorder{w: w, recording: known}
	r.max, r.keeping, r.declared, r.buf, r.sniffed = limit, true, -1, getBuffer(), -1
	if h := w.Header(); len(h) > 0 {
		r.before = h.Clone()
	}
	return r
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.w.Header() }

// Unwrap lets http.ResponseController reach the server's writer.
func (r *recorder) Unwrap() http.ResponseWriter { return r.w }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writeHeader(status)
}

func (r *recorder) writeHeader(status int) {
	switch {
	case r.hijacked || r.ended || r.status != 0 && status >= 200:
		return // as net/http, which logs it
	case status < http.StatusContinue || status > maxStatus:
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) // as net/http, before it is kept
	case status >= 100 && status < 200 && status != http.StatusSwitchingProtocols:
		if r.status == 0 {
			r.w.WriteHeader(status)
		}
		return
	case r.status != 0:
		return
	}
	r.status = status
	h := r.w.Header()
	r.copyHead(h)
	if lines := h["Content-Length"]; len(lines) == 1 {
		if n, err := strconv.ParseInt(lines[0], 10, 64); err == nil && n >= 0 {
			r.declared = n
		}
	}
	if status == http.StatusSwitchingProtocols {
		r.keeping = false
		r.goLive()
	}
}

// copyHead copies the header: the handler may still change its lines in place.
func (r *recorder) copyHead(h http.Header) {
	r.head = r.room.fields[:0]
	lines := r.room.lines[:0]
	for name, values := range h {
		if isMarker(name) {
			continue // a service behind the handler has keys of its own
		}
		start := len(lines)
		lines = append(lines, values...) // a list that moves leaves the earlier ones where they are
		r.head = append(r.head, field{name, lines[start:len(lines):len(lines)]})
	}
}

// isMarker tells the headers in which only the middleware speaks.
func isMarker(name string) bool {
	if name == "" || name[0]|0x20 != 'i' { // as all of them begin
		return false
	}
	return strings.EqualFold(name, HeaderReplayed) || strings.EqualFold(name, HeaderStored) ||
		strings.EqualFold(name, HeaderGuarded)
}

// Write implements io.Writer.
func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.mayWrite(len(p)); err != nil {
		return 0, err
	}
	r.keep(p)
	return r.send(p)
}

// WriteString implements io.StringWriter.
func (r *recorder) WriteString(s string) (int, error) { return r.Write([]byte(s)) }

// mayWrite refuses what net/http refuses.
func (r *recorder) mayWrite(n int) error {
	switch {
	case r.hijacked:
		return http.ErrHijacked
	case r.ended:
		return http.ErrHandlerTimeout // it came after its handler's return
	case r.status == 0:
		r.writeHeader(http.StatusOK)
	}
	if !bodyAllowed(r.status) {
		return http.ErrBodyNotAllowed
	}
	if r.declared >= 0 && r.written+int64(n) > r.declared {
		return http.ErrContentLength // what came before may be all that was declared
	}
	r.written += int64(n)
	return nil
}

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// keep captures a piece of the body. One that grows too large is let go, and goes out live.
func (r *recorder) keep(p []byte) {
	if !r.keeping {
		return
	}
	if len(*r.buf)+len(p) > r.max {
		r.goLive()
		r.keeping = false
		return
	}
	*r.buf = append(*r.buf, p...)
}

// send passes a piece on if the answer is live. That the client is gone doesn't stop the handler,
// but one that streams, which might never end.
func (r *recorder) send(p []byte) (int, error) {
	if r.state == holding {
		return len(p), nil
	}
	if !r.failed {
		n, err := r.w.Write(p)
		if err == nil {
			return n, nil
		}
		r.failed = true
	}
	if r.stream {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

// leftStream reports whether the client of a stream has left it. Its answer is not kept in any
// case, and its handler was told, so that how it ends is no sign of a fault.
func (r *recorder) leftStream() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stream && r.failed
}

// Flush implements http.Flusher.
func (r *recorder) Flush() { _ = r.FlushError() }

// FlushError sends what is there. A stream is not captured any further.
func (r *recorder) FlushError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.hijacked:
		return http.ErrHijacked
	case r.ended:
		return http.ErrHandlerTimeout
	case r.status == 0:
		r.writeHeader(http.StatusOK)
	}
	if isStream(r.contentType()) {
		r.keeping, r.stream = false, true
	}
	if r.ends() {
		return nil
	}
	if r.sniffed < 0 {
		r.sniffed = len(*r.buf)
	}
	r.goLive()
	return http.NewResponseController(r.w).Flush()
}

// ends reports whether the client would see the end of an answer that is kept by itself: by its
// length, or because it has no body. It would take it for done before it is stored, so that a flush
// has to wait.
func (r *recorder) ends() bool {
	return r.keeping && r.state == holding &&
		(!bodyAllowed(r.status) || r.declared >= 0 && r.declared <= int64(r.max))
}

// contentType is the one that was told with the status.
func (r *recorder) contentType() string {
	for _, f := range r.head {
		if f.name == "Content-Type" && len(f.values) > 0 {
			return f.values[0]
		}
	}
	return ""
}

// isStream tells types of answers that have no end.
func isStream(contentType string) bool {
	switch mediaType(contentType) {
	case "text/event-stream", "application/x-ndjson", "application/json-seq",
		"multipart/x-mixed-replace", "application/grpc":
		return true
	}
	return false
}

// Hijack implements http.Hijacker.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil, nil, http.ErrHandlerTimeout
	}
	if r.status != 0 {
		r.goLive() // as net/http, which sends what was written so far
	}
	conn, rw, err := http.NewResponseController(r.w).Hijack()
	if err == nil {
		r.hijacked, r.keeping = true, false
		if r.status == 0 {
			r.status = http.StatusSwitchingProtocols
		}
	}
	return conn, rw, err
}

// goLive sends what was held back; the rest is sent as it comes.
func (r *recorder) goLive() {
	if r.state == live || r.hijacked {
		return
	}
	r.state = live
	r.restoreHead()
	if body := *r.buf; len(body) > 0 {
		if _, err := r.w.Write(body); err != nil {
			r.failed = true
		}
	}
}

// restoreHead sends the status with the header as it was when the handler told it.
func (r *recorder) restoreHead() {
	h := r.w.Header()
	if r.unchanged(h) {
		r.w.WriteHeader(r.status)
		return
	}
	later := h.Clone()
	clear(h)
	for _, f := range r.head {
		h[f.name] = f.values
	}
	r.w.WriteHeader(r.status)
	clear(h)
	for name, values := range later {
		h[name] = values
	}
}

func (r *recorder) unchanged(h http.Header) bool {
	if len(h) != len(r.head) {
		return false
	}
	for _, f := range r.head {
		values, ok := h[f.name]
		if !ok || !slices.Equal(values, f.values) {
			return false
		}
	}
	return true
}

// settleAs says what follows from this answer, in the place of the policy for its status.
func (r *recorder) settleAs(v Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.forced = &v
	}
}

// silent reports whether the handler has told no status yet.
func (r *recorder) silent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status == 0 && !r.hijacked
}

// end is called when the handler has returned. Later calls of the handler have no effect. The error
// is for an answer that is not what its handler declared.
func (r *recorder) end() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status == 0 && !r.hijacked {
		r.writeHeader(http.StatusOK)
	}
	r.ended = true
	if r.declared >= 0 && r.written != r.declared && bodyAllowed(r.status) && !r.hijacked {
		return errShort
	}
	return nil
}

// answer is what came of the handler, without what is not to be kept. It may be used until free.
func (r *recorder) answer(drop map[string]bool) answer {
	a := answer{status: r.status, headers: r.room.kept[:0]}
	hasType := false
	for _, f := range r.head {
		hasType = hasType || f.name == "Content-Type" || f.name == "Content-Encoding"
		old, had := r.before[f.name]
		if drop[http.CanonicalHeaderKey(f.name)] || strings.HasPrefix(f.name, http.TrailerPrefix) ||
			had && slices.Equal(old, f.values) {
			continue
		}
		a.headers = append(a.headers, f)
	}
	for name := range r.before {
		if !slices.ContainsFunc(r.head, func(f field) bool { return f.name == name }) &&
			!drop[http.CanonicalHeaderKey(name)] {
			a.headers = append(a.headers, field{name: name}) // the handler took it away
		}
	}
	if !r.keeping {
		return a
	}
	a.body = *r.buf
	if !hasType && len(a.body) > 0 {
		a.headers = append(a.headers, field{"Content-Type", r.detectType()})
	}
	a.trailers = r.trailers(drop)
	return a
}

// detectType is the type as the server told it, by what it first sent of the body; none if the
// header went before the body did.
func (r *recorder) detectType() []string {
	begin := *r.buf
	if r.sniffed >= 0 {
		begin = begin[:r.sniffed]
	}
	if len(begin) == 0 {
		return nil
	}
	return []string{http.DetectContentType(begin)}
}

// trailers are what the handler declared, or marked, as such.
func (r *recorder) trailers(drop map[string]bool) []field {
	var out []field
	h := r.w.Header()
	for _, f := range r.head {
		if f.name != "Trailer" {
			continue
		}
		for _, line := range f.values {
			for _, name := range strings.Split(line, ",") {
				name = http.CanonicalHeaderKey(strings.TrimSpace(name))
				if values := h[name]; len(values) > 0 && !drop[name] && name != "" {
					out = append(out, field{name, values})
				}
			}
		}
	}
	for name, values := range h {
		if plain, ok := strings.CutPrefix(name, http.TrailerPrefix); ok &&
			!drop[http.CanonicalHeaderKey(plain)] {
			out = append(out, field{name, values})
		}
	}
	return out
}

// finish sends what is still held back. A stored of false is told to the client: in the header, or
// in a trailer if that has gone already.
func (r *recorder) finish(stored bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hijacked {
		return
	}
	if !stored {
		if r.state == live {
			r.w.Header()[http.TrailerPrefix+HeaderStored] = isFalse
		} else {
			r.head = append(r.head, field{HeaderStored, isFalse})
		}
	}
	r.goLive()
}

// free gives the memory of the body back.
func (r *recorder) free() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.failed { // HTTP/2 may still read what it did not send
		putBuffer(r.buf)
	}
	r.buf = nil
	r.ended, r.keeping = true, false
}

// recycle is called when nobody but the handler, or what it left behind, may still have the
// recorder.
func (r *recorder) recycle() {
	r.free()
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.recording
	r.recording = through
	*known = recording{}
	recordings.Put(known)
}
