package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Bounds of the sink.
const (
	maxEffect = 1 << 20
	// holdFor bounds the wait for the server's end.
	holdFor = 30 * time.Second
)

// sink runs the destination that counts.
func sink(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("sink", flag.ContinueOnError)
	file := flags.String("log", "", "`FILE` that effects are written to")
	seed := flags.Uint64("seed", 1, "of its moods")
	if err := flags.Parse(args); err != nil {
		return err
	}
	records, err := openLog(*file)
	if err != nil {
		return err
	}
	d := &destination{log: records, rng: rand.New(rand.NewPCG(*seed, 1)),
		storm: map[string]time.Time{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /arm", d.arm)
	mux.HandleFunc("POST /calm", d.settleDown)
	mux.HandleFunc("POST /{to}", d.receive)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: holdFor}
	say("ready %s", l.Addr())
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	return errors.Join(err, s.Close(), records.close())
}

// destination counts what it gets before it says so, and is not always well.
type destination struct {
	log *effectLog

	mu    sync.Mutex
	rng   *rand.Rand
	calm  bool
	storm map[string]time.Time // until when a destination refuses everything
	armed int                  // effects until one is held; 0: none is
}

// mood is how one request fares.
type mood struct {
	before, after int           // status of a refusal; 1: hang up; 0: go on
	early, late   time.Duration // waits before and after counting
}

func (d *destination) mood(to string) mood {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.calm {
		return mood{}
	}
	now := time.Now()
	if d.rng.IntN(300) == 0 {
		d.storm[to] = now.Add(time.Duration(d.rng.IntN(1500)) * time.Millisecond)
	}
	if now.Before(d.storm[to]) {
		return mood{before: http.StatusServiceUnavailable}
	}
	var m mood
	pick := func(list ...int) int {
		if n := d.rng.IntN(50); n < len(list) {
			return list[n]
		}
		return 0
	}
	m.before = pick(http.StatusServiceUnavailable, http.StatusTooManyRequests, 1)
	m.after = pick(http.StatusInternalServerError, http.StatusBadGateway, 1)
	if d.rng.IntN(10) == 0 {
		m.early = time.Duration(d.rng.IntN(20)) * time.Millisecond
	}
	if d.rng.IntN(10) == 0 {
		m.late = time.Duration(d.rng.IntN(20)) * time.Millisecond
	}
	return m
}

// hold reports whether this effect is the one whose acknowledgement is awaited in vain.
func (d *destination) hold() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.armed == 0 {
		return false
	}
	d.armed--
	return d.armed == 0
}

// receive counts an effect and answers.
func (d *destination) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxEffect))
	if err != nil || !json.Valid(body) {
		return // cut off by its sender: it was never received
	}
	to := r.PathValue("to")
	m := d.mood(to)
	if to == "siren" && m.after != 1 { // it may leave one in the dark, and never lies
		m.after = 0
	}
	wait(r.Context(), m.early)
	if refused(w, m.before) {
		return
	}
	err = d.log.write(record{To: to, Key: r.Header.Get("Idempotency-Key"),
		Fence: r.Header.Get("Fence"), Body: body})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInsufficientStorage)
		return
	}
	if to != "service" && d.hold() {
		say("held %s", r.Header.Get("Idempotency-Key"))
		wait(r.Context(), holdFor)
		panic(http.ErrAbortHandler)
	}
	wait(r.Context(), m.late)
	refused(w, m.after)
}

// refused answers a refusal, or hangs up.
func refused(w http.ResponseWriter, how int) bool {
	if how == 1 {
		panic(http.ErrAbortHandler)
	}
	if how != 0 {
		w.WriteHeader(how)
	}
	return how != 0
}

// wait ends early with its request.
func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// arm holds the answer of the nth effect from now on; 0 disarms.
func (d *destination) arm(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.URL.Query().Get("after"))
	if err != nil || n < 0 {
		http.Error(w, fmt.Sprintf("after: want a number: %v", err), http.StatusBadRequest)
		return
	}
	d.mu.Lock()
	d.armed = n
	d.mu.Unlock()
}

// settleDown ends all moods.
func (d *destination) settleDown(http.ResponseWriter, *http.Request) {
	d.mu.Lock()
	d.calm, d.armed = true, 0
	d.mu.Unlock()
}
