package oncehttp_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekit/once/oncehttp"
)

// quick are pauses for tests on a real network.
var quick = oncehttp.TransportConfig{FirstPause: time.Millisecond, MaxPause: 5 * time.Millisecond}

func TestAConnectionCutAfterTheCommitIsTriedAgainUnderTheSameKey(t *testing.T) {
	var mu sync.Mutex
	done := map[string]int{}
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		defer mu.Unlock()
		requests++
		key := r.Header.Get("Idempotency-Key")
		if done[key]++; done[key] == 1 {
			panic(http.ErrAbortHandler) // the work is done and the answer is lost
		}
		w.Header().Set("Idempotent-Replayed", "true")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "order 7")
	}))
	defer server.Close()
	client := &http.Client{Transport: transport(t, quick)}
	for range 2 { // the second one on a connection that may be kept
		resp, err := client.Post(server.URL, "application/json", strings.NewReader(`{"a":1}`))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || string(b) != "order 7" || resp.StatusCode != 201 ||
			resp.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%d %q, header %v, error %v", resp.StatusCode, b, resp.Header, err)
		}
	}
	if len(done) != 2 || requests != 4 {
		t.Errorf("%d keys and %d requests, want 2 and 4", len(done), requests)
	}
}

// TestGoDoesNotSendAgainByItself is about a server that takes the second request on a kept-alive
// connection and closes without an answer. http.Transport would send it once more, uncounted.
func TestGoDoesNotSendAgainByItself(t *testing.T) {
	const created = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"
	for _, body := range []string{"", "x"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		seen := 0
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					in := bufio.NewReader(c)
					for n := 1; ; n++ {
						req, err := http.ReadRequest(in)
						if err != nil {
							return
						}
						_, _ = io.Copy(io.Discard, req.Body)
						mu.Lock()
						seen++
						mu.Unlock()
						if n == 2 {
							return
						}
						_, _ = io.WriteString(c, created)
					}
				}()
			}
		}()
		cfg := quick
		cfg.MaxTries = 1
		base := &http.Transport{}
		cfg.Base = base
		client := &http.Client{Transport: transport(t, cfg)}
		url := "http://" + l.Addr().String()
		send := func() error {
			resp, err := client.Post(url, "text/plain", strings.NewReader(body))
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			return err
		}
		if err := send(); err != nil {
			t.Fatal(err)
		}
		err = send()
		mu.Lock()
		if err == nil || seen != 2 {
			t.Errorf("body %q: the server saw %d requests, want 2; error %v", body, seen, err)
		}
		mu.Unlock()
		base.CloseIdleConnections()
		_ = l.Close()
	}
}

func TestAnAttemptInFlightIsWaitedForOverTheNetwork(t *testing.T) {
	tries := 0
	conns := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tries++ // one at a time: the client waits for each
		conns[r.RemoteAddr] = true
		if tries < 3 {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"type":"urn:once:problem:in-flight"}`)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()
	resp, err := (&http.Client{Transport: transport(t, quick)}).Post(server.URL, "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 201 || tries != 3 || len(conns) != 1 {
		t.Errorf("%d after %d tries on %d connections; want 201 after 3 on 1: answers are read to "+
			"their end", resp.StatusCode, tries, len(conns))
	}
}

func TestTheBodyOfAConflictThatIsReturnedIsWhole(t *testing.T) {
	const body = `{"type":"urn:once:problem:held","detail":"a person has to decide"}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json; charset=utf-8")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, body+strings.Repeat(" ", 40_000))
	}))
	defer server.Close()
	resp, err := (&http.Client{Transport: transport(t, quick)}).Post(server.URL, "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || len(b) != len(body)+40_000 || !strings.HasPrefix(string(b), body) {
		t.Errorf("%d bytes, error %v", len(b), err)
	}
}
