package oncehttp_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once/oncehttp"
)

func randomText(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.N(256))
	}
	return string(b)
}

// readerOnly hides a body's length, so that it is sent in chunks.
type readerOnly struct{ io.Reader }

// describe answers with what a handler sees of a body.
func describe(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	again, end := r.Body.Read(make([]byte, 1))
	_, _ = fmt.Fprintf(w, "%x %d %v %d %v %v %v", sha256.Sum256(b), r.ContentLength,
		r.TransferEncoding, again, end, err, r.Trailer)
}

func description(body string, length int, encoding, trailer string) string {
	sum := sha256.Sum256([]byte(body))
	return fmt.Sprintf("%x %d %s 0 EOF <nil> %s", sum, length, encoding, trailer)
}

func TestF09TheHandlerGetsTheBodyAsItWasSent(t *testing.T) {
	sizes := []int{0, 1, 511, 512, 4095, 4096, 4097, 65536, 99_999, 100_000, 100_001, 1 << 20}
	for _, size := range sizes {
		for _, server := range servers {
			a := server(t, describe, func(c *oncehttp.Config) { c.SpoolFrom = 100_000 })
			body := randomText(size)
			encoding := "[chunked]"
			if strings.HasPrefix(a.url, "https") { // HTTP/2 has no such thing
				encoding = "[]"
			}
			known := a.post("K", body)
			if want := description(body, size, "[]", "map[]"); known.body != want {
				t.Errorf("%d bytes:\n%s, want\n%s", size, known.body, want)
			}
			chunked := a.do("POST", "/orders", "L", readerOnly{strings.NewReader(body)})
			if want := description(body, -1, encoding, "map[]"); chunked.body != want {
				t.Errorf("%d bytes in chunks:\n%s, want\n%s", size, chunked.body, want)
			}
			// It is the same request, however it was sent.
			wantReplay(t, known, a.do("POST", "/orders", "K", readerOnly{strings.NewReader(body)}))
			a.wantRan(2)
		}
	}
}

func TestF09TrailersReachTheHandler(t *testing.T) {
	for _, authorize := range []bool{false, true} {
		for _, announced := range []string{"", "Trailer: Checksum\r\n"} {
			a := newAPI(t, describe, func(c *oncehttp.Config) {
				if authorize {
					c.Authorize = copyRequest
				}
			})
			conn := a.dial()
			_, _ = io.WriteString(conn, "POST /orders HTTP/1.1\r\nHost: a\r\n"+
				"Idempotency-Key: K\r\nTransfer-Encoding: chunked\r\n"+announced+
				"\r\n5\r\nhello\r\n0\r\nChecksum: 17\r\n\r\n")
			g := readAnswer(conn)
			if want := description("hello", -1, "[chunked]", "map[Checksum:[17]]"); g.body != want {
				t.Errorf("authorize %v, %q:\n%s, want\n%s", authorize, announced, g.body, want)
			}
		}
	}
}

func copyRequest(_ http.ResponseWriter, r *http.Request) (*http.Request, bool) {
	return r.WithContext(r.Context()), true
}

func (a *api) dial() net.Conn {
	a.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(a.url, "http://"))
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

func readAnswer(conn net.Conn) got {
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return got{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return got{resp.StatusCode, resp.Header, resp.Trailer, string(body), err}
}

func TestF09FormsAreParsedByTheHandler(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(10); err != nil && !errors.Is(err, http.ErrNotMultipart) {
			t.Error(err)
		}
		_, _ = io.WriteString(w, r.PostFormValue("a"))
		if r.MultipartForm != nil {
			names, _ := filepath.Glob(dir + "/*")
			size := r.MultipartForm.File["f"][0].Size
			_, _ = fmt.Fprintf(w, " and %d bytes in %d file", size, len(names))
		}
	})
	g := a.post("K", url.Values{"a": {"x y"}}.Encode(), "Content-Type", asForm)
	if g.body != "x y" {
		t.Errorf("form: %q", g.body)
	}
	media, body := multipartBody(t, "b", part{`Content-Disposition: form-data; name="a"`, "field"},
		part{`Content-Disposition: form-data; name="f"; filename="x"`, randomText(11 << 20)})
	g = a.post("L", body, "Content-Type", media)
	if g.body != "field and 11534336 bytes in 1 file" {
		t.Errorf("multipart: %q", g.body)
	}
	wantEmpty(t, dir)
}

