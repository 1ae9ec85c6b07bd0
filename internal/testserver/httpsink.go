package testserver

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"
)

// maxSinkBody bounds what a sink keeps of one request, in bytes.
const maxSinkBody = 16 << 20

// Answer is what a sink does with one request. The zero value answers 200 without a body.
type Answer struct {
	Status int           // 0 is 200
	Header http.Header   // added to the answer's header
	Body   string        // sent after the header
	Delay  time.Duration // waited before anything is sent
	Hang   bool          // nothing is sent until the client gives up or the test ends
	Drop   bool          // the connection is closed without an answer
}

// Request is what a sink has received.
type Request struct {
	Method string
	URI    string // path and query, as sent
	Header http.Header
	Body   []byte
	At     time.Time // when its body had been read
}

// HTTPSink is an HTTP server that keeps what it receives and answers as it is told.
type HTTPSink struct {
	server *httptest.Server
	ending chan struct{}

	mu       sync.Mutex
	requests []Request
	script   []Answer
	standard Answer
}

// NewHTTPSink starts a sink that answers 200 to everything. It ends with the test.
func NewHTTPSink(t testing.TB) *HTTPSink {
	t.Helper()
	s := &HTTPSink{ending: make(chan struct{})}
	s.server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		close(s.ending)
		s.server.CloseClientConnections()
		s.server.Close()
	})
	return s
}

// URL is where the sink listens: http://127.0.0.1:PORT, without a path.
func (s *HTTPSink) URL() string { return s.server.URL }

// Addr is the host and port on which the sink listens.
func (s *HTTPSink) Addr() string { return s.server.Listener.Addr().String() }

// Script adds answers for the next requests, one each, in the order in which their bodies arrive.
// After the last one the standard answer holds again.
func (s *HTTPSink) Script(answers ...Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, answers...)
}

// Otherwise sets the standard answer: that to requests for which none is scripted.
func (s *HTTPSink) Otherwise(a Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.standard = a
}

// Requests are the requests received so far, answered or not, in the order of their arrival.
func (s *HTTPSink) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Await returns the requests as soon as there are n of them, and fails the test if that takes
// longer than limit.
func (s *HTTPSink) Await(t testing.TB, n int, limit time.Duration) []Request {
	t.Helper()
	var got []Request
	Until(t, limit, "the sink had its requests", func() bool {
		got = s.Requests()
		return len(got) >= n
	})
	return got
}

func (s *HTTPSink) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxSinkBody))
	if err != nil {
		return // cut off by its sender: it was never received
	}
	answer := s.record(Request{
		Method: r.Method,
		URI:    r.RequestURI,
		Header: r.Header.Clone(),
		Body:   body,
		At:     time.Now(),
	})
	if answer.Hang {
		s.wait(r, nil)
	}
	if answer.Delay > 0 {
		timer := time.NewTimer(answer.Delay)
		defer timer.Stop()
		s.wait(r, timer.C)
	}
	if answer.Hang || answer.Drop {
		panic(http.ErrAbortHandler) // closes the connection without an answer
	}
	maps.Copy(w.Header(), answer.Header)
	if answer.Status != 0 {
		w.WriteHeader(answer.Status)
	}
	_, _ = io.WriteString(w, answer.Body) // a client that has gone needs no answer
}

func (s *HTTPSink) record(r Request) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	if len(s.script) == 0 {
		return s.standard
	}
	next := s.script[0]
	s.script = s.script[1:]
	return next
}

// wait returns at the tick, when the client gives up, or when the test ends.
func (s *HTTPSink) wait(r *http.Request, tick <-chan time.Time) {
	select {
	case <-tick:
	case <-r.Context().Done():
	case <-s.ending:
	}
}
