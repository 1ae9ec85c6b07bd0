package oncehttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncehttp"
)

// byAccount takes the scope from a header that stands for a login.
func byAccount(r *http.Request) (once.Scope, error) { return once.NewScope(accounts(r)...) }

func accounts(r *http.Request) []string { return r.Header.Values("Account") }

func scoped(c *oncehttp.Config) { c.Scope = byAccount }

func TestS01TwoTenantsHaveTwoExecutions(t *testing.T) {
	a := orders(t, scoped)
	first := a.post("K", `{}`, "Account", "a")
	other := a.post("K", `{}`, "Account", "b")
	if first.body != `{"run":1}` || other.body != `{"run":2}` || other.replayed() {
		t.Errorf("a got %s, b got %s", first.body, other.body)
	}
	wantReplay(t, first, a.post("K", `{}`, "Account", "a"))
	// The parts count, not what they are when joined.
	if g := a.post("K", `{}`, "Account", "a", "Account", "b"); g.replayed() || g.status != 201 {
		t.Errorf("two parts: %d", g.status)
	}
	a.wantRan(3)
}

func TestS01WithoutAScopeNothingIsRun(t *testing.T) {
	a := orders(t, scoped)
	wantProblem(t, a.post("K", `{}`), http.StatusUnauthorized, oncehttp.ProblemScopeMissing)
	wantProblem(t, a.post("K", `{}`, "Account", ""), http.StatusUnauthorized,
		oncehttp.ProblemScopeMissing)

	zero := orders(t, func(c *oncehttp.Config) {
		c.Scope = func(*http.Request) (once.Scope, error) { return once.Scope{}, nil }
	})
	wantProblem(t, zero.post("K", `{}`), http.StatusUnauthorized, oncehttp.ProblemScopeMissing)

	var log bytes.Buffer
	broken := orders(t, func(c *oncehttp.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		c.Scope = func(*http.Request) (once.Scope, error) {
			return once.Scope{}, errors.New("directory is away")
		}
	})
	g := broken.post("K", `{}`)
	wantProblem(t, g, http.StatusServiceUnavailable, oncehttp.ProblemScopeFailed)
	if g.header.Get("Retry-After") != "1" || strings.Contains(g.body, "directory") {
		t.Errorf("Retry-After %q, body %s", g.header.Get("Retry-After"), g.body)
	}
	if !strings.Contains(log.String(), "directory is away") {
		t.Errorf("the log has no cause: %s", &log)
	}
	for _, x := range []*api{a, zero, broken} {
		x.wantRan(0)
	}
}

