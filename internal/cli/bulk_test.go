package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/oncekit/once/internal/testserver"
)

// dead serves a source whose service refuses everything, with n dead callbacks of a shop, and one
// of another source.
func dead(t *testing.T, n int) (*process, *testserver.HTTPSink) {
	t.Helper()
	dir, sink := t.TempDir(), testserver.NewHTTPSink(t)
	sink.Otherwise(testserver.Answer{Status: http.StatusBadRequest})
	write(t, dir, "once.yaml", `
sources:
  shop: {key: ["body.id"], event: "'paid'", to: {http: "`+sink.URL()+`", concurrency: 1}}
  other: {key: ["body.id"], to: {http: "`+sink.URL()+`"}}
`)
	p := serve(t, dir, "--config", "once.yaml")
	for i := range n {
		p.mustPost("shop", fmt.Sprintf(`{"id":%d}`, i))
	}
	p.mustPost("other", `{"id":1}`)
	p.awaitDead(n + 1)
	return p, sink
}

func (p *process) awaitDead(n int) {
	p.t.Helper()
	testserver.Until(p.t, patience, "they are dead", func() bool {
		return len(p.callbacks("state=dead")) == n
	})
}

// gate is what stands before a server's listener and looks at each change.
func (p *process) gate(change func(n int, r *http.Request) (refuse bool)) string {
	target, err := url.Parse(p.admin)
	if err != nil {
		p.t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	var mu sync.Mutex
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			mu.Lock()
			n++
			refuse := change(n, r)
			mu.Unlock()
			if refuse {
				panic(http.ErrAbortHandler) // no answer: the connection is cut
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	p.t.Cleanup(s.Close)
	return s.URL
}

const why = "--reason=the shop is back"

func TestManyAreRetriedEarliestFirst(t *testing.T) {
	t.Parallel()
	const n = 30
	p, sink := dead(t, n)
	before := len(sink.Requests())
	sink.Otherwise(testserver.Answer{})
	if out := p.told("callbacks", "retry", "--source", "shop", "--state", "dead", why,
		"--yes"); out != "30 retried, 0 changed meanwhile, 0 failed, 0 not tried\n" {
		t.Errorf("it says %q", out)
	}
	for i, r := range sink.Await(t, before+n, patience)[before:] {
		if want := fmt.Sprintf(`{"id":%d}`, i); string(r.Body) != want {
			t.Fatalf("%d was handed over as number %d", i, i)
		}
	}
	p.awaitDead(1) // that of the other source
	for _, c := range p.callbacks("source=shop") {
		var kept struct {
			Audit []struct{ Action, Reason string }
		}
		p.get("/api/v1/callbacks/"+c.ID, &kept)
		if fmt.Sprint(kept.Audit) != "[{retry the shop is back}]" {
			t.Fatalf("kept of %s: %v", c.ID, kept.Audit)
		}
	}
	status, out, errs := p.operate("callbacks", "retry", "--source", "shop", "--state", "dead", why,
		"--yes")
	if status != 0 || out != "" || errs != "no callback matches\n" {
		t.Errorf("once more: status %d, %q, %q", status, out, errs)
	}
}

func TestWithoutAPersonAndWithoutYesNothingIsChanged(t *testing.T) {
	t.Parallel()
	p, _ := dead(t, 3)
	status, out, errs := p.operate("callbacks", "discard", "--state", "dead", why)
	if status != 2 || out != "" || !strings.Contains(errs, "--yes goes on without asking") {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
	p.awaitDead(4)
}

func TestWhatOthersChangeMeanwhileIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	p, _ := dead(t, 5)
	list := p.callbacks("source=shop") // latest first
	gate := p.gate(func(n int, _ *http.Request) bool {
		if n == 1 { // after they were chosen, before the first is changed
			p.told("callbacks", "retry", list[0].ID, "--reason=somebody else")
			p.awaitDead(6)
			p.told("callbacks", "discard", list[2].ID, "--reason=somebody else")
		}
		return false
	})
	status, out, errs := run("callbacks", "discard", "--source=shop", "--state=dead", why, "--yes",
		"--server", gate)
	if want := "4 discarded, 1 changed meanwhile, 0 failed, 0 not tried\n"; status != 0 ||
		out != want || errs != "" {
		t.Errorf("status %d, %q, want %q, %q", status, out, want, errs)
	}
	var kept struct{ Audit []struct{ Reason string } }
	p.get("/api/v1/callbacks/"+list[2].ID, &kept)
	if fmt.Sprint(kept.Audit) != "[{somebody else}]" {
		t.Errorf("kept: %v", kept.Audit)
	}
}

func TestWhatIsRefusedThoughNobodyChangedItHasFailed(t *testing.T) {
	t.Parallel()
	p := serve(t, t.TempDir())
	p.mustPost("rcs", `{"reqCode":"1","taskCode":"T","callbackMethod":"new"}`)
	id := p.one("state=unrouted")
	status, out, errs := p.operate("callbacks", "retry", "--state=unrouted", why, "--yes", "-o",
		"json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var one struct{ ID, Result, Detail string }
	if err := json.Unmarshal([]byte(lines[0]), &one); err != nil || status != 1 ||
		len(lines) != 2 || one.ID != id || one.Result != "failed" || !strings.Contains(one.Detail, `event "new"`) {
		t.Errorf("status %d, %v:\n%s%s", status, err, out, errs)
	}
	if want := `{"summary":{"action":"retry","done":0,"changed":0,"failed":1,"not_tried":0}}`; lines[1] !=
		want {
		t.Errorf("the last line is %s, want %s", lines[1], want)
	}
	if !strings.HasPrefix(errs, id+": ") {
		t.Errorf("it tells %q", errs)
	}
}

func TestAServerThatIsAwayInBetweenIsWaitedFor(t *testing.T) {
	t.Parallel()
	p, _ := dead(t, 4)
	gate := p.gate(func(n int, _ *http.Request) bool { return n == 2 || n == 3 })
	status, out, errs := run("callbacks", "discard", "--source=shop", "--state=dead", why, "--yes",
		"--server", gate)
	want := "4 discarded, 0 changed meanwhile, 0 failed, 0 not tried\n"
	if status != 0 || out != want {
		t.Errorf("status %d, %q, want %q, %q", status, out, want, errs)
	}
}

func TestAnInterruptedChangeOfManySaysWhatWasDone(t *testing.T) {
	t.Parallel()
	p, _ := dead(t, 20)
	reached, goOn := make(chan struct{}), make(chan struct{})
	gate := p.gate(func(n int, _ *http.Request) bool {
		if n == 7 {
			close(reached)
			<-goOn
		}
		return false
	})
	c := start(t, program(t, "./cmd/once"), t.TempDir(), "callbacks", "discard", "--source=shop",
		"--state=dead", why, "--yes", "--server", gate)
	<-reached
	c.signal(syscall.SIGINT)
	testserver.Until(t, patience, "the signal is taken", func() bool {
		return c.err.String() == "stopping after the one in hand\n"
	})
	close(goOn)
	if status := c.status(); status != 130 {
		t.Errorf("status %d, want 130", status)
	}
	// The one in hand is ended.
	const want = "stopped: 7 discarded, 0 changed meanwhile, 0 failed, 13 not tried\n"
	if got := c.out.String(); got != want {
		t.Errorf("it says %q, want %q; %s", got, want, c.err)
	}
	if n := len(p.callbacks("state=discarded")); n != 7 {
		t.Errorf("%d are discarded, want 7", n)
	}
}

func TestAPersonIsAskedWithTheirNumber(t *testing.T) {
	t.Parallel()
	p, _ := dead(t, 12)
	for _, answer := range []string{"\n", "n\n"} {
		got, status := p.ask(answer, "callbacks", "discard", "--source=shop", "--state=dead", why)
		if status != 1 || !strings.Contains(got, "nothing was changed") {
			t.Errorf("%q: status %d, it says\n%s", answer, status, got)
		}
		p.awaitDead(13)
	}
	got, status := p.ask("y\n", "callbacks", "discard", "--source=shop", "--state=dead", why)
	if status != 0 || !strings.Contains(got, "12 discarded, 0 changed meanwhile") ||
		!strings.Contains(got, "discard 12 callbacks (source shop, state dead)? [y/N] ") {
		t.Errorf("status %d, it says\n%s", status, got)
	}
	p.awaitDead(1)
}

// many answers as a server with n dead callbacks of one source, of which a filter of events finds
// those in pages of 700, every second one empty.
func many(t *testing.T, n int) *process {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/api/v1/counts" {
			fmt.Fprintf(w, `{"callbacks":[{"source":"shop","state":"dead","n":%d},`+
				`{"source":"other","state":"dead","n":1},{"source":"shop","state":"done","n":5}]}`, n)
			return
		}
		from, _ := strconv.Atoi(r.URL.Query().Get("cursor")) // 0 on the first page
		page := struct {
			Items []map[string]string `json:"items"`
			Next  string              `json:"next"`
		}{}
		for i := from / 2 * 700; from%2 == 0 && i < min(n, (from/2+1)*700); i++ {
			page.Items = append(page.Items, map[string]string{"id": strconv.Itoa(i),
				"received_at": "2026-07-01T10:00:00Z"})
		}
		if (from+1)/2*700 < n {
			page.Next = strconv.Itoa(from + 1)
		}
		_ = json.NewEncoder(w).Encode(page) // a client that hung up gets nothing
	}))
	t.Cleanup(s.Close)
	return &process{t: t, admin: s.URL}
}

