package oncehttp_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncehttp"
)

func TestR01HeaderLinesAreReplayedAsTheyWere(t *testing.T) {
	const name = `attachment; filename="a,b.txt"`
	links := []string{`</a>; rel="x, y"`, `</b>; rel=z`, ""}
	cookies := []string{"s=1; Expires=Mon, 21 Oct 2030 07:28:00 GMT", "t=2"}
	handler := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Disposition", name)
		w.Header()["Link"] = links
		w.Header()["Set-Cookie"] = cookies
		w.Header()["Content-Type"] = nil // the server shall find out nothing
		_, _ = io.WriteString(w, "<html>")
	}
	a := newAPI(t, handler, func(c *oncehttp.Config) { c.KeepHeaders = []string{"set-cookie"} })
	first := a.post("K", `{}`)
	again := a.post("K", `{}`)
	wantReplay(t, first, again)
	for _, g := range []got{first, again} {
		if !slices.Equal(g.header.Values("Link"), links) ||
			!slices.Equal(g.header.Values("Set-Cookie"), cookies) ||
			g.header.Get("Content-Disposition") != name || len(g.header["Content-Type"]) > 0 {
			t.Errorf("headers are %v", g.header)
		}
	}
}

func TestR02WhatBelongsToOneCallerOrExchangeIsNotReplayed(t *testing.T) {
	dropped := []string{
		"Set-Cookie", "WWW-Authenticate", "www-authenticate", "Proxy-Authenticate", "set-cookie",
		"X-Request-ID", "X-Correlation-Id", "Age", "RateLimit-Remaining", "X-RateLimit-Reset",
		"Alt-Svc", "Server-Timing", "traceparent", "Keep-Alive", "X-Own",
	}
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range dropped {
			w.Header()[name] = []string{"secret"} // as it is spelt
		}
		w.Header().Set("Date", "Mon, 21 Oct 2013 07:28:00 GMT")
		w.Header().Set("Etag", `"7"`)
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusCreated)
	}, func(c *oncehttp.Config) { c.DropHeaders = []string{"x-own"} })
	first := a.post("K", `{}`)
	again := a.post("K", `{}`)
	wantReplay(t, first, again)
	for _, name := range dropped {
		if len(first.header.Values(name)) == 0 {
			t.Errorf("the first caller lacks %s", name)
		}
		if v := again.header.Values(name); len(v) > 0 {
			t.Errorf("%s is replayed: %q", name, v)
		}
	}
	if again.header.Get("Date") == first.header.Get("Date") {
		t.Error("the date is replayed")
	}
	for _, name := range []string{"Etag", "Retry-After"} {
		if again.header.Get(name) != first.header.Get(name) {
			t.Errorf("%s is not replayed", name)
		}
	}
	if data := string(a.store.record(t).Outcome.Data); strings.Contains(data, "secret") {
		t.Error("the store holds what is dropped")
	}
}

func TestF10R04R12R13WhatFollowsFromAStatus(t *testing.T) {
	kept := []int{200, 201, 202, 203, 204, 206, 299, 300, 301, 302, 303, 304, 307, 308, 400, 402,
		404, 405, 410, 413, 415, 422}
	free := []int{401, 403, 406, 407, 408, 409, 411, 412, 414, 416, 417, 418, 421, 423, 424, 425,
		426, 428, 429, 431, 451, 499, 501, 503}
	lost := []int{500, 502, 504, 505, 507, 508, 511, 599, 999}
	for verdict, list := range map[string][]int{"kept": kept, "free": free, "lost": lost} {
		for _, status := range list {
			for _, policy := range []once.OnUnknown{once.Retry, once.Hold} {
				t.Run(fmt.Sprint(status, verdict, policy), func(t *testing.T) {
					tryStatus(t, status, verdict, policy)
				})
			}
		}
	}
}

