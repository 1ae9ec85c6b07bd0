package demo

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// fencing is what the plant knows of its roadways and stations: the highest fence of each, and what
// was done. Who comes with an older fence is refused.
type fencing struct {
	mu      sync.Mutex
	highest map[string]int64
	done    map[string]string // by id: resource and fence
	refused []lateSend
	wrong   []string
}

// lateSend is an effect that came when a later owner's had come already.
type lateSend struct {
	id, resource string
	fence        int64
}

func newFencing() *fencing {
	return &fencing{highest: map[string]int64{}, done: map[string]string{}}
}

// admit does what an effect asks for, and reports false where its fence is too old.
func (f *fencing) admit(s lateSend) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	what := s.resource + " " + strconv.FormatInt(s.fence, 10)
	was, known := f.done[s.id]
	if s.fence < f.highest[s.resource] {
		f.refused = append(f.refused, s)
		if !known {
			f.wrong = append(f.wrong, what+" came late, and never before: "+s.id)
		}
		return false
	}
	if known && was != what {
		f.wrong = append(f.wrong, s.id+" came as "+was+" and as "+what)
	}
	if !known && s.fence == f.highest[s.resource] {
		f.wrong = append(f.wrong, what+" came under two ids, the second is "+s.id)
	}
	f.highest[s.resource], f.done[s.id] = s.fence, what
	return true
}

// passed reports whether a later owner than that of an effect has been seen.
func (f *fencing) passed(s lateSend) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.highest[s.resource] > s.fence
}

// late reports whether an effect was refused.
func (f *fencing) late(s lateSend) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.refused {
		if r == s {
			return true
		}
	}
	return false
}

// trap freezes a node when an effect of it arrives, and keeps that effect on its way.
type trap struct {
	caught  chan lateSend
	release chan struct{}
	over    chan struct{}
}

// gate is the plant as one node reaches it.
type gate struct {
	node   *node
	fences *fencing
	sink   *sink

	mu   sync.Mutex
	trap *trap
}

// serve opens the gate until the test ends, and returns its address.
func (g *gate) serve(t *testing.T) string {
	t.Helper()
	l, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: g, ReadHeaderTimeout: maxHang, ErrorLog: quiet()}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Serve(l) }() // ends with Close
	t.Cleanup(func() { _ = s.Close(); <-ended })
	return l.Addr().String()
}

// set sets a trap. It catches one effect.
func (g *gate) set() *trap {
	t := &trap{caught: make(chan lateSend, 1), release: make(chan struct{}),
		over: make(chan struct{})}
	g.mu.Lock()
	g.trap = t
	g.mu.Unlock()
	return t
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxEffect))
	if err != nil {
		return // cut off by its sender: it never arrived
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	resource, _, _ := cutLast(strings.TrimPrefix(r.URL.Path, "/"))
	fence, err := strconv.ParseInt(r.Header.Get("Fence"), 10, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest) // a dead letter: it is told
		return
	}
	s := lateSend{strings.Trim(r.Header.Get("Idempotency-Key"), `"`), resource, fence}
	g.mu.Lock()
	t := g.trap
	g.trap = nil
	g.mu.Unlock()
	if t != nil {
		defer close(t.over)
		g.node.current().Signal(syscall.SIGSTOP)
		t.caught <- s
		select {
		case <-t.release:
		case <-time.After(endLimit):
		}
	}
	if g.fences.admit(s) {
		g.sink.receive(w, r)
		return
	}
	if one, err := sight(plant, r, body); err == nil {
		one.At = time.Now()
		g.sink.seen.add(one) // it did arrive
	}
	w.WriteHeader(http.StatusPreconditionFailed)
}
