package oncehttp_test

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncehttp"
)

// gate is a handler that says when it runs, and waits to be let go.
type gate struct{ entered, leave chan struct{} }

func newGate() *gate { return &gate{make(chan struct{}, 100), make(chan struct{})} }

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	g.hold()
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, "made")
}

// hold waits to be let go; a test that failed before lets nobody go.
func (g *gate) hold() {
	g.entered <- struct{}{}
	select {
	case <-g.leave:
	case <-time.After(patience):
	}
}

// async sends in the background.
func async(send func() got) <-chan got {
	c := make(chan got, 1)
	go func() { c <- send() }()
	return c
}

func TestK01ARequestDuringTheFirstOneIsToldSoAndDoesNotRun(t *testing.T) {
	g := newGate()
	a := newAPI(t, g.ServeHTTP)
	first := async(func() got { return a.post("K", `{"a":1}`) })
	receive(t, "the handler runs", g.entered)
	second := a.post("K", `{"a":1}`)
	wantProblem(t, second, http.StatusConflict, oncehttp.ProblemInFlight)
	if after := second.header.Get("Retry-After"); after != "1" {
		t.Errorf("Retry-After is %q, want 1", after)
	}
	if second.replayed() {
		t.Error("a refusal is marked as a replay")
	}
	close(g.leave)
	f := receive(t, "the first answer", first)
	if f.status != http.StatusCreated || f.body != "made" {
		t.Errorf("first: %d %q", f.status, f.body)
	}
	wantReplay(t, f, a.post("K", `{"a":1}`))
	a.wantRan(1)
}

func TestK01ARepeatThatMayWaitGetsTheReplay(t *testing.T) {
	g := newGate()
	a := newAPI(t, g.ServeHTTP, func(c *oncehttp.Config) { c.Guard.Wait = patience })
	first := async(func() got { return a.post("K", `{}`) })
	receive(t, "the handler runs", g.entered)
	second := async(func() got { return a.post("K", `{}`) })
	until(t, "the repeat asks a second time", func() bool {
		return len(a.store.claims()) >= 3 // first, repeat, repeat after joining those that wait
	})
	close(g.leave)
	wantReplay(t, receive(t, "the first answer", first), receive(t, "the replay", second))
	a.wantRan(1)
}

func TestARepeatsWaitIsBounded(t *testing.T) {
	g := newGate()
	a := newAPI(t, g.ServeHTTP, func(c *oncehttp.Config) { c.Guard.Wait = 60 * time.Millisecond })
	first := async(func() got { return a.post("K", `{}`) })
	receive(t, "the handler runs", g.entered)
	wantProblem(t, a.post("K", `{}`), http.StatusConflict, oncehttp.ProblemInFlight)
	close(g.leave)
	wantReplay(t, receive(t, "the first answer", first), a.post("K", `{}`))
	a.wantRan(1)
}

func TestNothingIsRunForAClientThatLeftWhileItWaited(t *testing.T) {
	g := newGate()
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		g.hold()
		w.WriteHeader(http.StatusServiceUnavailable) // it frees the key
	}, func(c *oncehttp.Config) { c.Guard.Wait = patience })
	first := async(func() got { return a.post("K", `{}`) })
	receive(t, "the handler runs", g.entered)
	ctx, cancel := context.WithCancel(t.Context())
	req := a.request(http.MethodPost, "/orders", strings.NewReader(`{}`), "Idempotency-Key", "K")
	second := async(func() got { return a.send(req.WithContext(ctx)) })
	until(t, "the repeat waits", func() bool { return len(a.store.claims()) >= 3 })
	cancel()
	if left := receive(t, "the client leaves", second); left.err == nil {
		t.Error("a client that left has an answer")
	}
	until(t, "its wait ends", func() bool { return a.observed() == "first client-left" })
	close(g.leave)
	receive(t, "the first answer", first)
	a.wantRan(1)
	if s := a.store.record(t).State; s != once.Released {
		t.Errorf("the record is %s", s)
	}
}