func tryStatus(t *testing.T, status int, verdict string, policy once.OnUnknown) {
	var a *api
	a = newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Run", strconv.FormatInt(a.ran.Load(), 10))
		w.WriteHeader(status)
		if a.ran.Load() == 1 {
			_, _ = io.WriteString(w, "answer")
		}
	}, func(c *oncehttp.Config) { c.Guard.OnUnknown = policy })
	first := a.post("K", `{}`)
	body := "answer"
	if status == 204 || status == 304 {
		body = ""
	}
	if first.status != status || first.body != body || first.header.Get("X-Run") != "1" ||
		len(first.header[oncehttp.HeaderStored]) > 0 {
		t.Fatalf("first: %d %q %v", first.status, first.body, first.header)
	}
	// A changed request is refused whatever came of the first one.
	wantProblem(t, a.post("K", `{"other":1}`), 422, oncehttp.ProblemMismatch)
	again := a.post("K", `{}`)
	switch {
	case verdict == "kept":
		wantReplay(t, first, again)
		if again.header.Get("X-Run") != "1" {
			t.Error("the header isn't replayed")
		}
		a.wantRan(1)
	case verdict == "lost" && policy == once.Hold:
		wantProblem(t, again, http.StatusConflict, oncehttp.ProblemHeld)
		a.wantRan(1)
	default:
		if again.status != status || again.header.Get("X-Run") != "2" || again.replayed() {
			t.Errorf("the second: %d, run %q", again.status, again.header.Get("X-Run"))
		}
		a.wantRan(2)
	}
}

func TestR12APolicyOfOnesOwnDecides(t *testing.T) {
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		func(c *oncehttp.Config) {
			c.Keep = func(status int) oncehttp.Verdict {
				if status == 500 {
					return oncehttp.Keep
				}
				return oncehttp.KeepDefault(status)
			}
		})
	wantReplay(t, a.post("K", `{}`), a.post("K", `{}`))
	a.wantRan(1)
}

func TestR05AnAnswerOverTheLimitIsNotKeptAndNotRunAgain(t *testing.T) {
	const limit = 64 << 10
	body := randomText(limit + 1)
	for _, tt := range []struct {
		name  string
		write func(io.Writer)
	}{
		{"at once", func(w io.Writer) { _, _ = io.WriteString(w, body) }},
		{"in pieces", func(w io.Writer) {
			for piece := range slices.Chunk([]byte(body), 1000) {
				_, _ = w.Write(piece)
			}
		}},
		{"copied", func(w io.Writer) { _, _ = io.Copy(w, readerOnly{strings.NewReader(body)}) }},
	} {
		for _, status := range []int{200, 201, 303, 400, 422} {
			a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/orders/7")
				w.Header().Set("Content-Type", "image/png")
				w.Header().Set("Content-Length", strconv.Itoa(len(body)))
				w.Header().Set("Content-Encoding", "x-own")
				w.Header().Set("Content-Digest", "sha-256=:AA==:")
				w.WriteHeader(status)
				tt.write(w)
			}, func(c *oncehttp.Config) { c.MaxAnswer = limit })
			first := a.post("K", `{}`)
			if first.status != status || first.body != body || first.err != nil {
				t.Fatalf("%s: the first caller got %d and %d bytes, %v", tt.name, first.status,
					len(first.body), first.err)
			}
			// It was live: its client has all that was declared before its record is written.
			a.untilState(once.Completed)
			again := a.post("K", `{}`)
			wantProblem(t, again, status, oncehttp.ProblemNotKept)
			if !again.replayed() || again.header.Get("Location") != "/orders/7" ||
				len(again.header["Content-Encoding"]) > 0 ||
				len(again.header["Content-Digest"]) > 0 {
				t.Errorf("%s: %v", tt.name, again.header)
			}
			wantProblem(t, a.post("K", `{"x":1}`), 422, oncehttp.ProblemMismatch)
			a.wantRan(1)
		}
	}
}

func TestR05AnAnswerAtTheLimitIsKept(t *testing.T) {
	body := randomText(64 << 10)
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) },
		func(c *oncehttp.Config) { c.MaxAnswer = len(body) })
	wantReplay(t, a.post("K", `{}`), a.post("K", `{}`))
	a.wantRan(1)
}