func TestS07AConfigurationWithoutAChoiceIsRefused(t *testing.T) {
	store := newStore(t)
	good := oncehttp.Config{Store: store, Scope: oncehttp.NoScope}
	for name, change := range map[string]func(*oncehttp.Config){
		"no scope":           func(c *oncehttp.Config) { c.Scope = nil },
		"no store":           func(c *oncehttp.Config) { c.Store = nil },
		"key rule":           func(c *oncehttp.Config) { c.Key = "maybe" },
		"safe method":        func(c *oncehttp.Config) { c.Methods = []string{"GET"} },
		"lower-case method":  func(c *oncehttp.Config) { c.Methods = []string{"post"} },
		"empty method":       func(c *oncehttp.Config) { c.Methods = []string{""} },
		"pointer":            func(c *oncehttp.Config) { c.Content.Ignore = []string{"sent_at"} },
		"negative lease":     func(c *oncehttp.Config) { c.Guard.Lease = -1 },
		"rule":               rules("application/json", "jsn"),
		"media type":         rules("json", oncehttp.ContentJSON),
		"media type, params": rules("text/plain; charset=utf-8", oncehttp.ContentRaw),
		"any media type":     rules("*/*", oncehttp.ContentRaw),
	} {
		cfg := good
		change(&cfg)
		if _, err := oncehttp.Middleware(cfg); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
	if _, err := oncehttp.Middleware(good); err != nil {
		t.Error(err)
	}
}

func rules(media string, rule oncehttp.ContentRule) func(*oncehttp.Config) {
	return func(c *oncehttp.Config) {
		c.Content.Rules = map[string]oncehttp.ContentRule{media: rule}
	}
}

func TestS04AnotherEndpointNeverGetsTheFirstOnesAnswer(t *testing.T) {
	a := orders(t)
	if g := a.post("K", `{}`); g.status != http.StatusCreated {
		t.Fatal(g)
	}
	for _, to := range [][2]string{
		{"POST", "/orders/1/cancel"}, {"PATCH", "/orders"}, {"POST", "/orders/"},
		{"POST", "/orders?dry_run=1"}, {"POST", "/%6frders"}, {"POST", "/Orders"},
	} {
		wantProblem(t, a.do(to[0], to[1], "K", strings.NewReader(`{}`)),
			http.StatusUnprocessableEntity, oncehttp.ProblemMismatch)
	}
	a.wantRan(1)
}

func TestTheHostBelongsToItOnlyIfAsked(t *testing.T) {
	for _, counts := range []bool{false, true} {
		a := orders(t, func(c *oncehttp.Config) { c.Content.Host = counts })
		send := func(host string) got {
			req := a.request("POST", "/orders", strings.NewReader(`{}`), "Idempotency-Key", "K")
			req.Host = host
			return a.send(req)
		}
		first := send("a.test")
		wantReplay(t, first, send("A.test"))
		if g := send("b.test"); counts {
			wantProblem(t, g, http.StatusUnprocessableEntity, oncehttp.ProblemMismatch)
		} else {
			wantReplay(t, first, g)
		}
	}
}

func TestS02SealedAnswersAreUnreadableInTheStore(t *testing.T) {
	old, fresh := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	seal := func(keys ...[]byte) func(*oncehttp.Config) {
		s, err := oncehttp.NewSealer(keys...)
		if err != nil {
			t.Fatal(err)
		}
		return func(c *oncehttp.Config) { c.Seal = s }
	}
	secret := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Account", "hidden-header")
		_, _ = io.WriteString(w, `{"session_token":"hidden-body"}`)
	}
	a := newAPI(t, secret, seal(old))
	first := a.post("K", `{}`)
	data := a.store.record(t).Outcome.Data
	for _, plain := range []string{"hidden", "session_token", "Account"} {
		if bytes.Contains(data, []byte(plain)) {
			t.Errorf("the store holds %q", plain)
		}
	}
	wantReplay(t, first, a.post("K", `{}`))
	a.wantRan(1)

	again := func(change ...func(*oncehttp.Config)) got {
		b := &api{t: t, store: a.store}
		serve(t, b, b.guard(secret, change...))
		g := b.post("K", `{}`)
		b.wantRan(0)
		return g
	}
	wantReplay(t, first, again(seal(fresh, old))) // the new key in front, the old one still opens
	for _, g := range []got{again(seal(fresh)), again()} {
		wantProblem(t, g, http.StatusInternalServerError, oncehttp.ProblemRecordCorrupt)
	}
	a.store.set(func(s *faultyStore) {
		s.replay = func(r *once.ReplayError) {
			r.Outcome.Data = bytes.Clone(r.Outcome.Data)
			r.Outcome.Data[len(r.Outcome.Data)-20] ^= 1
		}
	})
	wantProblem(t, a.post("K", `{}`), 500, oncehttp.ProblemRecordCorrupt)
	a.wantRan(1)
}

