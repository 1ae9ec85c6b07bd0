package cli_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/oncekit/once/internal/testserver"
)

// handedTo is a configuration whose callbacks are handed to a service, one account in order.
func handedTo(url string) string {
	return `shutdown: {drain: 20s}
sources:
  pay:
    key: ["body.id"]
    order_by: "body.account"
    to: {http: "` + url + `", timeout: 20s, retry: {base: 10ms, cap: 50ms}}
`
}

func payment(id, account string) string {
	return fmt.Sprintf(`{"id":%q,"account":%q}`, id, account)
}

// keys counts the requests by their Idempotency-Key.
func keys(sink *testserver.HTTPSink) map[string]int {
	n := map[string]int{}
	for _, r := range sink.Requests() {
		n[strings.Trim(r.Header.Get("Idempotency-Key"), `"`)]++
	}
	return n
}

func TestD14_SIGTERMAnswersWhatRunsSettlesWhatIsInHandAndKeepsTheRest(t *testing.T) {
	t.Parallel()
	dir, sink := t.TempDir(), testserver.NewHTTPSink(t)
	release := make(chan struct{})
	proxy := slowService(t, sink.URL(), release)
	// Half of the rest waits behind the one in hand, the other half for the limit of tries at once.
	write(t, dir, "once.yaml", strings.Replace(handedTo(proxy), "timeout: 20s",
		"timeout: 20s, concurrency: 1", 1))
	p := serve(t, dir, "--config", "once.yaml")
	const rest, senders = 500, 10
	p.mustPost("pay", payment("in-hand", "A"))
	var wg sync.WaitGroup
	for sender := range senders {
		wg.Go(func() {
			for i := sender; i < rest; i += senders {
				account := []string{"A", "own" + strconv.Itoa(i)}[i%2]
				status := p.post("pay", payment("p"+strconv.Itoa(i), account))
				if status != http.StatusOK {
					t.Errorf("payment %d: status %d", i, status)
				}
			}
		})
	}
	wg.Wait()
	running := p.half(t, "/in/pay", payment("half", "B"))
	testserver.Until(t, patience, "one is in hand", func() bool {
		return len(p.callbacks("state=running")) == 1
	})
	p.signal(syscall.SIGTERM)
	testserver.Until(t, patience, "it drains", func() bool {
		return strings.Contains(p.err.String(), "draining")
	})
	if status := running(); status != 200 { // P04
		t.Errorf("the request that ran was answered %d, want 200", status)
	}
	close(release)
	if status := p.status(); status != 0 {
		t.Errorf("status %d, want 0", status)
	}
	if n := len(keys(sink)); n != 1 {
		t.Errorf("%d were delivered by the drain, want the one in hand", n)
	}

	p = serve(t, dir, "--config", "once.yaml")
	p.awaitDone(rest + 2)
	delivered := keys(sink)
	for _, c := range p.callbacks("") {
		if c.Attempt != 1 || delivered[c.ID] != 1 {
			t.Errorf("%v: %d attempts, delivered %d times, want 1", c.Key, c.Attempt,
				delivered[c.ID])
		}
	}
}

func TestATryThatOutlivesTheDrainIsEndedAndTakenUpAgainUnderItsKey(t *testing.T) {
	t.Parallel()
	dir, sink := t.TempDir(), testserver.NewHTTPSink(t)
	sink.Otherwise(testserver.Answer{Hang: true})
	// The try itself may take far longer than the test is patient.
	write(t, dir, "once.yaml", strings.NewReplacer("drain: 20s", "drain: 300ms",
		"timeout: 20s", "timeout: 1h").Replace(handedTo(sink.URL())))
	p := serve(t, dir, "--config", "once.yaml")
	p.mustPost("pay", payment("1", "A"))
	p.mustPost("pay", payment("2", "A"))
	sink.Await(t, 1, patience)
	p.signal(syscall.SIGTERM)
	if status := p.status(); status != 0 {
		t.Errorf("status %d, want 0", status)
	}
	for _, line := range []string{"msg=draining limit=300ms", "msg=ended"} {
		if !strings.Contains(p.err.String(), line) {
			t.Errorf("the log has no %s", line)
		}
	}
	if strings.Contains(p.err.String(), "level=ERROR") {
		t.Error("the try was left behind, not ended")
	}
	sink.Otherwise(testserver.Answer{})
	p = serve(t, dir, "--config", "once.yaml")
	p.awaitDone(2)
	for _, c := range p.callbacks("") {
		want := map[string]int{"1": 2, "2": 1}[c.Key[0]]
		if n := keys(sink)[c.ID]; c.Attempt != want || n != want {
			t.Errorf("%v: %d attempts, delivered %d times, want %d", c.Key, c.Attempt, n, want)
		}
	}
}

