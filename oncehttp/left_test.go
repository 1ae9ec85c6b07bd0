package oncehttp_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncehttp"
	"github.com/oncekit/once/oncemem"
)

// R05, R10, R14: the client leaves while an answer that is not kept is on its way through the
// proxy. The service has done the work: a repeat is told so, and must not run it again.
func TestR14AClientThatLeavesALargeOrStreamedAnswerMakesNothingRunAgain(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"large": func(w http.ResponseWriter, _ *http.Request) {
			piece := make([]byte, 64<<10)
			for range 200 {
				_, _ = w.Write(piece)
			}
		},
		"stream": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for range 500 {
				_, _ = io.WriteString(w, "data: "+strings.Repeat("x", 1000)+"\n\n")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
					return
				case <-time.After(time.Millisecond):
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var ran atomic.Int64
			origin := httptest.NewServer(http.HandlerFunc(
				func(w http.ResponseWriter, r *http.Request) {
					ran.Add(1)
					answer(w, r)
				}))
			defer origin.Close()
			front := guardedProxy(t, origin.URL)
			leave(t, front.Listener.Addr().String())
			var status int
			var body string
			until(t, "the first one is settled", func() bool {
				status, body = repeatOnce(t, front.URL)
				return !strings.Contains(body, "in-flight")
			})
			if ran.Load() != 1 || status != http.StatusOK || !strings.Contains(body, "not-kept") {
				t.Errorf("it ran %d times; the repeat got %d %.200s", ran.Load(), status, body)
			}
		})
	}
}

func guardedProxy(t *testing.T, origin string) *httptest.Server {
	t.Helper()
	u, err := url.Parse(origin)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := oncehttp.NewProxy(oncehttp.ProxyConfig{Upstream: u})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	store, err := oncemem.New(oncemem.Config{SingleInstance: true})
	if err != nil {
		t.Fatal(err)
	}
	guard, err := oncehttp.Middleware(oncehttp.Config{
		Store: store, Scope: oncehttp.NoScope, Guard: once.Config{OnUnknown: once.Retry},
	})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(guard(proxy))
	t.Cleanup(front.Close)
	return front
}

// leave sends a request, reads the beginning of its answer, and resets the connection.
func leave(t *testing.T, addr string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(c, "POST /orders HTTP/1.1\r\nHost: a.test\r\nIdempotency-Key: K\r\n"+
		"Content-Length: 2\r\n\r\n{}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

func repeatOnce(t *testing.T, target string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, target+"/orders", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "K")
	r.Host = "a.test"
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(a.Body, 4096))
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(body)
}
