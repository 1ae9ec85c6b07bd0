package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// residentKiB is the memory of this process that is no file's.
func residentKiB(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("the system doesn't tell RssAnon")
	return 0
}

// peak runs f and returns the most memory that was in use meanwhile beyond what was before.
func peak(t *testing.T, f func()) (kib int) {
	t.Helper()
	before := residentKiB(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return kib
		case <-tick.C:
			kib = max(kib, residentKiB(t)-before)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// It runs alone: what others use would be counted.
func TestGateway_AGigabyteEachWayTakesNoMemory(t *testing.T) {
	gib, mib := 1<<30, 1<<20
	if testing.Short() {
		gib, mib = 64<<20, 64<<10
	}
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Length", strconv.Itoa(gib))
			_, _ = io.CopyN(w, zeros{}, int64(gib))
			return
		}
		_, _ = fmt.Fprint(w, n)
	})
	s := serve(t, t.TempDir(), gatewayTo(o.URL, "  scope: none\n",
		"{match: POST /, max_body: 512MiB}"))
	do := func(method, key string, body io.Reader, size int64) func() {
		return func() {
			req, err := http.NewRequest(method, s.url+"/large", body)
			if err != nil {
				t.Error(err)
				return
			}
			req.ContentLength = size
			req.Header.Set("Idempotency-Key", key)
			res, err := s.client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			if method == http.MethodGet {
				if n, err := io.Copy(io.Discard, res.Body); n != int64(gib) || err != nil {
					t.Errorf("%d bytes came, %v", n, err)
				}
				return
			}
			if b, _ := io.ReadAll(res.Body); string(b) != strconv.FormatInt(size, 10) {
				t.Errorf("%d: %s of %d bytes arrived", res.StatusCode, b, size)
			}
		}
	}
	do(http.MethodPost, "", strings.NewReader("x"), 1)() // what the first request takes
	for name, f := range map[string]func(){
		"up":   do(http.MethodPost, "", io.LimitReader(zeros{}, int64(gib)), int64(gib)),
		"down": do(http.MethodGet, "", nil, 0),
		"guarded": do(http.MethodPost, "k", io.LimitReader(zeros{}, int64(256*mib)),
			int64(256*mib)),
	} {
		if kib := peak(t, f); kib > 32<<10 {
			t.Errorf("%s: %d KiB more memory were used, want at most 32 MiB", name, kib)
		}
	}
}

func TestGateway_R10_AStreamUnderAKeyArrivesAsItIsSentAndIsNotRunAgain(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		<-goOn
		_, _ = io.WriteString(w, "data: 2\n\n")
	})
	s := serve(t, t.TempDir(), gatewayTo(o.URL, byAccount,
		"{match: POST /, key: required, on_unknown: hold}"))
	req, _ := http.NewRequest("POST", s.url+"/events", strings.NewReader("{}"))
	req.Host = "api.example"
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", "k")
	req.Header.Set("X-Account", "a1")
	res, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	// It is here while the origin still waits to send the next one.
	if line, err := in.ReadString('\n'); err != nil || line != "data: 1\n" {
		t.Fatalf("%q, %v", line, err)
	}
	close(goOn)
	if rest, err := io.ReadAll(in); err != nil || string(rest) != "\ndata: 2\n\n" {
		t.Errorf("%q, %v", rest, err)
	}
	a := s.pay("/events", "k", "{}")
	if !strings.Contains(a.body, "urn:once:problem:not-kept") || a.status != 200 ||
		o.ran.Load() != 1 {
		t.Errorf("a repeat: %d %s; the origin ran %d times", a.status, a.body, o.ran.Load())
	}
}

// rawConn is a connection to the senders' listener.
func rawConn(t *testing.T, s *service) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c, bufio.NewReader(c)
}

func TestGateway_R11_AnUpgradeGoesThrough(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n" +
			"Connection: Upgrade\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		_, _ = rw.WriteString("echo " + line)
		_ = rw.Flush()
	})
	s := serve(t, t.TempDir(), "limits: {read_timeout: 200ms}\n"+
		gatewayTo(o.URL, byAccount, "{match: POST /}"))
	c, in := rawConn(t, s)
	_, _ = io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n"+
		"Connection: Upgrade\r\n\r\n")
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", res, err)
	}
	_, _ = io.WriteString(c, "hello\n")
	if line, err := in.ReadString('\n'); err != nil || line != "echo hello\n" {
		t.Errorf("%q, %v", line, err)
	}
}

func TestGateway_ASlowSenderIsGivenUpBeforeAnythingIsClaimed(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, numbered())
	s := serve(t, t.TempDir(), "limits: {read_timeout: 200ms}\n"+
		gatewayTo(o.URL, byAccount, "{match: POST /}"))
	c, in := rawConn(t, s)
	_, _ = io.WriteString(c, "POST /p HTTP/1.1\r\nHost: h\r\nX-Slow: ") // and no more
	if res, err := http.ReadResponse(in, nil); err == nil && res.StatusCode != 408 {
		t.Errorf("headers that stall: status %d", res.StatusCode)
	}
	c, in = rawConn(t, s)
	_, _ = io.WriteString(c, "POST /p HTTP/1.1\r\nHost: api.example\r\nIdempotency-Key: k\r\n"+
		"Content-Type: application/json\r\nX-Account: a1\r\nContent-Length: 2\r\n\r\n{")
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != http.StatusRequestTimeout {
		t.Errorf("a body that stalls: %v, %v, want 408", res, err)
	}
	if a := s.pay("/p", "k", "{}"); a.status != 201 || a.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
}

func TestGateway_Expect100IsAnsweredAlsoUnderAKey(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, numbered())
	s := serve(t, t.TempDir(), gatewayTo(o.URL, byAccount, "{match: POST /}"))
	c, in := rawConn(t, s)
	_, _ = io.WriteString(c, "POST /p HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\n"+
		"X-Account: a1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
	if line, err := in.ReadString('\n'); err != nil ||
		strings.TrimSpace(line) != "HTTP/1.1 100 Continue" {
		t.Fatalf("%q, %v", line, err)
	}
	_, _ = in.ReadString('\n')
	_, _ = io.WriteString(c, "{}")
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != 201 {
		t.Errorf("%v, %v", res, err)
	}
}