func TestR16OnlyAReplayIsMarked(t *testing.T) {
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Idempotency-Stored", "false") // a service behind may use once too
		w.WriteHeader(http.StatusCreated)
	})
	for i := range 3 {
		g := a.post("K", `{}`)
		if n := len(g.header[oncehttp.HeaderReplayed]); (i == 0) != (n == 0) || n > 1 {
			t.Errorf("answer %d has %d marks", i, n)
		}
		if i > 0 && len(g.header[oncehttp.HeaderStored]) > 0 {
			t.Error("another's mark is replayed")
		}
	}
}

func TestTrailersAreReplayed(t *testing.T) {
	for _, server := range servers {
		for _, flush := range []bool{false, true} {
			a := server(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Trailer", "Checksum, Set-Cookie")
				_, _ = io.WriteString(w, "body")
				if flush {
					w.(http.Flusher).Flush()
				}
				w.Header().Set("Checksum", "17")
				w.Header().Set("Set-Cookie", "s=1")
				w.Header().Set("Late", "dropped")
				w.Header().Set(http.TrailerPrefix+"More", "18")
			})
			first := a.post("K", `{}`)
			if first.trailer.Get("Checksum") != "17" || first.trailer.Get("Set-Cookie") != "s=1" {
				t.Errorf("first: %v", first.trailer)
			}
			again := a.post("K", `{}`)
			wantReplay(t, first, again)
			if again.trailer.Get("Checksum") != "17" || again.trailer.Get("More") != "18" ||
				len(again.trailer["Set-Cookie"]) > 0 || len(again.header["Late"]) > 0 {
				t.Errorf("replay: trailers %v, headers %v", again.trailer, again.header)
			}
			if first.trailer.Get("More") != "18" {
				t.Errorf("flush %v: the first answer's trailers are %v", flush, first.trailer)
			}
		}
	}
}

func TestTrailersThatWereNotAnnouncedAreReplayed(t *testing.T) {
	for name, server := range servers {
		a := server(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "body")
			w.(http.Flusher).Flush()
			w.Header().Set(http.TrailerPrefix+"Checksum", "17")
		})
		first, again := a.post("K", `{}`), a.post("K", `{}`)
		wantReplay(t, first, again)
		if first.trailer.Get("Checksum") != "17" || again.trailer.Get("Checksum") != "17" {
			t.Errorf("%s: trailers %v, replayed %v", name, first.trailer, again.trailer)
		}
	}
}

func TestWhatAHandlerDoesToItsHeaderAfterTheStatusHasNoEffect(t *testing.T) {
	for _, flush := range []bool{false, true} {
		a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Same"] = []string{"a"}
			w.Header()["In-Place"] = []string{"a", "b"}
			w.Header().Set("Gone", "a")
			w.WriteHeader(http.StatusCreated)
			w.Header().Set("Same", "b")
			w.Header()["In-Place"][1] = "c"
			w.Header().Add("In-Place", "d")
			w.Header().Del("Gone")
			w.Header().Set("New", "b")
			if flush {
				w.(http.Flusher).Flush()
			}
			_, _ = io.WriteString(w, "x")
			w.Header().Set("Same", "c")
		})
		first := a.post("K", `{}`)
		again := a.post("K", `{}`)
		wantReplay(t, first, again)
		for _, g := range []got{first, again} {
			if g.header.Get("Same") != "a" || g.header.Get("Gone") != "a" ||
				len(g.header["New"]) > 0 ||
				!slices.Equal(g.header["In-Place"], []string{"a", "b"}) {
				t.Errorf("replayed %v: %v", g.replayed(), g.header)
			}
		}
	}
}

