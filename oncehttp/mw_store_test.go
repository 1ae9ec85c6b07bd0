package oncehttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncehttp"
	"github.com/oncekit/once/oncemem"
)

func TestE06AStoreThatHangsIsGivenUpAtItsDeadline(t *testing.T) {
	var log bytes.Buffer
	a := orders(t, soon, func(c *oncehttp.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	a.store.set(func(s *faultyStore) {
		s.claim = func(ctx context.Context, _ once.Claim) error { <-ctx.Done(); return ctx.Err() }
	})
	start := time.Now()
	g := a.post("K", `{}`)
	wantProblem(t, g, http.StatusServiceUnavailable, oncehttp.ProblemStoreDown)
	if took := time.Since(start); took < 80*time.Millisecond || took > patience/2 {
		t.Errorf("it took %s, want about 80ms", took)
	}
	if g.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q", g.header.Get("Retry-After"))
	}
	a.wantRan(0)
	if !strings.Contains(log.String(), "could not be claimed") {
		t.Errorf("the log is %q", &log)
	}
	a.store.set(func(s *faultyStore) { s.claim = nil })
	until(t, "it goes on as before", func() bool { return a.post("K", `{}`).status == 201 })
	a.wantRan(1)
}

func TestAGuardThatFailsOpenSaysSoAndOnlyForAStoreThatIsAway(t *testing.T) {
	open := func(c *oncehttp.Config) { c.FailOpen = true }
	a := newAPI(t, describe, soon, open)
	a.store.set(func(s *faultyStore) {
		s.claim = func(context.Context, once.Claim) error { return once.ErrUnavailable }
	})
	for i := range 2 { // nothing protects from the repeat
		g := a.post("K", `{}`)
		if g.header.Get(oncehttp.HeaderGuarded) != "false" || g.replayed() ||
			g.body != description(`{}`, 2, "[]", "map[]") {
			t.Errorf("%d: %d %q %v", i, g.status, g.body, g.header)
		}
	}
	a.wantRan(2)
	for _, answer := range []error{once.ErrCorrupt, once.ErrMismatch, &once.UnknownError{},
		&once.InFlightError{Rest: time.Second}} {
		a.store.set(func(s *faultyStore) {
			s.claim = func(context.Context, once.Claim) error { return answer }
		})
		if g := a.post("L", `{}`); g.status < 400 || len(g.header[oncehttp.HeaderGuarded]) > 0 {
			t.Errorf("%v: %d", answer, g.status)
		}
	}
	a.wantRan(2)
	a.store.set(func(s *faultyStore) { s.claim = nil })
	first := a.post("M", `{}`)
	if len(first.header[oncehttp.HeaderGuarded]) > 0 {
		t.Error("a guarded one says that it isn't")
	}
	wantReplay(t, first, a.post("M", `{}`))
	want := "fail-open fail-open record-corrupt mismatch held in-flight first replay"
	if s := a.observed(); s != want {
		t.Errorf("told %q", s)
	}
	cfg := oncehttp.Config{Store: a.store, Scope: oncehttp.NoScope, FailOpen: true}
	cfg.Guard.OnUnknown = once.Hold
	if _, err := oncehttp.Middleware(cfg); err == nil {
		t.Error("what is held for a person may be worked again")
	}
}

func TestE06AStoreThatFailsLetsNothingRun(t *testing.T) {
	// The claim that went through, and of which only the answer was lost, is given back.
	for name, err := range map[string]error{
		"unavailable": once.ErrUnavailable, "unknown": errors.New("connection reset by 10.1.2.3"),
	} {
		a := orders(t, soon)
		taken := make(chan struct{}, 100)
		a.store.set(func(s *faultyStore) {
			s.claim = func(ctx context.Context, c once.Claim) error {
				s.set(func(s *faultyStore) { s.claim = nil })
				_, _ = s.Store.Claim(ctx, c)
				taken <- struct{}{}
				return err
			}
		})
		g := a.post("K", `{}`)
		wantProblem(t, g, http.StatusServiceUnavailable, oncehttp.ProblemStoreDown)
		if strings.Contains(g.body, "10.1.2.3") || g.header.Get("Retry-After") != "1" {
			t.Errorf("%s: %s, Retry-After %q", name, g.body, g.header.Get("Retry-After"))
		}
		a.wantRan(0)
		until(t, "the claim is given back", func() bool { return a.post("K", `{}`).status == 201 })
		a.wantRan(1)
	}
}

func TestR15ASaveThatFailsIsToldAndTheRecordIsNeverFree(t *testing.T) {
	for policy, want := range map[once.OnUnknown]int64{once.Retry: 2, once.Hold: 1} {
		t.Run(policy.String(), func(t *testing.T) {
			a := orders(t, soon, func(c *oncehttp.Config) {
				c.Guard.Lease, c.Guard.OnUnknown = time.Second, policy
			})
			tries := 0
			a.store.set(func(s *faultyStore) {
				s.complete = func(context.Context, once.Outcome) error {
					tries++
					return once.ErrUnavailable
				}
			})
			first := a.post("K", `{}`)
			if first.status != http.StatusCreated || first.body != `{"run":1}` ||
				first.header.Get(oncehttp.HeaderStored) != "false" {
				t.Errorf("%d %q, %v", first.status, first.body, first.header)
			}
			if tries < 2 {
				t.Errorf("it was tried %d times", tries)
			}
			wantProblem(t, a.post("K", `{}`), http.StatusConflict, oncehttp.ProblemInFlight)
			a.store.set(func(s *faultyStore) { s.complete = nil })
			var again got
			until(t, "the lease ends", func() bool {
				again = a.post("K", `{}`)
				return again.problem() != oncehttp.ProblemInFlight
			})
			if policy == once.Hold {
				wantProblem(t, again, http.StatusConflict, oncehttp.ProblemHeld)
			} else if again.status != 201 || again.body != `{"run":2}` ||
				len(again.header[oncehttp.HeaderStored]) > 0 {
				t.Errorf("%d %q", again.status, again.body)
			}
			a.wantRan(want)
		})
	}
}

func TestR15ASaveThatFailsForAWhileIsTriedAgain(t *testing.T) {
	a := orders(t, soon)
	tries := 0
	a.store.set(func(s *faultyStore) {
		s.complete = func(ctx context.Context, _ once.Outcome) error {
			if tries++; tries == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
	})
	first := a.post("K", `{}`)
	if len(first.header[oncehttp.HeaderStored]) > 0 {
		t.Errorf("%v", first.header)
	}
	wantReplay(t, first, a.post("K", `{}`))
	a.wantRan(1)
}

func TestR15ALiveAnswerTellsInATrailer(t *testing.T) {
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			a := server(t, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "one ")
				w.(http.Flusher).Flush()
				_, _ = io.WriteString(w, "two")
			}, soon)
			a.store.set(func(s *faultyStore) {
				s.complete = func(context.Context, once.Outcome) error {
					return once.ErrUnavailable
				}
			})
			g := a.post("K", `{}`)
			if g.body != "one two" || g.trailer.Get(oncehttp.HeaderStored) != "false" {
				t.Errorf("%q, trailers %v", g.body, g.trailer)
			}
			a.wantRan(1)
		})
	}
}