func TestVeryManyAreCountedAsFarAsThatIsCheap(t *testing.T) {
	t.Parallel()
	p := many(t, 20_000)
	for args, want := range map[string]string{
		"--state=dead --source=shop": "discard 20000 callbacks (source shop, state dead)? ",
		"--state=dead":               "discard 20001 callbacks (state dead)? ",
		"--state=dead --event=paid":  "discard at least 3500 callbacks (event paid, state dead)? ",
	} {
		got, status := p.ask("n\n", append(strings.Fields("callbacks discard "+args), why)...)
		if status != 1 || !strings.Contains(got, want) {
			t.Errorf("%s: status %d, it says\n%s\nwant %s", args, status, got, want)
		}
	}
}

func TestAQuestionCanBeInterrupted(t *testing.T) {
	t.Parallel()
	p, _ := dead(t, 1)
	got, status := p.ask("", "callbacks", "discard", "--source=shop", "--state=dead", why)
	if status != 130 || !strings.Contains(got, "discard 1 callback (source shop, state dead)?") {
		t.Errorf("status %d, it says\n%s", status, got)
	}
	p.awaitDead(2)
}

// ask runs a command on a terminal and types an answer to its question; none: it interrupts it.
func (p *process) ask(answer string, args ...string) (screen string, status int) {
	p.t.Helper()
	master, slave := terminal(p.t)
	c := startOn(p.t, slave, program(p.t, "./cmd/once"), append(args, "--server", p.admin)...)
	var b bytes.Buffer
	asked := make([]byte, 1)
	for !strings.Contains(b.String(), "[y/N]") {
		if n, err := master.Read(asked); err != nil || n == 0 {
			p.t.Fatalf("it asks nothing: %v\n%s", err, &b)
		}
		b.Write(asked)
	}
	_, err := io.WriteString(master, answer)
	if answer == "" {
		err = c.cmd.Process.Signal(syscall.SIGINT)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	status = c.wait()
	rest, _ := io.ReadAll(master) // a terminal that nobody has any more ends in an error
	return b.String() + string(rest), status
}