func TestK03AHundredAtOnceRunOnceAndGetOneAnswer(t *testing.T) {
	for name, wait := range map[string]time.Duration{"refused meanwhile": 0, "waiting": patience} {
		t.Run(name, func(t *testing.T) {
			a := orders(t, func(c *oncehttp.Config) { c.Guard.Wait = wait })
			const n = 100
			answers := make([]got, n)
			start := make(chan struct{})
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					<-start
					answers[i] = a.post(`"K"`, `{"amount":100}`)
				})
			}
			close(start)
			wg.Wait()
			a.wantRan(1)
			firsts := 0
			for _, g := range answers {
				switch {
				case g.err != nil:
					t.Error(g.err)
				case g.status == http.StatusConflict && wait == 0:
					wantProblem(t, g, http.StatusConflict, oncehttp.ProblemInFlight)
				case g.status != http.StatusCreated || g.body != `{"run":1}` ||
					g.header.Get("Location") != "/orders/7":
					t.Errorf("%d %q", g.status, g.body)
				case !g.replayed():
					firsts++
				}
			}
			if firsts != 1 {
				t.Errorf("%d answers are no replays, want 1", firsts)
			}
		})
	}
}

func TestK05AnotherBodyIsRefusedAtOnceWhileTheFirstRuns(t *testing.T) {
	g := newGate()
	// also where a repeat would wait
	a := newAPI(t, g.ServeHTTP, func(c *oncehttp.Config) { c.Guard.Wait = time.Hour })
	first := async(func() got { return a.post("K", `{"amount":100}`) })
	receive(t, "the handler runs", g.entered)
	wantProblem(t, a.post("K", `{"amount":200}`), http.StatusUnprocessableEntity,
		oncehttp.ProblemMismatch)
	close(g.leave)
	receive(t, "the first answer", first)
	wantProblem(t, a.post("K", `{"amount":200}`), http.StatusUnprocessableEntity,
		oncehttp.ProblemMismatch)
	a.wantRan(1)
}

func TestK09AHandlerOutlastsItsLeaseByRenewing(t *testing.T) {
	g := newGate()
	const lease = 400 * time.Millisecond
	a := newAPI(t, g.ServeHTTP, func(c *oncehttp.Config) { c.Guard.Lease = lease })
	renewals := make(chan struct{}, 1000)
	a.store.set(func(s *faultyStore) {
		s.renew = func(context.Context, once.Grant) error { renewals <- struct{}{}; return nil }
	})
	first := async(func() got { return a.post("K", `{}`) })
	start := receiveTime(t, g.entered)
	for time.Since(start) < 3*lease {
		receive(t, "the lease is renewed", renewals)
	}
	wantProblem(t, a.post("K", `{}`), http.StatusConflict, oncehttp.ProblemInFlight)
	close(g.leave)
	wantReplay(t, receive(t, "the first answer", first), a.post("K", `{}`))
	a.wantRan(1)
}

func receiveTime(t *testing.T, c <-chan struct{}) time.Time {
	t.Helper()
	receive(t, "the handler runs", c)
	return time.Now()
}

