package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/internal/gateway"
	"github.com/oncekit/once/oncemem"
)

// wires stand between a client that writes what it likes and an origin that reads what comes.
type wires struct {
	t      *testing.T
	url    string
	origin net.Listener
	got    chan string // the head of each request, as it came
}

func newWires(t *testing.T) *wires {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	w := &wires{t: t, origin: l, got: make(chan string, 10)}
	go w.serve()
	cfg, err := config.Parse(filepath.Join(t.TempDir(), "once.yaml"), []byte("gateway:\n"+
		"  upstream: http://"+l.Addr().String()+"\n  scope: none\n  routes: [{match: POST /}]\n"),
		config.Env{})
	if err != nil {
		t.Fatal(err)
	}
	store, err := oncemem.New(oncemem.Config{SingleInstance: true})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Config{Gateway: cfg.Gateway, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	front := httptest.NewServer(g)
	t.Cleanup(front.Close)
	w.url = strings.TrimPrefix(front.URL, "http://")
	return w
}

func (w *wires) serve() {
	for {
		c, err := w.origin.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			in, head := bufio.NewReader(c), ""
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if head += line; line != "\r\n" {
					continue
				}
				w.got <- head
				head = ""
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}
		}()
	}
}

// send writes the head of a request without a body and returns the status of the answer.
func (w *wires) send(first string, headers ...string) int {
	w.t.Helper()
	c, err := net.Dial("tcp", w.url)
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n%s\r\n", first,
		strings.Join(append(headers, ""), "\r\n"))
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

func TestATargetThatNamesNoPathIsRefused(t *testing.T) {
	t.Parallel()
	w := newWires(t)
	for _, target := range []string{"x:payments", "x:%2Fpayments", "*"} {
		if status := w.send("POST "+target, "Idempotency-Key: k"); status != 400 {
			t.Errorf("%s: status %d, want 400", target, status)
		}
	}
	select {
	case head := <-w.got:
		t.Errorf("the origin got %q", head)
	default:
	}
	if status := w.send("POST http://elsewhere/p"); status != 200 {
		t.Errorf("absolute form: status %d, want 200", status)
	}
	if head := <-w.got; !strings.HasPrefix(head, "POST /p HTTP/1.1\r\nHost: elsewhere\r\n") {
		t.Errorf("absolute form: the origin got %q", head)
	}
}

func TestAClientNeitherTakesTheFenceAwayNorWritesOne(t *testing.T) {
	t.Parallel()
	w := newWires(t)
	if status := w.send("POST /p", "Idempotency-Key: k", "Idempotency-Fence: 999",
		"Idempotency_Fence: 999", "X_Forwarded_For: 192.0.2.1", "X-Hop: 1",
		"Connection: idempotency-fence, Idempotency-Attempt, X-Hop"); status != 200 {
		t.Fatalf("status %d", status)
	}
	head := <-w.got
	for _, want := range []string{"\r\nIdempotency-Fence: ", "\r\nIdempotency-Attempt: 1\r\n"} {
		if !strings.Contains(head, want) {
			t.Errorf("%q is missing in %q", want, head)
		}
	}
	for _, unwanted := range []string{"999", "192.0.2.1", "X-Hop"} {
		if strings.Contains(head, unwanted) {
			t.Errorf("%q came through: %q", unwanted, head)
		}
	}
}

func TestTheServiceThatIsAskedForCallersGetsNoLookalikes(t *testing.T) {
	t.Parallel()
	asked := make(chan http.Header, 1)
	auth := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- r.Header
	}))
	t.Cleanup(auth.Close)
	s := newSet(t, t.TempDir(), "  auth: {url: "+auth.URL+"}\n  scope: none\n", "{match: POST /}")
	if status, body, _ := s.post("k", "X_Forwarded_Uri", "/free", "X_Team", "a"); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	h := <-asked
	if h["X_forwarded_uri"] != nil || h.Get("X_team") != "a" {
		t.Errorf("the service that is asked got %v", h)
	}
}