// wantEmpty fails if files are left in a folder.
func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	var names []string
	for end := time.Now().Add(time.Second); ; { // the answer may arrive before the last defer runs
		names, _ = filepath.Glob(dir + "/*")
		if len(names) == 0 || time.Now().After(end) {
			break
		}
	}
	if len(names) > 0 {
		t.Errorf("files are left: %v", names)
	}
}

func TestASpooledBodyHasNoNameAndIsGoneAfterwards(t *testing.T) {
	dir := t.TempDir()
	body := `"` + strings.Repeat("spooled ", 20_000) + `"`
	deleted := func() (n int) {
		links, _ := filepath.Glob("/proc/self/fd/*")
		for _, l := range links {
			if to, _ := os.Readlink(l); strings.HasPrefix(to, dir) {
				n++
			}
		}
		return n
	}
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if names, _ := filepath.Glob(dir + "/*"); len(names) > 0 {
			t.Errorf("it has the name %v", names)
		}
		if deleted() != 1 {
			t.Error("it is in no file")
		}
		b, _ := io.ReadAll(r.Body)
		if string(b) != body {
			t.Error("it is another one")
		}
	}, func(c *oncehttp.Config) { c.SpoolFrom, c.SpoolDir = 1000, dir })
	first := a.post("K", body)
	wantReplay(t, first, a.post("K", body))
	other := strings.Replace(body, "led s", "led S", 1)
	wantProblem(t, a.post("K", other), 422, oncehttp.ProblemMismatch)
	until(t, "the files are closed", func() bool { return deleted() == 0 })
	wantEmpty(t, dir)
	a.wantRan(1)
}

func TestABodyThatCanNotBeSpooledIsNotWorked(t *testing.T) {
	a := orders(t, func(c *oncehttp.Config) {
		c.SpoolFrom, c.SpoolDir = 10, filepath.Join(t.TempDir(), "missing")
	})
	g := a.post("K", strings.Repeat("x", 200_000))
	wantProblem(t, g, http.StatusServiceUnavailable, oncehttp.ProblemNotProcessed)
	if g.header.Get("Retry-After") != "1" || strings.Contains(g.body, "missing") {
		t.Errorf("Retry-After %q, %s", g.header.Get("Retry-After"), g.body)
	}
	a.wantRan(0)
}

func TestF09TooLargeABodyIsRefusedBeforeAnyClaim(t *testing.T) {
	const limit = 1000
	for _, spoolFrom := range []int64{100, limit, 1 << 20} {
		for _, server := range servers {
			a := server(t, describe, func(c *oncehttp.Config) {
				c.MaxBody, c.SpoolFrom = limit, spoolFrom
			})
			for _, size := range []int{limit + 1, 5 * limit, 300_000} {
				body := strings.Repeat("x", size)
				for _, g := range []got{
					a.post("K", body),
					a.do("POST", "/orders", "K", readerOnly{strings.NewReader(body)}),
				} {
					if g.err != nil && size > 100_000 {
						continue // still sending when the server closed the connection
					}
					wantProblem(t, g, 413, oncehttp.ProblemBodyTooLarge)
					if !strings.Contains(g.body, `"limit":1000`) {
						t.Errorf("the limit isn't named: %s", g.body)
					}
				}
			}
			if len(a.store.claims()) != 0 {
				t.Errorf("the store was asked %d times", len(a.store.claims()))
			}
			a.wantRan(0)
			fits := strings.Repeat("x", limit)
			wantReplay(t, a.post("K", fits),
				a.do("POST", "/orders", "K", readerOnly{strings.NewReader(fits)}))
		}
	}
}

func TestAnEndlessBodyIsRefusedWithoutItsEnd(t *testing.T) {
	a := newAPI(t, describe, func(c *oncehttp.Config) { c.MaxBody = 1000 })
	conn := a.dial()
	_, _ = io.WriteString(conn, "POST /orders HTTP/1.1\r\nHost: a\r\nIdempotency-Key: K\r\n"+
		"Transfer-Encoding: chunked\r\n\r\n")
	_, _ = fmt.Fprintf(conn, "%x\r\n%s\r\n", 1001, strings.Repeat("x", 1001)) // and nothing more
	g := readAnswer(conn)
	wantProblem(t, g, 413, oncehttp.ProblemBodyTooLarge)
	a.wantRan(0)
}