func TestR15AFreeOrLostAnswerBearsNoMark(t *testing.T) {
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusBadGateway} {
		a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }, soon)
		a.store.set(func(s *faultyStore) {
			s.complete = func(context.Context, once.Outcome) error { return once.ErrUnavailable }
			s.release = func(context.Context) error { return once.ErrUnavailable }
		})
		if g := a.post("K", `{}`); g.status != status || len(g.header[oncehttp.HeaderStored]) > 0 {
			t.Errorf("%d %v", g.status, g.header)
		}
		// The store doesn't know that it had no effect: the lease has to end.
		wantProblem(t, a.post("K", `{}`), http.StatusConflict, oncehttp.ProblemInFlight)
		a.wantRan(1)
	}
}

func TestAnAnswerForWhichTheStoreHasNoRoomIsNotRunAgain(t *testing.T) {
	mem, err := oncemem.New(oncemem.Config{SingleInstance: true, MaxOutcome: 50})
	if err != nil {
		t.Fatal(err)
	}
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, strings.Repeat("x", 100))
	}, func(c *oncehttp.Config) { c.Store = &faultyStore{Store: mem} })
	first := a.post("K", `{}`)
	if first.status != 201 || len(first.body) != 100 ||
		first.header.Get(oncehttp.HeaderStored) != "false" {
		t.Errorf("%d, %d bytes, %v", first.status, len(first.body), first.header)
	}
	again := a.post("K", `{}`)
	wantProblem(t, again, http.StatusConflict, oncehttp.ProblemNotKept) // the status is not known
	if !again.replayed() {
		t.Error("it is not marked")
	}
	a.wantRan(1)
}