// slowService hands requests on to a service once it is released, and returns its URL.
func slowService(t *testing.T, to string, release <-chan struct{}) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
			return
		}
		req, err := http.NewRequest(r.Method, to, r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		req.Header = r.Header
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		w.WriteHeader(res.StatusCode)
	})}
	go func() { _ = server.Serve(l) }() // ends with its listener
	t.Cleanup(func() { _ = server.Close() })
	return "http://" + l.Addr().String()
}

// half sends a request but for its last byte, and returns a function that sends that and returns
// the status of the answer.
func (p *process) half(t *testing.T, path, body string) func() int {
	t.Helper()
	u, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", path, u.Host, len(body), body[:len(body)-1])
	if err != nil {
		t.Fatal(err)
	}
	return func() int {
		if _, err := io.WriteString(conn, body[len(body)-1:]); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
}

func TestASecondSIGTERMEndsAtOnceAndNothingIsLost(t *testing.T) {
	t.Parallel()
	dir, sink := t.TempDir(), testserver.NewHTTPSink(t)
	sink.Otherwise(testserver.Answer{Hang: true})
	write(t, dir, "once.yaml", handedTo(sink.URL()))
	p := serve(t, dir, "--config", "once.yaml")
	p.mustPost("pay", payment("1", "A"))
	sink.Await(t, 1, patience)
	p.signal(syscall.SIGTERM)
	testserver.Until(t, patience, "it drains", func() bool {
		return strings.Contains(p.err.String(), "draining")
	})
	p.signal(syscall.SIGTERM)
	if status := p.status(); status != 130 {
		t.Errorf("status %d, want 130", status)
	}
	sink.Otherwise(testserver.Answer{})
	p = serve(t, dir, "--config", "once.yaml")
	p.awaitDone(1)
	c := p.callbacks("")[0]
	if c.Attempt != 2 || keys(sink)[c.ID] != 2 {
		t.Errorf("%d attempts, %v, want 2 under one key", c.Attempt, keys(sink))
	}
}

func TestD08_K12_AKilledServerTakesItsWorkUpAgainAtOnceUnderTheSameKey(t *testing.T) {
	t.Parallel()
	dir, sink := t.TempDir(), testserver.NewHTTPSink(t)
	sink.Otherwise(testserver.Answer{Hang: true})
	write(t, dir, "once.yaml", handedTo(sink.URL()))
	p := serve(t, dir, "--config", "once.yaml")
	p.mustPost("pay", payment("1", "A"))
	p.mustPost("pay", payment("2", "A"))
	sink.Await(t, 1, patience)
	p.kill()
	sink.Otherwise(testserver.Answer{})
	p = serve(t, dir, "--config", "once.yaml")
	p.mustPost("pay", payment("1", "A")) // K08: the sender comes again
	p.awaitDone(2)
	attempts := map[string]int{}
	for _, c := range p.callbacks("") {
		attempts[c.Key[0]] = c.Attempt
		if n := keys(sink)[c.ID]; n != c.Attempt {
			t.Errorf("%v was delivered %d times under its key, want %d", c.Key, n, c.Attempt)
		}
	}
	if attempts["1"] != 2 || attempts["2"] != 1 {
		t.Errorf("attempts %v, want 2 of the one in hand and 1 of the other", attempts)
	}
}

func TestI08_WhatWasAcknowledgedSurvivesKillsUnderLoad(t *testing.T) {
	t.Parallel()
	dir, sink := t.TempDir(), testserver.NewHTTPSink(t)
	write(t, dir, "once.yaml", handedTo(sink.URL()))
	const kills, senders = 5, 8
	var acknowledged sync.Map
	var total, sent atomic.Int64
	for range kills {
		p := serve(t, dir, "--config", "once.yaml")
		var wg sync.WaitGroup
		before := total.Load()
		stop := make(chan struct{})
		for range senders {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					id := strconv.FormatInt(sent.Add(1), 10)
					if p.post("pay", payment(id, "account"+id)) == http.StatusOK {
						acknowledged.Store(id, true)
						total.Add(1)
					}
				}
			})
		}
		testserver.Until(t, patience, "there is load", func() bool {
			return total.Load() >= before+60
		})
		p.kill()
		close(stop)
		wg.Wait()
	}
	p := serve(t, dir, "--config", "once.yaml")
	testserver.Until(t, patience, "all is done", func() bool {
		return len(p.callbacks("state=pending")) == 0 && len(p.callbacks("state=running")) == 0
	})
	known := map[string]callback{}
	for _, c := range p.callbacks("") {
		known[c.Key[0]] = c
	}
	delivered := keys(sink)
	acknowledged.Range(func(id, _ any) bool {
		c, ok := known[id.(string)]
		if !ok || c.State != "done" || delivered[c.ID] == 0 {
			t.Errorf("%v was acknowledged: known %v, %s, delivered %d times", id, ok, c.State,
				delivered[c.ID])
		}
		return true
	})
	if len(delivered) != len(known) {
		t.Errorf("%d ids were delivered, %d are known", len(delivered), len(known))
	}
}

