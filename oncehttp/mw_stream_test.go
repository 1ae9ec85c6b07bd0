package oncehttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncehttp"
)

var servers = map[string]func(*testing.T, http.HandlerFunc, ...func(*oncehttp.Config)) *api{
	"HTTP/1.1": newAPI, "HTTP/2": newAPI2,
}

// open sends a request and returns the answer with its body unread.
func (a *api) open(key string) *http.Response {
	a.t.Helper()
	req := a.request("POST", "/orders", strings.NewReader(`{}`), "Idempotency-Key", key)
	resp, err := a.client.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func TestR10AStreamArrivesAsItIsSentAndIsNotKept(t *testing.T) {
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			next := make(chan struct{})
			a := server(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
				for i := range 3 {
					_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
					if err := http.NewResponseController(w).Flush(); err != nil {
						t.Error(err)
					}
					<-next // the client has it
				}
			})
			resp := a.open("K")
			r := bufio.NewReader(resp.Body)
			for i := range 3 {
				line, err := r.ReadString('\n')
				if line != fmt.Sprintf("data: %d\n", i) || err != nil {
					t.Fatalf("%q, %v", line, err)
				}
				_, _ = r.ReadString('\n')
				next <- struct{}{}
			}
			_, _ = io.Copy(io.Discard, r)
			again := a.post("K", `{}`)
			wantProblem(t, again, http.StatusOK, oncehttp.ProblemNotKept)
			if !again.replayed() || a.store.record(t).Outcome.Kind != once.Tombstone {
				t.Errorf("kind %d, %v", a.store.record(t).Outcome.Kind, again.header)
			}
			if d := string(a.store.record(t).Outcome.Data); strings.Contains(d, "data:") {
				t.Error("the stream is in the store")
			}
			a.wantRan(1)
		})
	}
}

func TestR10AnEndlessAnswerTakesNoMemory(t *testing.T) {
	const total = 256 << 20
	piece := make([]byte, 64<<10)
	var before, after runtime.MemStats
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		for range total / len(piece) / 2 {
			_, _ = w.Write(piece)
		}
		// A source with no end goes past the recorder.
		n, err := io.Copy(w, io.LimitReader(zeros{}, total/2))
		if n != total/2 || err != nil {
			t.Errorf("copied %d, %v", n, err)
		}
	})
	runtime.ReadMemStats(&before)
	resp := a.open("K")
	n, err := io.Copy(io.Discard, resp.Body)
	runtime.ReadMemStats(&after)
	if n != total || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 16<<20 {
		t.Errorf("%d MiB were allocated for an answer of 256 MiB", grown>>20)
	}
	wantProblem(t, a.post("K", `{}`), http.StatusOK, oncehttp.ProblemNotKept)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestR11AFlushedAnswerArrivesAtOnceAndIsKept(t *testing.T) {
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			next := make(chan struct{})
			a := server(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusAccepted)
				_, _ = io.WriteString(w, "one ")
				w.(http.Flusher).Flush()
				<-next
				_, _ = io.WriteString(w, "two")
			})
			resp := a.open("K")
			p := make([]byte, 4)
			if _, err := io.ReadFull(resp.Body, p); string(p) != "one " || err != nil {
				t.Fatalf("%q, %v", p, err)
			}
			if s := a.store.record(t).State; s != once.InFlight {
				t.Errorf("the record is %s", s)
			}
			close(next)
			rest, _ := io.ReadAll(resp.Body)
			if string(rest) != "two" {
				t.Errorf("%q", rest)
			}
			again := a.post("K", `{}`)
			if again.status != http.StatusAccepted || again.body != "one two" || !again.replayed() {
				t.Errorf("%d %q", again.status, again.body)
			}
			a.wantRan(1)
		})
	}
}

func TestR11EarlyHintsPassAndAreNotTheStatus(t *testing.T) {
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			a := server(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Link", "</style.css>; rel=preload")
				w.WriteHeader(http.StatusEarlyHints)
				w.WriteHeader(http.StatusProcessing)
				w.Header().Del("Link")
				w.WriteHeader(http.StatusCreated)
				w.WriteHeader(http.StatusEarlyHints) // too late
				w.WriteHeader(http.StatusTeapot)     // the second status is ignored
				_, _ = io.WriteString(w, "made")
			})
			var hints []string
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
					hints = append(hints, fmt.Sprint(code, h.Get("Link")))
					return nil
				},
			})
			req := a.request("POST", "/orders", strings.NewReader(`{}`), "Idempotency-Key", "K")
			first := a.send(req.WithContext(ctx))
			if first.status != http.StatusCreated || first.header.Get("Link") != "" {
				t.Errorf("%d %v", first.status, first.header)
			}
			want := "[103</style.css>; rel=preload 102</style.css>; rel=preload]"
			if s := fmt.Sprint(hints); s != want {
				t.Errorf("hints %s, want %s", s, want)
			}
			again := a.post("K", `{}`)
			wantReplay(t, first, again)
			a.wantRan(1)
		})
	}
}

