package oncehttp_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncehttp"
	"github.com/oncekit/once/oncemem"
)

// badNetwork hands connections on to a server and cuts some of them: before a piece of a request is
// handed on, or before a piece of an answer is.
type badNetwork struct {
	to string

	mu   sync.Mutex
	rng  *rand.Rand
	cuts int
}

func (n *badNetwork) cut(chance float64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	yes := n.rng.Float64() < chance
	if yes {
		n.cuts++
	}
	return yes
}

// listen accepts connections until the test ends, and returns where.
func (n *badNetwork) listen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			group.Go(func() { n.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		group.Wait()
	})
	return l.Addr().String()
}

func (n *badNetwork) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", n.to)
	if err != nil {
		return
	}
	defer server.Close()
	var group sync.WaitGroup
	group.Go(func() { n.copy(server, client, 0.1) })
	group.Go(func() { n.copy(client, server, 0.3) })
	group.Wait()
}

// copy hands pieces on until one is cut, and then ends both connections.
func (n *badNetwork) copy(to, from net.Conn, chance float64) {
	defer to.Close()
	defer from.Close()
	piece := make([]byte, 256)
	for {
		size, err := from.Read(piece)
		if err != nil || n.cut(chance) {
			return
		}
		if _, err := to.Write(piece[:size]); err != nil {
			return
		}
	}
}

func TestOverABadNetworkTheClientAndTheMiddlewareWorkEachRequestOnce(t *testing.T) {
	const clients, each = 8, 25
	var mu sync.Mutex
	runs := map[string]int{}
	guard, err := oncehttp.Middleware(oncehttp.Config{
		Store: memory(t), Scope: oncehttp.NoScope, Key: oncehttp.KeyRequired,
		Guard: once.Config{Wait: 5 * time.Second}, // no pause of a second for an attempt in flight
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(guard(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			mu.Lock()
			runs[string(b)]++
			mu.Unlock()
			w.WriteHeader(http.StatusCreated)
			_, _ = fmt.Fprintf(w, "did %s", b)
		})))
	defer server.Close()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	network := &badNetwork{to: server.Listener.Addr().String(), rng: rand.New(rand.NewPCG(seed, 0))}
	base := &http.Transport{}
	tr := transport(t, oncehttp.TransportConfig{
		Base: base, MaxTries: 40, FirstPause: time.Millisecond, MaxPause: 4 * time.Millisecond,
	})
	url := "http://" + network.listen(t) + "/orders"
	defer base.CloseIdleConnections()

	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			for n := range each {
				order := fmt.Sprintf("order %d-%d", client, n)
				if err := sendWhole(tr, url, order); err != nil {
					t.Errorf("%s: %v", order, err)
				}
			}
		})
	}
	group.Wait()
	if len(runs) != clients*each || network.cuts < clients*each/10 {
		t.Errorf("%d orders ran, want %d; %d cuts", len(runs), clients*each, network.cuts)
	}
	for order, n := range runs {
		if n != 1 {
			t.Errorf("%s ran %d times", order, n)
		}
	}
}

// sendWhole sends an order until it has read a whole answer: one whose body broke off is the
// caller's to ask for again, under the same key.
func sendWhole(tr *oncehttp.Transport, url, order string) error {
	const most = 40
	var broken error
	for range most {
		req, err := http.NewRequest("POST", url, strings.NewReader(order))
		if err != nil {
			return err
		}
		req = req.WithContext(oncehttp.WithKey(req.Context(), "key of "+order))
		resp, err := tr.RoundTrip(req)
		if err != nil {
			return err
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		switch {
		case err != nil:
			broken = err
		case resp.StatusCode != http.StatusCreated || string(b) != "did "+order:
			return fmt.Errorf("got %d %q", resp.StatusCode, b)
		default:
			return nil
		}
	}
	return errors.Join(errors.New("no whole answer"), broken)
}

func memory(t *testing.T) *oncemem.Store {
	t.Helper()
	store, err := oncemem.New(oncemem.Config{SingleInstance: true})
	if err != nil {
		t.Fatal(err)
	}
	return store
}