func TestASecondServerOnOneStoreIsRefusedAndToldWhoHasIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := serve(t, dir)
	second := start(t, program(t, "./cmd/once"), dir, "serve", "--listen", "127.0.0.1:0",
		"--admin", "127.0.0.1:0")
	if status := second.status(); status != 1 {
		t.Errorf("status %d, want 1", status)
	}
	want := fmt.Sprintf("another process has this store: process %d on ", p.cmd.Process.Pid)
	if !strings.Contains(second.err.String(), want) || second.out.String() != "" {
		t.Errorf("it says %q and %q, want %q", second.out, second.err, want)
	}
	p.signal(syscall.SIGINT)
	if status := p.status(); status != 0 {
		t.Errorf("the first ended with %d", status)
	}
	serve(t, dir) // the lock went with the process
}

func TestAnAddressThatIsTakenIsTold(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := start(t, program(t, "./cmd/once"), t.TempDir(), "serve", "--listen", l.Addr().String(),
		"--admin", "127.0.0.1:0")
	if status := p.status(); status != 1 ||
		!strings.Contains(p.err.String(), "name another address") {
		t.Errorf("status %d: %s", status, p.err)
	}
}

func TestAWrongFileEndsTheStartWith2(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "once.yaml", "sources:\n  rcs: {kye: [\"body.id\"]}\n")
	p := start(t, program(t, "./cmd/once"), dir, "serve", "--config", "once.yaml")
	if status := p.status(); status != 2 || !strings.Contains(p.err.String(), "once.yaml:2:9: ") ||
		!strings.Contains(p.err.String(), "^") {
		t.Errorf("status %d: %s", status, p.err)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*.db*")); err != nil || len(files) > 0 {
		t.Errorf("it made %v, %v", files, err)
	}
}

func TestABackupOfARunningServerHoldsAllThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	dir, sink := t.TempDir(), testserver.NewHTTPSink(t)
	sink.Otherwise(testserver.Answer{Status: 503}) // so that something is pending in the copy
	write(t, dir, "once.yaml", handedTo(sink.URL()))
	p := serve(t, dir, "--config", "once.yaml")
	const before = 40
	for i := range before {
		id := strconv.Itoa(i)
		p.mustPost("pay", payment(id, id))
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // meanwhile it goes on
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				id := "later" + strconv.Itoa(i)
				p.post("pay", payment(id, id))
			}
		}
	})
	copied := filepath.Join(t.TempDir(), "copy.db")
	b := start(t, program(t, "./cmd/once"), dir, "backup", copied, "--config", "once.yaml")
	if status := b.status(); status != 0 ||
		!strings.Contains(b.out.String(), "copied once.db to "+copied) {
		t.Errorf("backup: status %d: %s%s", status, b.out, b.err)
	}
	close(stop)
	wg.Wait()
	p.kill()
	if again := start(t, program(t, "./cmd/once"), dir, "backup", copied, "--config",
		"once.yaml"); again.status() != 1 {
		t.Errorf("a backup over a file: status %d", again.status())
	}

	sink.Otherwise(testserver.Answer{})
	p = serve(t, dir, "--config", "once.yaml", "--store", "sqlite:"+copied)
	testserver.Until(t, patience, "the copy is worked", func() bool {
		return len(p.callbacks("state=pending")) == 0 && len(p.callbacks("state=running")) == 0
	})
	done := map[string]bool{}
	for _, c := range p.callbacks("state=done") {
		done[c.Key[0]] = true
	}
	for i := range before {
		if !done[strconv.Itoa(i)] {
			t.Errorf("payment %d was acknowledged before the backup and is not in it", i)
		}
	}
}

func TestD17_AStoreThatCantBeWrittenIsUnavailableAndRecoversByItself(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := serve(t, dir)
	const started = `{"reqCode":"R1","taskCode":"T","callbackMethod":"startFE"}`
	p.mustPost("rcs", started)
	// No file of the process can grow: to the store the same as a full disk.
	var old unix.Rlimit
	none := unix.Rlimit{Cur: 1, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_FSIZE, nil, &old); err != nil {
		t.Fatal(err)
	}
	none.Max = old.Max
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_FSIZE, &none, nil); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		body := fmt.Sprintf(`{"reqCode":"F%d","taskCode":"T","callbackMethod":"finishFE"}`, i)
		if status := p.post("rcs", body); status != http.StatusServiceUnavailable {
			t.Errorf("a callback was answered %d, want 503", status)
		}
	}
	if status := p.post("rcs", started); status != http.StatusOK && // it is durable already
		status != http.StatusServiceUnavailable {
		t.Errorf("a duplicate was answered %d", status)
	}
	if status := p.get("/healthz", nil); status != 200 {
		t.Errorf("healthz: %d, want 200", status)
	}
	if status := p.get("/readyz", nil); status != http.StatusServiceUnavailable {
		t.Errorf("readyz: %d, want 503", status)
	}
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_FSIZE, &old, nil); err != nil {
		t.Fatal(err)
	}
	testserver.Until(t, patience, "it is ready again", func() bool {
		return p.get("/readyz", nil) == 200
	})
	p.mustPost("rcs", `{"reqCode":"F1","taskCode":"T","callbackMethod":"finishFE"}`)
	testserver.Until(t, patience, "the task went on", func() bool {
		var task struct{ State string }
		p.get("/api/v1/tasks/transport/T", &task)
		return task.State == "unloaded"
	})
	if n := len(p.callbacks("")); n != 2 {
		t.Errorf("%d callbacks, want 2: nothing of what was refused", n)
	}
	p.signal(syscall.SIGTERM)
	if status := p.status(); status != 0 {
		t.Errorf("status %d, want 0", status)
	}
}

func TestTheExampleOfAHandlerBooksAPaymentOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, err := os.ReadFile(filepath.Join(root, "examples", "handler", "handler.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "handler.yaml", string(b))
	p := serveWith(t, program(t, "./examples/handler"), dir, "--config", "handler.yaml")
	for range 5 {
		p.mustPost("payments", `{"id":"evt-1","account":"A-7","cents":1250}`)
	}
	p.mustPost("payments", `{"id":"evt-2","account":"A-7","cents":750}`)
	p.mustPost("payments", `{"id":"evt-3","account":"A-7","cents":-1}`)
	testserver.Until(t, patience, "they are worked", func() bool {
		return len(p.callbacks("state=done")) == 2 && len(p.callbacks("state=dead")) == 1
	})
	p.signal(syscall.SIGTERM)
	if status := p.status(); status != 0 {
		t.Errorf("status %d", status)
	}
	cents, payments := balance(t, filepath.Join(dir, "handler.db"), "A-7")
	if cents != 2000 || payments != 2 {
		t.Errorf("%d cents in %d payments, want 2000 in 2", cents, payments)
	}
}