func TestR11CopiedAnswersAreKept(t *testing.T) {
	body := randomText(200_000)
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		if _, ok := w.(io.ReaderFrom); !ok {
			t.Error("the writer is no io.ReaderFrom")
		}
		for from := 0; from < len(body); from += 50_000 {
			n, err := io.Copy(w, readerOnly{strings.NewReader(body[from : from+50_000])})
			if n != 50_000 || err != nil {
				t.Errorf("copied %d, %v", n, err)
			}
		}
	})
	first := a.post("K", `{}`)
	if first.body != body {
		t.Error("the answer is another one")
	}
	wantReplay(t, first, a.post("K", `{}`))
}

func TestR11AnErrorOfWhatIsCopiedReachesTheHandler(t *testing.T) {
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		n, err := io.Copy(w, io.MultiReader(strings.NewReader("some"), broken{}))
		if n != 4 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("copied %d, %v", n, err)
		}
	})
	if g := a.post("K", `{}`); g.body != "some" {
		t.Errorf("%q", g.body)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestR11DeadlinesReachTheConnection(t *testing.T) {
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		c := http.NewResponseController(w)
		if err := c.SetWriteDeadline(time.Now().Add(-time.Second)); err != nil {
			t.Error(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
		if err := c.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, "lost on the way")
	})
	if g := a.post("K", `{}`); g.err == nil {
		t.Errorf("the deadline has no effect: %q", g.body)
	}
	a.untilState(once.Completed)
	b := &api{t: t, store: a.store}
	serve(t, b, b.guard(func(http.ResponseWriter, *http.Request) {}))
	if g := b.post("K", `{}`); g.body != "lost on the way" || !g.replayed() {
		t.Errorf("the repeat got %d %q", g.status, g.body)
	}
}

func TestR11K20eAConnectionThatIsTakenOverIsATombstone(t *testing.T) {
	for _, flushFirst := range []bool{false, true} {
		a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
			if flushFirst { // the status goes out before
				_, _ = io.WriteString(w, "before ")
			}
			conn, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			if n, err := w.Write([]byte("x")); n != 0 || !errors.Is(err, http.ErrHijacked) {
				t.Errorf("wrote %d, %v", n, err)
			}
			if err := http.NewResponseController(w).Flush(); !errors.Is(err, http.ErrHijacked) {
				t.Errorf("flush: %v", err)
			}
			w.WriteHeader(http.StatusTeapot)
			if !flushFirst {
				_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\n" +
					"Connection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				_ = rw.Flush()
			}
			line, _ := rw.ReadString('\n')
			_, _ = rw.WriteString("echo " + line)
			_ = rw.Flush()
		})
		conn := a.dial()
		_, _ = io.WriteString(conn, "POST /orders HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"+
			"Content-Type: application/json\r\n"+
			"Idempotency-Key: K\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n{}hello\n")
		all, _ := io.ReadAll(conn)
		status, want := http.StatusConflict, "101 Switching"
		if flushFirst {
			status, want = http.StatusOK, "HTTP/1.1 200 OK\r\n"
		}
		if !strings.Contains(string(all), want) || !strings.Contains(string(all), "echo hello\n") {
			t.Errorf("%q", all)
		}
		a.untilState(once.Completed) // the other protocol may end before
		again := a.post("K", `{}`)
		wantProblem(t, again, status, oncehttp.ProblemNotKept)
		if !again.replayed() {
			t.Error("it is not marked")
		}
		a.wantRan(1)
	}
}

func TestR11ATakenOverConnectionIsATombstoneWhateverItsStatusWouldSay(t *testing.T) {
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.Close()
	}, func(c *oncehttp.Config) {
		c.Keep = func(int) oncehttp.Verdict { return oncehttp.Free }
	})
	if first := a.post("K", `{}`); first.err == nil {
		t.Errorf("the first caller got %d", first.status)
	}
	a.untilState(once.Completed)
	wantProblem(t, a.post("K", `{}`), http.StatusConflict, oncehttp.ProblemNotKept)
	a.wantRan(1)
}