func TestALargeBodyIsRefusedBeforeItIsSent(t *testing.T) {
	a := newAPI(t, describe, func(c *oncehttp.Config) { c.MaxBody = 1000 })
	conn := a.dial()
	_, _ = io.WriteString(conn, "POST /orders HTTP/1.1\r\nHost: a\r\nIdempotency-Key: K\r\n"+
		"Content-Length: 1001\r\nExpect: 100-continue\r\n\r\n")
	wantProblem(t, readAnswer(conn), 413, oncehttp.ProblemBodyTooLarge) // no 100 before
	small := a.dial()
	_, _ = io.WriteString(small, "POST /orders HTTP/1.1\r\nHost: a\r\nIdempotency-Key: K\r\n"+
		"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
	if line, err := bufio.NewReader(small).ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
		t.Errorf("%q, %v", line, err)
	}
	a.wantRan(0)
}

func TestABodyThatEndsEarlyIsNeverClaimed(t *testing.T) {
	a := newAPI(t, describe)
	conn := a.dial()
	_, _ = io.WriteString(conn, "POST /orders HTTP/1.1\r\nHost: a\r\nIdempotency-Key: K\r\n"+
		"Content-Length: 100\r\n\r\nhalf of")
	_ = conn.(*net.TCPConn).CloseWrite()
	wantProblem(t, readAnswer(conn), http.StatusBadRequest, oncehttp.ProblemBodyBroken)
	if len(a.store.claims()) != 0 {
		t.Error("it is claimed")
	}
	a.wantRan(0)
}

func TestASlowBodyIsGivenUp(t *testing.T) {
	a := newAPI(t, describe, func(c *oncehttp.Config) { c.BodyTimeout = 50 * time.Millisecond })
	conn := a.dial()
	_, _ = io.WriteString(conn, "POST /orders HTTP/1.1\r\nHost: a\r\nIdempotency-Key: K\r\n"+
		"Content-Length: 100\r\n\r\nhalf of")
	wantProblem(t, readAnswer(conn), http.StatusRequestTimeout, oncehttp.ProblemBodyTimeout)
	// One that comes whole isn't hurt by the deadline later.
	b := newAPI(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
			t.Errorf("the work was ended: %v", r.Context().Err())
		case <-time.After(1200 * time.Millisecond):
		}
	}, func(c *oncehttp.Config) {
		c.BodyTimeout, c.EndWithClient = time.Second, true
	})
	wantReplay(t, b.post("K", `{}`), b.post("K", `{}`))
	a.wantRan(0)
	b.wantRan(1)
}

func TestABodyReadAfterTheHandlersReturnIsAnError(t *testing.T) {
	for name, from := range map[string]int64{"in memory": 1 << 20, "spooled": 10} {
		t.Run(name, func(t *testing.T) {
			var a *api
			left := make(chan io.ReadCloser, 1)
			a = newAPI(t, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.ReadFull(r.Body, make([]byte, 3))
				if a.ran.Load() == 1 {
					left <- r.Body
				}
			}, func(c *oncehttp.Config) { c.SpoolFrom = from })
			first := strings.Repeat("first ", 30_000)
			a.post("K", first)
			body := receive(t, "the body", left)
			until(t, "the body is closed", func() bool {
				_, err := body.Read(nil)
				return err != nil
			})
			for i := range 20 { // others use the same memory now
				a.post(fmt.Sprint(i), strings.Repeat("other ", 30_000))
				p := bytes.Repeat([]byte("."), 100)
				if n, err := body.Read(p); n != 0 || !errors.Is(err, http.ErrBodyReadAfterClose) ||
					slices.ContainsFunc(p, func(c byte) bool { return c != '.' }) {
					t.Fatalf("read %d %q, %v", n, p, err)
				}
			}
		})
	}
}

func TestARefusedBodyLeavesAConnectionOfHTTP2Open(t *testing.T) {
	a := newAPI2(t, describe, func(c *oncehttp.Config) { c.MaxBody = 10 })
	reused := false
	trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }}
	send := func(body string) got {
		req := a.request("POST", "/orders", strings.NewReader(body), "Idempotency-Key", "K")
		return a.send(req.WithContext(httptrace.WithClientTrace(t.Context(), trace)))
	}
	for range 3 {
		wantProblem(t, send("more than ten bytes"), 413, oncehttp.ProblemBodyTooLarge)
	}
	if !reused {
		t.Error("the connection was given up")
	}
}
