package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekit/once/internal/demo/model"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/testserver/postgres"
)

const (
	// nodesInFleet share the work.
	nodesInFleet = 3
	// endLimit bounds every wait for what has to come, on a machine that does much else.
	endLimit = 4 * time.Minute
	// fleetPoll is the time between two looks.
	fleetPoll = 20 * time.Millisecond
	fleetDB   = "plant"
)

// clocks are how far the nodes' clocks are ahead of the database's, in seconds.
var clocks = [nodesInFleet]int{0, 7 * 60, -4 * 60}

// fleet is nodes on one PostgreSQL, their senders and their destinations.
type fleet struct {
	t    *testing.T
	seed uint64
	ctx  context.Context

	pg     *postgres.Server
	nodes  []*node
	fences *fencing
	wms    *sink
	play   *rehearsal // what the robots and the judge need

	mu       sync.Mutex
	counts   map[string]int
	evidence *model.Evidence
}

// node is one process, with its own way to the database and to the plant.
type node struct {
	*server
	n     int
	proxy *testserver.Proxy
	gate  *gate
	busy  sync.Mutex // held by who disturbs it
}

// newFleet starts everything. What the nodes wrote is shown if the test fails.
func newFleet(t *testing.T, seed uint64) *fleet {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	f := &fleet{t: t, seed: seed, ctx: ctx, fences: newFencing(), counts: map[string]int{},
		pg: testserver.PostgresServer(t, postgres.Config{Durable: true})}
	if err := f.pg.CreateDatabase(ctx, fleetDB); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Robots: 9, Rate: 60, Seed: seed}
	f.play = &rehearsal{cfg: cfg, book: newLedger(), lay: newLayout(cfg.Robots, runName(seed)),
		seen: &sightings{known: map[string]bool{}}, failed: make(chan error, 1)}
	f.play.lay.roadways = 5 // or what waits for a roadway that a frozen node has grows for minutes
	var err error
	if f.wms, err = openSink(wms, seed, f.play.seen, time.Now); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.wms.close)
	built := buildClocked(t)
	for n := range nodesInFleet {
		f.nodes = append(f.nodes, f.newNode(n, built))
	}
	var all sync.WaitGroup
	for _, n := range f.nodes { // at once: one of them migrates
		all.Go(func() { f.start(n) })
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	f.play.server = f.nodes[0].server
	return f
}

// newNode makes a node that isn't started yet. Its ports are the same in each of its lives.
func (f *fleet) newNode(i int, built string) *node {
	f.t.Helper()
	dir := f.t.TempDir()
	n := &node{n: i, server: &server{dir: dir, config: filepath.Join(dir, "once.yaml"),
		program: filepath.Join(dir, "once")}}
	n.proxy = testserver.NewProxy(f.t, f.pg.Addr())
	n.gate = &gate{node: n, fences: f.fences, sink: &sink{name: plant, seen: f.play.seen,
		now: time.Now, rng: rand.New(rand.NewPCG(f.seed, uint64(i)+10))}}
	var err error
	if n.addr, err = freeAddress(); err == nil {
		n.admin, err = freeAddress()
	}
	if err != nil {
		f.t.Fatal(err)
	}
	n.client = newAdmin(n.admin)
	f.t.Cleanup(n.client.close)
	text := strings.NewReplacer("${LISTEN}", n.addr, "${ADMIN}", n.admin,
		"${STORE}", quote(postgres.URL(n.proxy.Addr(), fleetDB)),
		"${PLANT}", "http://"+n.gate.serve(f.t), "${WMS}", f.wms.url()).Replace(plantFile)
	script := fmt.Sprintf("#!/bin/sh\nSECONDS_AHEAD=%d exec '%s' \"$@\"\n", clocks[i], built)
	for name, content := range map[string]string{n.config: text, n.program: script} {
		if err := os.WriteFile(name, []byte(content), 0o700); err != nil {
			f.t.Fatal(err)
		}
	}
	f.t.Cleanup(func() {
		n.end()
		if f.t.Failed() {
			f.t.Logf("node %d wrote:\n%s", i, n.tail())
		}
	})
	return n
}

// start starts a node, again if PostgreSQL was away just then: that ends one that starts.
func (f *fleet) start(n *node) {
	limit, cancel := context.WithTimeout(f.ctx, endLimit)
	defer cancel()
	for {
		err := n.start(limit)
		if err == nil {
			return
		}
		n.end()
		if !pause(limit, fleetPoll) {
			f.t.Errorf("node %d: %v", n.n, err)
			return
		}
	}
}

// until waits for a condition, and reports false if it does not come.
func (f *fleet) until(what string, holds func() bool) bool {
	return f.within(endLimit, what, holds)
}

