package torture_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekit/once/internal/api/apitest"
)

const (
	// readyLimit bounds a start, which takes back what the process before had in its hands.
	readyLimit = 30 * time.Second
	// reachLimit bounds the wait for a point; sweepLimit for that of a sweep, of which there is one
	// at the start and then one every 10 s.
	reachLimit = 10 * time.Second
	sweepLimit = 25 * time.Second
	// endLimit bounds whatever has to come to its end when nobody is killed any more.
	endLimit = 5 * time.Minute
	// senders are the callers that post at the same moment.
	senders = 8
)

// required are the points of which each has to be hit at least once.
func required() []string {
	return []string{"commit", "reply", "acknowledged", "taken", "unacknowledged", "sent", "sweep",
		"working", "committing", "outside"}
}

// missed reports whether a point was never hit.
func (r *rig) missed() bool {
	return slices.ContainsFunc(required(), func(p string) bool { return r.kills[p] == 0 })
}

// killed is the number of kills so far.
func (r *rig) killed() (n int) {
	for _, k := range r.kills {
		n += k
	}
	return n
}

// rig is the three processes and the senders.
type rig struct {
	t        *testing.T
	dir, bin string
	seed     uint64
	rng      *rand.Rand
	client   *http.Client

	sink    *process
	sinkURL string
	server  *process
	addr    atomic.Pointer[string]
	admin   string

	book  book
	kills map[string]int
	// revived is how many callbacks were dead by transient failure and were sent again.
	revived int
	failed  chan error
	// answers is set while the server is to die of one.
	answers atomic.Pointer[answers]
}