func TestOuterHandlersHeadersAreThoseOfEachExchange(t *testing.T) {
	a := &api{t: t, store: newStore(t)}
	guarded := a.guard(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Del("Cache-Control")
		w.Header().Set("Frame", "inner")
		_, _ = io.WriteString(w, "x")
	})
	n := 0
	serve(t, a, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		w.Header().Set("Exchange", strconv.Itoa(n))
		w.Header().Set("Policy", "outer")
		w.Header().Set("Frame", "outer")
		w.Header().Set("Cache-Control", "no-store")
		guarded.ServeHTTP(w, r)
	}))
	for want := 1; want < 4; want++ {
		g := a.post("K", `{}`)
		if g.header.Get("Policy") != "outer" || g.header.Get("Frame") != "inner" ||
			len(g.header["Cache-Control"]) > 0 || g.replayed() != (want > 1) ||
			g.header.Get("Exchange") != strconv.Itoa(want) {
			t.Errorf("exchange %d: %v", want, g.header)
		}
	}
	a.wantRan(1)
}

func TestAnswersWithoutABodyAreReplayedAsSuch(t *testing.T) {
	for _, status := range []int{204, 304} {
		a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Etag", `"7"`)
			w.WriteHeader(status)
			if n, err := io.WriteString(w, "none"); n != 0 || err != http.ErrBodyNotAllowed {
				t.Errorf("wrote %d, %v", n, err)
			}
		})
		first, again := a.post("K", `{}`), a.post("K", `{}`)
		wantReplay(t, first, again)
		if first.body != "" || again.header.Get("Etag") != `"7"` || again.header.Get("Content-Type") != "" {
			t.Errorf("%d: %q %v", status, first.body, again.header)
		}
		a.wantRan(1)
	}
}

func TestAnAnswerShorterThanItsLengthIsALostAttempt(t *testing.T) {
	for policy, want := range map[once.OnUnknown]int64{once.Retry: 2, once.Hold: 1} {
		a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "half")
		}, func(c *oncehttp.Config) { c.Guard.OnUnknown = policy })
		if g := a.post("K", `{}`); g.err == nil {
			t.Errorf("the first caller was told that half is all: %q", g.body)
		}
		again := a.post("K", `{}`)
		if again.replayed() {
			t.Error("half an answer is replayed")
		}
		if policy == once.Hold {
			wantProblem(t, again, http.StatusConflict, oncehttp.ProblemHeld)
		}
		a.wantRan(want)
	}
}

func TestAnAnswerLongerThanItsLengthIsCutAsTheServerDoes(t *testing.T) {
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		if n, err := io.WriteString(w, "hello"); n != 5 || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
		if n, err := io.WriteString(w, " again"); n != 0 || err != http.ErrContentLength {
			t.Errorf("wrote %d, %v", n, err)
		}
	})
	first := a.post("K", `{}`)
	if first.body != "hello" || first.err != nil {
		t.Errorf("%q, %v", first.body, first.err)
	}
	wantReplay(t, first, a.post("K", `{}`))
	a.wantRan(1)
}

func TestAStatusThatIsNonePanicsAndIsNotKept(t *testing.T) {
	for _, status := range []int{-1, 0, 99, 1000} {
		a := &api{t: t, store: newStore(t)}
		h := a.guard(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d is taken", status)
				}
			}()
			callKey(h, "K", &discard{http.Header{}})
		}()
		if r := a.store.record(t); r.State != once.Lost {
			t.Errorf("%d: the record is %s", status, r.State)
		}
	}
}

func TestTheTypeThatTheServerFoundIsReplayed(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"held back", "text/html; charset=utf-8"},
		{"flushed first", ""},
		{"flushed after a byte", "text/plain; charset=utf-8"},
		{"encoded", ""},
	} {
		a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
			switch tt.name {
			case "flushed first":
				w.(http.Flusher).Flush()
			case "flushed after a byte":
				_, _ = io.WriteString(w, "<")
				w.(http.Flusher).Flush()
				_, _ = io.WriteString(w, "html></html>")
				return
			case "encoded":
				w.Header().Set("Content-Encoding", "x-own")
			}
			_, _ = io.WriteString(w, "<html></html>")
		})
		first, again := a.post("K", `{}`), a.post("K", `{}`)
		wantReplay(t, first, again)
		for _, g := range []got{first, again} {
			if c := g.header.Get("Content-Type"); c != tt.want {
				t.Errorf("%s, replayed %v: Content-Type is %q, want %q", tt.name, g.replayed(), c,
					tt.want)
			}
		}
	}
}