func TestACorruptRecordIsItsOwnErrorAndNeverRunAgain(t *testing.T) {
	a := orders(t)
	a.post("K", `{}`)
	whole := a.store.record(t).Outcome.Data
	for name, data := range map[string][]byte{
		"nothing": nil, "another version": append([]byte{9}, whole[1:]...), "cut off": whole[:5],
		"status 0":   append([]byte{whole[0], 4, 0, 0, 0, 0}, "body"...),
		"status 103": append([]byte{whole[0], 4, 103, 0, 0, 0}, "body"...),
		"zeros":      make([]byte, 100), "ones": bytes.Repeat([]byte{0xff}, 100),
	} {
		a.store.set(func(s *faultyStore) {
			s.replay = func(r *once.ReplayError) { r.Outcome.Data = data }
		})
		g := a.post("K", `{}`)
		if g.problem() != oncehttp.ProblemRecordCorrupt {
			t.Errorf("%s:", name)
		}
		wantProblem(t, g, http.StatusInternalServerError, oncehttp.ProblemRecordCorrupt)
		if g.replayed() {
			t.Errorf("%s: it is marked as a replay", name)
		}
	}
	a.store.set(func(s *faultyStore) {
		s.claim = func(context.Context, once.Claim) error { return once.ErrCorrupt }
	})
	wantProblem(t, a.post("K", `{}`), http.StatusInternalServerError, oncehttp.ProblemRecordCorrupt)
	a.wantRan(1)
}

func TestWhatAStoreStillHasInItsHandsIsNotUsedAgain(t *testing.T) {
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat(r.Header.Get("Idempotency-Key"), 500))
	}, soon)
	late := make(chan []byte, 100)
	a.store.set(func(s *faultyStore) {
		s.complete = func(ctx context.Context, o once.Outcome) error {
			if bytes.Contains(o.Data, []byte("AAAA")) {
				late <- o.Data // a write that hangs has them still when its caller is gone
				return once.ErrUnavailable
			}
			return nil
		}
	})
	a.post("A", `{}`)
	data := receive(t, "the data", late)
	before := bytes.Clone(data)
	for range 50 {
		for _, key := range []string{"B", "C", "D"} {
			a.post(key, `{}`)
		}
	}
	if !bytes.Equal(before, data) {
		t.Error("the data of one answer became another's")
	}
}

func TestAReleasedKeyKeepsItsFingerprintUntilItsRetentionEnds(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	mem, err := oncemem.New(oncemem.Config{SingleInstance: true, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	var a *api
	a = newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if a.ran.Load() == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}, func(c *oncehttp.Config) {
		c.Store, c.Guard.Retention = &faultyStore{Store: mem}, time.Hour
	})
	a.post("K", `{}`)
	wantProblem(t, a.post("K", `{"x":1}`), 422, oncehttp.ProblemMismatch)
	now = now.Add(time.Hour + time.Second)
	if g := a.post("K", `{"x":1}`); g.status != http.StatusOK || g.replayed() {
		t.Errorf("after the retention: %d", g.status)
	}
	a.wantRan(2)
}

func TestRecordsAreShownToPeopleByMethodAndPath(t *testing.T) {
	a := orders(t, scoped)
	a.do("POST", "/orders/7?token=hidden", "0123456789abcdef", strings.NewReader(`{}`), "Account", "a")
	n := a.store.record(t).Note
	if n.Request != "POST /orders/7" || n.Key != "0123" || len(n.Scope) != 1 || n.Scope[0] != "a" {
		t.Errorf("%+v", n)
	}
}