func TestR11WhatCanNotBeTakenOverSaysSo(t *testing.T) {
	a := newAPI2(t, func(w http.ResponseWriter, _ *http.Request) {
		if _, _, err := w.(http.Hijacker).Hijack(); err == nil {
			t.Error("HTTP/2 is taken over")
		}
		_, _ = io.WriteString(w, "as usual")
	})
	first := a.post("K", `{}`)
	if first.body != "as usual" {
		t.Errorf("%q", first.body)
	}
	wantReplay(t, first, a.post("K", `{}`))
}

func TestR14AClientThatLeavesDoesNotStopTheWork(t *testing.T) {
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			g := newGate()
			a := server(t, func(w http.ResponseWriter, r *http.Request) {
				g.ServeHTTP(w, r)
				if err := r.Context().Err(); err != nil {
					t.Errorf("the work's context ended: %v", err)
				}
			})
			ctx, cancel := context.WithCancel(t.Context())
			req := a.request("POST", "/orders", strings.NewReader(`{}`), "Idempotency-Key", "K")
			first := async(func() got { return a.send(req.WithContext(ctx)) })
			receive(t, "the handler runs", g.entered)
			cancel()
			if f := receive(t, "the client leaves", first); f.err == nil {
				t.Error("it has an answer")
			}
			wantProblem(t, a.post("K", `{}`), http.StatusConflict, oncehttp.ProblemInFlight)
			close(g.leave)
			a.untilState(once.Completed)
			if g := a.post("K", `{}`); g.status != http.StatusCreated || g.body != "made" || !g.replayed() {
				t.Errorf("%d %q", g.status, g.body)
			}
			a.wantRan(1)
		})
	}
}

func TestR14AClientThatLeavesDuringTheSaveDoesNotLoseIt(t *testing.T) {
	saving, goOn := make(chan struct{}, 10), make(chan struct{})
	a := orders(t)
	a.store.set(func(s *faultyStore) {
		s.complete = func(ctx context.Context, _ once.Outcome) error {
			saving <- struct{}{}
			<-goOn
			return ctx.Err()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	req := a.request("POST", "/orders", strings.NewReader(`{}`), "Idempotency-Key", "K")
	first := async(func() got { return a.send(req.WithContext(ctx)) })
	receive(t, "the save begins", saving)
	cancel()
	receive(t, "the client leaves", first)
	close(goOn)
	a.untilState(once.Completed)
	if g := a.post("K", `{}`); g.body != `{"run":1}` || !g.replayed() {
		t.Errorf("%d %q", g.status, g.body)
	}
	a.wantRan(1)
}

func TestR14AFlushedAnswerIsKeptWholeThoughItsClientLeft(t *testing.T) {
	left := make(chan struct{})
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "one ")
		w.(http.Flusher).Flush()
		<-left
		for range 1000 { // until the server, too, notices
			if _, err := io.WriteString(w, "more"); err != nil {
				t.Errorf("a write fails because of the client: %v", err)
			}
			w.(http.Flusher).Flush()
		}
	})
	conn := a.dial()
	_, _ = io.WriteString(conn, "POST /orders HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"+
		"Content-Type: application/json\r\nIdempotency-Key: K\r\n\r\n{}")
	_, _ = io.ReadFull(conn, make([]byte, 20))
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
	close(left)
	a.untilState(once.Completed)
	if g := a.post("K", `{}`); g.body != "one "+strings.Repeat("more", 1000) || !g.replayed() {
		t.Errorf("%d, %d bytes", g.status, len(g.body))
	}
	a.wantRan(1)
}

func TestR14EndWithClientEndsTheWork(t *testing.T) {
	entered := make(chan struct{}, 1)
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-r.Context().Done()
		w.WriteHeader(http.StatusInternalServerError)
	}, func(c *oncehttp.Config) { c.EndWithClient, c.Guard.OnUnknown = true, once.Hold })
	ctx, cancel := context.WithCancel(t.Context())
	req := a.request("POST", "/orders", strings.NewReader(`{}`), "Idempotency-Key", "K")
	first := async(func() got { return a.send(req.WithContext(ctx)) })
	receive(t, "the handler runs", entered)
	cancel()
	receive(t, "the client leaves", first)
	a.untilState(once.Held)
	wantProblem(t, a.post("K", `{}`), http.StatusConflict, oncehttp.ProblemHeld)
	a.wantRan(1)
}