func (f *fleet) within(d time.Duration, what string, holds func() bool) bool {
	limit, cancel := context.WithTimeout(f.ctx, d)
	defer cancel()
	for !holds() {
		if f.t.Failed() {
			return false // something else went wrong, and what is waited for may never come
		}
		if !pause(limit, fleetPoll) {
			f.t.Errorf("not within %v: %s", d, what)
			return false
		}
	}
	return true
}

// ask asks the database itself, and reports false if there is no answer.
func (f *fleet) ask(into any, sql string, args ...any) bool {
	ctx, cancel := context.WithTimeout(f.ctx, askLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, f.pg.URL(fleetDB))
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close(ctx) }() // it was only asked
	return conn.QueryRow(ctx, sql, args...).Scan(into) == nil
}

// load lets robots report until the result is called, which returns when they ended their tasks.
func (f *fleet) load() (finish func()) {
	p := f.play
	p.start = time.Now()
	ctx, stop := context.WithCancel(f.ctx)
	all, give := context.WithCancel(f.ctx)
	var senders []*sender
	var wg sync.WaitGroup
	for n := range p.cfg.Robots {
		var addrs []string
		for i := range f.nodes { // each begins with another one
			addrs = append(addrs, f.nodes[(n+i)%len(f.nodes)].addr)
		}
		s := newSender(p.book, p.start, p.fail, addrs...)
		senders = append(senders, s)
		r := newRobot(n, p)
		r.send = s
		p.robots = append(p.robots, r)
		wg.Go(func() { r.run(all, ctx) })
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	f.t.Cleanup(func() {
		give()
		stop()
		<-ended
		for _, s := range senders {
			s.close()
		}
	})
	return func() {
		stop()
		for _, s := range senders {
			s.patient.Store(true)
		}
		select {
		case <-ended:
		case <-time.After(endLimit):
			f.t.Errorf("robots got no answer within %v", endLimit)
			give()
			<-ended
		}
		for _, s := range senders {
			s.close() // or a node that ends waits for a request on each connection
		}
	}
}

// settle lets the destinations be well from now on.
func (f *fleet) settle() {
	sinks := []*sink{f.wms}
	for _, n := range f.nodes {
		sinks = append(sinks, n.gate.sink)
	}
	for _, s := range sinks {
		if err := s.settle(f.ctx); err != nil {
			f.t.Error(err)
		}
	}
}

// drain waits until nothing is left to be done. A longer run leaves more.
func (f *fleet) drain(long time.Duration) {
	var left backlog
	calm := 0
	f.within(endLimit+long, "all work is done", func() bool {
		b, err := f.nodes[0].client.left(f.ctx)
		if left = b; err != nil || !b.none() {
			calm = 0
			return false
		}
		calm++ // what is woken in between is seen by the second look
		return calm == 2
	})
	if !left.none() {
		f.t.Errorf("left: %v", left)
	}
}

// judge compares everything with what had to come of what was sent.
func (f *fleet) judge() *model.Report {
	e, err := f.play.collect(f.ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	f.evidence = e
	f.forgiveCounts(e)
	r := model.Judge(e)
	for _, fault := range r.Faults {
		f.t.Error(faultText(fault))
	}
	for _, task := range faultyTasks(r, shownTraces) {
		f.t.Logf("task %s\n%s", task, strings.Join(r.Trace(task), "\n"))
	}
	return r
}

// forgiveCounts lets a later arrival be counted twice where the answer to its commit was lost: the
// store says that this may be. It may not be often.
func (f *fleet) forgiveCounts(e *model.Evidence) {
	same, other := map[string]int{}, map[string]int{}
	for _, c := range e.Callbacks {
		key := keyOf(c.Request, c.Task, c.Event)
		for _, s := range c.Sends {
			if s.Changed {
				other[key]++
			} else {
				same[key]++
			}
		}
	}
	twice := 0
	for i := range e.Store.Callbacks {
		c := &e.Store.Callbacks[i]
		key := keyOf(c.Key...)
		if most := same[key] - 1; c.Duplicates > most {
			twice += c.Duplicates - most
			c.Duplicates = most
		}
		if most := other[key]; c.Conflicts > most {
			twice += c.Conflicts - most
			c.Conflicts = most
		}
	}
	f.t.Logf("%d later arrivals were counted twice", twice)
	if twice > len(e.Store.Callbacks)/10 {
		f.t.Errorf("%d of them is too many for %d callbacks", twice, len(e.Store.Callbacks))
	}
}

// endInOrder ends a node as an operator does.
func (f *fleet) endInOrder(n *node) {
	if err := n.lived(); err != nil {
		f.t.Errorf("node %d: %v", n.n, err)
		return
	}
	p := n.current()
	p.End(syscall.SIGTERM, endLimit)
	if !p.State().Success() {
		f.t.Errorf("node %d did not end in order: %v\n%s", n.n, p.State(), n.tail())
	}
}

// wake lets a frozen node go on.
func (n *node) wake() { n.current().Signal(syscall.SIGCONT) }