func TestK09AnOwnerThatLostItsLeaseDoesNotReplaceTheNewAnswer(t *testing.T) {
	var a *api
	stopped, second := make(chan error, 1), make(chan struct{})
	a = newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if a.ran.Load() == 1 {
			<-r.Context().Done()
			stopped <- context.Cause(r.Context())
			<-second
			_, _ = io.WriteString(w, "old")
			return
		}
		_, _ = io.WriteString(w, "new")
	}, func(c *oncehttp.Config) {
		c.Guard.Lease, c.Guard.CompleteTimeout = 300*time.Millisecond, time.Second
	})
	a.store.set(func(s *faultyStore) {
		s.renew = func(context.Context, once.Grant) error { return once.ErrUnavailable }
	})
	first := async(func() got { return a.post("K", `{}`) })
	err := receive(t, "the work's context ends", stopped)
	if !strings.Contains(err.Error(), "lease") {
		t.Errorf("the context ended by %v, want the lease", err)
	}
	var again got
	until(t, "the lease ends", func() bool {
		again = a.post("K", `{}`)
		return again.status == http.StatusOK
	})
	close(second)
	old := receive(t, "the first answer", first)
	if old.body != "old" || old.header.Get(oncehttp.HeaderStored) != "false" {
		t.Errorf("the late owner: %q, %s %q", old.body, oncehttp.HeaderStored,
			old.header.Get(oncehttp.HeaderStored))
	}
	if again.body != "new" {
		t.Errorf("the new owner: %q", again.body)
	}
	wantReplay(t, again, a.post("K", `{}`))
	a.wantRan(2)
}

func TestK19APanicSettlesTheClaimAtOnceAndGoesOn(t *testing.T) {
	for _, tt := range []struct {
		name      string
		policy    once.OnUnknown
		end       func()
		recovered any
	}{
		{"K20f retry", once.Retry, func() { panic("charged, then lost") }, "charged, then lost"},
		{"K20f hold", once.Hold, func() { panic("charged, then lost") }, "charged, then lost"},
		{"K20g retry", once.Retry, func() { panic(http.ErrAbortHandler) }, http.ErrAbortHandler},
		{"K20g hold", once.Hold, func() { panic(http.ErrAbortHandler) }, http.ErrAbortHandler},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var a *api
			recovered := make(chan any, 10)
			a = &api{t: t, store: newStore(t)}
			guarded := a.guard(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "half an ans")
				if a.ran.Load() == 1 {
					tt.end()
				}
			}, func(c *oncehttp.Config) { c.Guard.OnUnknown = tt.policy })
			serve(t, a, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() {
					if p := recover(); p != nil {
						recovered <- p
						panic(http.ErrAbortHandler)
					}
				}()
				guarded.ServeHTTP(w, r)
			}))
			if g := a.post("K", `{}`); g.err == nil {
				t.Errorf("the first one got %d %q, want a broken connection", g.status, g.body)
			}
			if p := receive(t, "the panic goes on", recovered); p != tt.recovered {
				t.Errorf("recovered %v, want %v", p, tt.recovered)
			}
			again := a.post("K", `{}`)
			if tt.policy == once.Hold {
				wantProblem(t, again, http.StatusConflict, oncehttp.ProblemHeld)
				if again.header.Get("Retry-After") != "" {
					t.Error("a held one asks to retry")
				}
				a.wantRan(1)
				return
			}
			if again.status != http.StatusOK || again.body != "half an ans" || again.replayed() {
				t.Errorf("%d %q, replayed %v", again.status, again.body, again.replayed())
			}
			a.wantRan(2)
		})
	}
}

func TestK19AHandlerThatEndsItsGoroutineIsALostAttempt(t *testing.T) {
	a := &api{t: t, store: newStore(t)}
	h := a.guard(func(http.ResponseWriter, *http.Request) { runtime.Goexit() },
		func(c *oncehttp.Config) { c.Guard.OnUnknown = once.Hold })
	done := make(chan struct{})
	go func() {
		defer close(done)
		callKey(h, "K", &discard{http.Header{}})
	}()
	receive(t, "the goroutine ends", done)
	if r := a.store.record(t); r.State != once.Held {
		t.Errorf("the record is %s, want held", r.State)
	}
}

// callKey calls a handler in this goroutine.
func callKey(h http.Handler, key string, w http.ResponseWriter) {
	r, _ := http.NewRequest(http.MethodPost, "http://api.test/orders", strings.NewReader(`{}`))
	r.Header["Idempotency-Key"] = []string{key}
	h.ServeHTTP(w, r)
}