func TestS02ASealedAnswerCanNotBeMovedToAnotherKey(t *testing.T) {
	s, err := oncehttp.NewSealer(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	a := orders(t, func(c *oncehttp.Config) { c.Seal = s })
	a.post("K", `{}`)
	stolen := a.store.record(t).Outcome
	a.post("L", `{}`)
	a.store.set(func(s *faultyStore) {
		s.replay = func(r *once.ReplayError) { r.Outcome = stolen }
	})
	wantProblem(t, a.post("L", `{}`), 500, oncehttp.ProblemRecordCorrupt)
	a.wantRan(2)
}

func TestASealerRefusesWrongKeys(t *testing.T) {
	good := bytes.Repeat([]byte{1}, 32)
	for name, keys := range map[string][][]byte{
		"none": {}, "short": {good[:31]}, "long": {append(good, 1)}, "second": {good, good[:16]},
		"twice": {good, good}, "empty": {{}},
	} {
		if _, err := oncehttp.NewSealer(keys...); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
}

func TestS09NothingOfTheRequestIsKeptButItsFingerprint(t *testing.T) {
	var log bytes.Buffer
	a := orders(t, soon, func(c *oncehttp.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	key := "0123456789abcdef-the-rest-of-the-key"
	a.post(key, `{"card":"4242-hidden"}`, "Authorization", "Bearer test-token", "Cookie", "sid=1")
	a.store.set(func(s *faultyStore) {
		s.claim = func(context.Context, once.Claim) error { return once.ErrUnavailable }
	})
	a.post(key, `{"card":"4242-hidden"}`, "Authorization", "Bearer test-token")
	dump := fmt.Sprintf("%+v %s", a.store.record(t), &log)
	for _, c := range a.store.claims() {
		dump += fmt.Sprintf("%+v", c)
	}
	dump += string(a.store.record(t).Outcome.Data)
	for _, s := range []string{"test-token", "sid=1", "4242-hidden", "the-rest", "89abcdef"} {
		if strings.Contains(dump, s) {
			t.Errorf("%q is kept", s)
		}
	}
	if !strings.Contains(log.String(), "could not be claimed") {
		t.Errorf("the log says nothing of the store: %s", &log)
	}
}

func TestAuthorizeIsAskedBeforeEachClaimAndReplay(t *testing.T) {
	var allowed atomic.Bool
	allowed.Store(true)
	var asked atomic.Int64
	a := orders(t, func(c *oncehttp.Config) {
		c.Authorize = func(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
			asked.Add(1)
			if !allowed.Load() {
				http.Error(w, "not any more", http.StatusForbidden)
				return nil, false
			}
			return r, true
		}
	})
	first := a.post("K", `{}`)
	wantReplay(t, first, a.post("K", `{}`))
	allowed.Store(false)
	for _, key := range []string{"K", "new"} {
		if g := a.post(key, `{}`); g.status != http.StatusForbidden || g.replayed() ||
			g.body != "not any more\n" {
			t.Errorf("%s: %d %q", key, g.status, g.body)
		}
	}
	wantProblem(t, a.post(`"`, `{}`), http.StatusBadRequest, oncehttp.ProblemKeyInvalid)
	if n := asked.Load(); n != 4 { // a key that can't be read is refused before
		t.Errorf("asked %d times, want 4", n)
	}
	a.wantRan(1)
	want := "first replay not-authorized not-authorized key-invalid"
	if s := a.observed(); s != want {
		t.Errorf("told %q, want %q", s, want)
	}
}

type accountKey struct{}

func TestAuthorizesContextReachesScopeAndHandler(t *testing.T) {
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.Context().Value(accountKey{}))
	}, func(c *oncehttp.Config) {
		c.Authorize = func(_ http.ResponseWriter, r *http.Request) (*http.Request, bool) {
			account := r.Header.Get("Account")
			return r.WithContext(context.WithValue(r.Context(), accountKey{}, account)), true
		}
		c.Scope = func(r *http.Request) (once.Scope, error) {
			account, _ := r.Context().Value(accountKey{}).(string)
			return once.NewScope(account)
		}
	})
	for _, account := range []string{"a", "b"} {
		if g := a.post("K", `{}`, "Account", account); g.body != account {
			t.Errorf("%s got %q", account, g.body)
		}
	}
	a.wantRan(2)
}

func TestAuthorizeIsAskedAgainAfterAWait(t *testing.T) {
	g := newGate()
	var asked atomic.Int64
	a := newAPI(t, g.ServeHTTP, func(c *oncehttp.Config) {
		c.Guard.Wait = patience
		c.Authorize = func(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
			if asked.Add(1) == 3 {
				http.Error(w, "not any more", http.StatusForbidden)
				return nil, false
			}
			return r, true
		}
	})
	first := async(func() got { return a.post("K", `{}`) })
	receive(t, "the handler runs", g.entered)
	second := async(func() got { return a.post("K", `{}`) })
	until(t, "the repeat is allowed to wait", func() bool { return asked.Load() == 2 })
	start := time.Now()
	until(t, "a second and more pass", func() bool {
		return time.Since(start) > 1100*time.Millisecond
	})
	close(g.leave)
	receive(t, "the first answer", first)
	again := receive(t, "the repeat's answer", second)
	if again.status != http.StatusForbidden || again.replayed() {
		t.Errorf("the repeat got %d %q after its right was withdrawn", again.status, again.body)
	}
	a.wantRan(1)
}
