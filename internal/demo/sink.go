package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncekit/once/internal/demo/model"
)

// The destinations.
const (
	wms   = "wms"
	plant = "plant"
)

// Bounds of a destination.
const (
	// maxEffect bounds what is read of an effect, in bytes.
	maxEffect = 64 << 10
	// maxHang bounds how long a request is kept waiting. The server gives up long before.
	maxHang = 5 * time.Second
	// rebind bounds the wait for the port of a destination that comes back.
	rebind = 5 * time.Second
)

// sightings is what arrived, in the order of arrival.
type sightings struct {
	mu   sync.Mutex
	list []model.Sighting
	// distinct and repeated are for who watches.
	distinct, repeated atomic.Int64
	known              map[string]bool
}

func (s *sightings) add(one model.Sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, one)
	if s.known[one.ID] {
		s.repeated.Add(1)
		return
	}
	s.known[one.ID] = true
	s.distinct.Add(1)
}

func (s *sightings) all() []model.Sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]model.Sighting(nil), s.list...)
}

// sink is a destination. It notes each effect before it answers, and is not always well.
type sink struct {
	name string
	addr string
	seen *sightings
	now  func() time.Time // the server's clock

	// ill is held for the length of a fault: on a slow machine the next one may be due before.
	ill sync.Mutex

	mu     sync.Mutex
	rng    *rand.Rand
	mood   string // empty: it answers
	calm   bool   // it does not stumble either
	server *http.Server
}

// openSink starts a destination on a free loopback port.
func openSink(name string, seed uint64, seen *sightings, now func() time.Time) (*sink, error) {
	s := &sink{name: name, seen: seen, now: now, rng: rand.New(rand.NewPCG(seed, hashOf(name)))}
	l, err := listen()
	if err != nil {
		return nil, fmt.Errorf("open destination %s: %w", name, err)
	}
	s.addr = l.Addr().String()
	s.serve(l)
	return s, nil
}

// hashOf is a number for a name, the same in every run.
func hashOf(name string) (n uint64) {
	for _, b := range []byte(name) {
		n = n*31 + uint64(b)
	}
	return n
}

func (s *sink) serve(l net.Listener) {
	server := &http.Server{Handler: http.HandlerFunc(s.receive), ReadHeaderTimeout: maxHang,
		ErrorLog: quiet()}
	s.mu.Lock()
	s.server = server
	s.mu.Unlock()
	go func() { _ = server.Serve(l) }() // ends with close
}

// url is where the server sends to.
func (s *sink) url() string {
	if s.name == wms {
		return "http://" + s.addr + "/events"
	}
	return "http://" + s.addr
}

// set gives the destination a mood; empty: it answers again.
func (s *sink) set(ctx context.Context, mood string) error {
	s.mu.Lock()
	was := s.mood
	s.mood = mood
	server := s.server
	s.mu.Unlock()
	switch {
	case mood == away && was != away:
		return server.Close()
	case mood != away && was == away:
		return s.reopen(ctx)
	}
	return nil
}

// reopen takes the destination's port again.
func (s *sink) reopen(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, rebind)
	defer cancel()
	for {
		l, err := net.Listen("tcp", s.addr)
		if err == nil {
			s.serve(l)
			return nil
		}
		if !pause(ctx, 20*time.Millisecond) {
			return fmt.Errorf("open destination %s again: %w", s.name, err)
		}
	}
}

// settle ends all moods for good.
func (s *sink) settle(ctx context.Context) error {
	s.mu.Lock()
	s.calm = true
	s.mu.Unlock()
	return s.set(ctx, "")
}

func (s *sink) close() {
	s.mu.Lock()
	server := s.server
	s.mu.Unlock()
	_ = server.Close() // nothing is left to be answered
}

// fate is how one request fares.
type fate struct {
	lost   bool // it is not noted
	status int  // of the answer; 0: there is none
	hang   bool
}

// draw decides about one request. Beside its moods a destination stumbles now and then.
func (s *sink) draw() fate {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.rng.IntN(100)
	switch {
	case s.mood == failing:
		return fate{lost: n < 70, status: http.StatusServiceUnavailable}
	case s.mood == hanging:
		return fate{lost: n < 50, hang: true}
	case s.calm || n >= 4:
		return fate{status: http.StatusOK}
	case n < 2: // it was noted, and the answer is wrong
		return fate{status: http.StatusInternalServerError}
	}
	return fate{} // it was noted, and nobody is told
}

// receive notes an effect and answers.
func (s *sink) receive(w http.ResponseWriter, r *http.Request) {
	at := s.now()
	body, err := io.ReadAll(io.LimitReader(r.Body, maxEffect))
	if err != nil {
		return // cut off by its sender: it never arrived
	}
	f := s.draw()
	if !f.lost {
		one, err := sight(s.name, r, body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest) // a dead letter: it is told
			return
		}
		one.At = at
		s.seen.add(one)
	}
	if f.hang {
		_ = pause(r.Context(), maxHang)
	}
	if f.status == 0 {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(f.status)
}

// sight reads an effect.
func sight(name string, r *http.Request, body []byte) (model.Sighting, error) {
	var p struct {
		ID, Task, State, Fence, Seq any
	}
	if err := json.Unmarshal(body, &p); err != nil {
		return model.Sighting{}, fmt.Errorf("read effect: %w", err)
	}
	one := model.Sighting{Destination: name, Task: text(p.Task), State: text(p.State),
		ID:      strings.Trim(r.Header.Get("Idempotency-Key"), `"`),
		Payload: string(body), PayloadID: text(p.ID)}
	if one.ID == "" || one.Task == "" {
		return one, errors.New("read effect: it has no Idempotency-Key or no task")
	}
	if name == wms {
		one.Name = "tell-wms"
		switch {
		case p.Seq != nil:
			one.Name = model.Progress
			var err error
			if one.Seq, err = strconv.Atoi(text(p.Seq)); err != nil {
				return one, fmt.Errorf("read effect: its seq is %v: %w", p.Seq, err)
			}
		case one.State == "running":
			one.Name = model.Alarm
		}
		return one, nil
	}
	resource, action, _ := cutLast(strings.TrimPrefix(r.URL.Path, "/"))
	one.Resource, one.Name = resource, map[string]string{"unlock": "unlock-roadway",
		"release": "release-station"}[action]
	var err error
	one.Fence, err = strconv.ParseInt(r.Header.Get("Fence"), 10, 64)
	if err != nil || text(p.Fence) != r.Header.Get("Fence") {
		return one, fmt.Errorf("read effect: its fence is %q and its payload says %v",
			r.Header.Get("Fence"), p.Fence)
	}
	return one, nil
}

// text is a value of JSON as a text.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}

// cutLast cuts a text at its last slash.
func cutLast(s string) (before, after string, found bool) {
	at := strings.LastIndexByte(s, '/')
	if at < 0 {
		return "", s, false
	}
	return s[:at], s[at+1:], true
}