func TestAPanicOfTheConfigurationsFunctionsLeavesNoClaimBehind(t *testing.T) {
	boom := func() { panic("boom") }
	for name, change := range map[string]func(*oncehttp.Config){
		"Keep": func(c *oncehttp.Config) {
			c.Keep = func(int) oncehttp.Verdict { boom(); return oncehttp.Keep }
		},
		"Observe": func(c *oncehttp.Config) { c.Observe = func(*http.Request, string) { boom() } },
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{t: t, store: newStore(t)}
			h := a.guard(func(http.ResponseWriter, *http.Request) {}, change)
			func() {
				defer func() { _ = recover() }()
				callKey(h, "K", &discard{http.Header{}})
			}()
			if r := a.store.record(t); r.State != once.Lost {
				t.Errorf("the record is %s, want unknown", r.State)
			}
		})
	}
}

func TestK20EachWayToAnswerIsKept(t *testing.T) {
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		status  int
		body    string
	}{
		{"a in pieces", func(w http.ResponseWriter, _ *http.Request) {
			for _, s := range []string{"one ", "two ", "three"} {
				_, _ = io.WriteString(w, s)
			}
		}, 200, "one two three"},
		{"b flushed", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, "one ")
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, "two")
		}, 202, "one two"},
		{"c status only", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
		}, 204, ""},
		{"d nothing", func(http.ResponseWriter, *http.Request) {}, 200, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAPI(t, tt.handler)
			first := a.post("K", `{}`)
			if first.status != tt.status || first.body != tt.body {
				t.Errorf("%d %q, want %d %q", first.status, first.body, tt.status, tt.body)
			}
			wantReplay(t, first, a.post("K", `{}`))
			a.wantRan(1)
		})
	}
}

func TestK11AHandlerThatWasToldToStopDoesNotFreeItsKey(t *testing.T) {
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done() // in the middle of its work
		w.WriteHeader(http.StatusServiceUnavailable)
	}, func(c *oncehttp.Config) {
		c.Guard.MaxWork, c.Guard.OnUnknown = 50*time.Millisecond, once.Hold
	})
	if g := a.post("K", `{}`); g.status != http.StatusServiceUnavailable {
		t.Errorf("%d %q", g.status, g.body)
	}
	wantProblem(t, a.post("K", `{}`), http.StatusConflict, oncehttp.ProblemHeld)
	a.wantRan(1)
}

func TestK11ATimeOutOutsideOfTheGuardFreesNothing(t *testing.T) {
	g := newGate()
	a := &api{t: t, store: newStore(t)}
	serve(t, a, http.TimeoutHandler(a.guard(g.ServeHTTP), 50*time.Millisecond, "too slow"))
	if first := a.post("K", `{}`); first.status != http.StatusServiceUnavailable {
		t.Errorf("%d %q", first.status, first.body)
	}
	wantProblem(t, a.post("K", `{}`), http.StatusConflict, oncehttp.ProblemInFlight)
	close(g.leave)
	a.untilState(once.Completed)
	if again := a.post("K", `{}`); again.body != "made" || !again.replayed() {
		t.Errorf("%d %q", again.status, again.body)
	}
	a.wantRan(1)
}

func TestAHandlerKnowsItsGrantWhoseFenceRises(t *testing.T) {
	var fences []int64
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		g, ok := oncehttp.Grant(r.Context())
		if !ok || g.Attempt != len(fences)+1 {
			t.Errorf("grant %+v, %v", g, ok)
		}
		fences = append(fences, g.Fence)
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	for range 3 {
		a.post("K", `{}`)
	}
	if len(fences) != 3 || fences[0] >= fences[1] || fences[1] >= fences[2] {
		t.Errorf("fences are %v", fences)
	}
	if _, ok := oncehttp.Grant(t.Context()); ok {
		t.Error("there is a grant outside of a guarded request")
	}
}