// newRig starts the sink. Its folder is kept if the test fails.
func newRig(t *testing.T, seed uint64) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "once-torture-")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: dir, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)),
		client: &http.Client{Timeout: answerLimit, Transport: &http.Transport{
			MaxIdleConnsPerHost: 64}},
		kills: map[string]int{}, failed: make(chan error, 1)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("store, effects and complaints of the processes are kept in %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	r.bin = buildChild(t, dir)
	config, err := os.ReadFile("testdata/once.yaml")
	if err == nil { // a copy, so that it stays the same however long this runs
		err = os.WriteFile(r.path("once.yaml"), config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.sink = r.start(nil, "sink", "--log", r.path("effects.jsonl"), "--seed", fmt.Sprint(seed))
	_, addr, err := r.sink.await(readyLimit, "ready")
	if err != nil {
		t.Fatalf("start sink: %v", err)
	}
	r.sinkURL = "http://" + addr
	return r
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

// start starts a child, which is killed at the end if it still runs.
func (r *rig) start(env []string, args ...string) *process {
	r.t.Helper()
	p, err := startProcess(r.bin, r.path(args[0]+".log"), env, args...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(p.kill)
	return p
}

// serve starts the server on the same store, with more arguments, and waits until it listens. It
// reports true if the server killed itself before: its start commits too.
func (r *rig) serve(args ...string) (killed bool) {
	r.t.Helper()
	r.server = r.start([]string{"SINK=" + r.sinkURL}, append([]string{"serve", "--config",
		r.path("once.yaml"), "--store", "sqlite:" + r.path("once.db")}, args...)...)
	word, line, err := r.server.await(readyLimit, "ready", "killed")
	if err != nil {
		log, _ := os.ReadFile(r.path("serve.log")) // for the message alone
		r.t.Fatalf("start server: %v\n%s", err, tail(string(log)))
	}
	if word == "killed" {
		return true
	}
	addr, admin, _ := strings.Cut(line, " ")
	r.addr.Store(&addr)
	r.admin = "http://" + admin
	return false
}

func tail(s string) string {
	const most = 4000
	return s[max(len(s)-most, 0):]
}

// load starts the senders. Calling the result lets them end what they began, and waits for it.
func (r *rig) load() (finish func()) {
	ctx, stop := context.WithCancel(r.t.Context())
	enough, all := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	for n := range senders {
		s := r.sender(n)
		wg.Go(func() { s.run(ctx, enough) })
	}
	go func() { wg.Wait(); close(all) }()
	r.t.Cleanup(func() { stop(); <-all })
	return func() {
		close(enough)
		select {
		case <-all:
		case <-time.After(endLimit):
			r.t.Errorf("senders got no answer within %v", endLimit)
		}
		stop()
		<-all
	}
}

func (r *rig) sender(n int) *sender {
	return &sender{n: n, rng: rand.New(rand.NewPCG(r.seed, uint64(n)+2)), book: &r.book,
		client: r.client, server: &r.addr, fail: r.fail, told: r.told}
}

// answers is a server that dies of so many answers.
type answers struct {
	left   atomic.Int64
	server *process
	end    chan struct{}
}

// told counts an answer, and kills the server in the same moment if it was the last that it gives.
func (r *rig) told() {
	a := r.answers.Load()
	if a == nil || a.left.Add(-1) != 0 {
		return
	}
	_ = a.server.cmd.Process.Kill() // it may be gone already
	close(a.end)
}

// killAnswered kills the server when a sender got its answer.
func (r *rig) killAnswered() string {
	r.t.Helper()
	r.serve()
	a := &answers{server: r.server, end: make(chan struct{})}
	a.left.Store(int64(1 + r.rng.IntN(60)))
	r.answers.Store(a)
	defer r.answers.Store(nil)
	point := "acknowledged"
	select {
	case <-a.end:
	case <-time.After(reachLimit):
		r.mustLive()
		point = "outside"
	}
	r.server.kill()
	return point
}

// fail keeps the first thing that must not happen.
func (r *rig) fail(err error) {
	select {
	case r.failed <- err:
	default:
	}
}

// check ends the test if something happened that must not.
func (r *rig) check() {
	r.t.Helper()
	select {
	case err := <-r.failed:
		r.t.Fatal(err)
	default:
	}
}

// kill lets the server live until it is killed at a point, and counts that. It reports false if the
// point was not reached: then the server was killed all the same.
func (r *rig) kill(point string) bool {
	r.t.Helper()
	switch point {
	case "outside":
		r.serve()
		sleep(r.t.Context(), time.Duration(20+r.rng.IntN(900))*time.Millisecond)
		r.mustLive()
		r.server.kill()
	case "unacknowledged":
		r.serve()
		r.control("arm?after=" + fmt.Sprint(1+r.rng.IntN(25)))
		if _, _, err := r.sink.await(reachLimit, "held"); err != nil {
			point = "outside"
			r.control("arm?after=0")
		}
		r.mustLive()
		r.server.kill()
	case "acknowledged":
		point = r.killAnswered()
	default:
		point = r.killInside(point)
	}
	r.kills[point]++
	r.check()
	return point != "outside"
}

// killInside lets the server kill itself.
func (r *rig) killInside(point string) string {
	r.t.Helper()
	most, limit := 40, reachLimit
	switch point {
	case "sweep":
		most, limit = 1+r.rng.IntN(8)/7, sweepLimit
	case "working", "committing":
		most = 8
	}
	linger := time.Duration(r.rng.IntN(3000)) * time.Microsecond
	var err error
	if !r.serve("--point", point, "--after", fmt.Sprint(1+r.rng.IntN(most)),
		"--linger", linger.String()) {
		_, _, err = r.server.await(limit, "killed")
	}
	if err == nil {
		r.server.drain()
		return point
	}
	if errors.Is(err, errEnded) {
		r.mustLive()
	}
	r.server.kill()
	return "outside"
}

// mustLive ends the test if the server ended by itself.
func (r *rig) mustLive() {
	r.t.Helper()
	select {
	case <-r.server.done:
		log, _ := os.ReadFile(r.path("serve.log")) // for the message alone
		r.t.Fatalf("the server ended by itself: %v\n%s", r.server.state, tail(string(log)))
	default:
	}
}

// control tells the sink something.
func (r *rig) control(what string) {
	r.t.Helper()
	res, err := r.client.Post(r.sinkURL+"/"+what, "text/plain", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		r.t.Fatalf("sink: %s: %s", what, res.Status)
	}
}

// operator is a client of the operator's listener, which holds each answer to its description.
func (r *rig) operator() *http.Client {
	return &http.Client{Timeout: answerLimit, Transport: &apitest.Transport{
		Host: strings.TrimPrefix(r.admin, "http://"), Base: r.client.Transport}}
}

// get asks the operator's listener.
func (r *rig) get(path string) string {
	r.t.Helper()
	res, err := r.operator().Get(r.admin + path)
	if err != nil {
		r.t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil || res.StatusCode != http.StatusOK {
		r.t.Fatalf("%s: %s: %v: %s", path, res.Status, err, b)
	}
	return string(b)
}

// post asks the operator's listener for a change.
func (r *rig) post(path, body string) {
	r.t.Helper()
	res, err := r.operator().Post(r.admin+path, "application/json", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	b, _ := io.ReadAll(res.Body) // for the message alone
	_ = res.Body.Close()
	if res.StatusCode/100 != 2 {
		r.t.Fatalf("%s: %s: %s", path, res.Status, b)
	}
}

// stop ends the server in order.
func (r *rig) stop() {
	r.t.Helper()
	r.mustLive()
	if err := r.server.cmd.Process.Signal(os.Interrupt); err != nil {
		r.t.Fatal(err)
	}
	r.server.drain()
	if r.server.state != nil {
		r.t.Errorf("the server did not end in order: %v", r.server.state)
	}
}
