package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/api"
	"github.com/oncekit/once/queue"
)

func TestHealthSaysThatTheProcessIsAliveWhateverTheStoreDoes(t *testing.T) {
	e := newEmpty(t, func(c *api.Config) {
		c.Ping = func(context.Context) error { return errors.New("disk full") }
	})
	e.get("/healthz").exactly("{\n  \"status\": \"alive\"\n}\n")
}

func TestReadinessFollowsTheStore(t *testing.T) {
	var full atomic.Bool
	e := newEmpty(t, func(c *api.Config) {
		c.Token = "secret"
		c.Ping = func(context.Context) error {
			if full.Load() {
				return fmt.Errorf("disk is full: %w", once.ErrUnavailable)
			}
			return nil
		}
	})
	e.get("/readyz").exactly("{\n  \"status\": \"ready\"\n}\n")
	full.Store(true)
	a := e.get("/readyz")
	a.problem(http.StatusServiceUnavailable, "unavailable", "can't be written: disk is full")
	if a.Header().Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", a.Header().Get("Retry-After"))
	}
	e.token = "" // a stranger learns that, not why
	a = e.get("/readyz")
	a.problem(http.StatusServiceUnavailable, "unavailable", "the store can't be written")
	if strings.Contains(a.Body.String(), "disk") {
		t.Errorf("told without a token: %s", a.Body)
	}
	full.Store(false)
	e.get("/readyz").ok()
}

func TestAStoreThatHangsIsAskedOnceAndIsNotReady(t *testing.T) {
	good := newEmpty(t).cfg
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		release := make(chan struct{})
		cfg := good
		cfg.Ping = func(context.Context) error {
			asked.Add(1)
			<-release
			return nil
		}
		handler, err := api.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		e := &env{t: t, api: handler}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				e.get("/readyz").problem(http.StatusServiceUnavailable, "unavailable",
					"did not answer within 2s")
			})
		}
		wg.Wait()
		if n := asked.Load(); n != 1 {
			t.Errorf("the store was asked %d times", n)
		}
		close(release)
		synctest.Wait()
		e.get("/readyz").ok()
	})
}

func TestAStoreThatIsGoneIsUnavailable(t *testing.T) {
	e := newEnv(t)
	id := e.callback()
	if err := e.store.Close(); err != nil {
		t.Fatal(err)
	}
	owner := `{"actor":"a","reason":"b","to":{"flow":"transport","task":"T"}}`
	for target, body := range map[string]string{
		"/callbacks": "", "/callbacks/" + id: "", "/effects": "", "/effects/" + id: "",
		"/tasks/transport/T": "", "/resources": "", "/rejected": "",
		"/callbacks/" + id + "/retry": by, "/callbacks/" + id + "/discard": by,
		"/callbacks/" + id + "/accept": `{"actor":"a","reason":"b","receipt":1}`,
		"/effects/" + id + "/retry":    by, "/effects/" + id + "/discard": by,
		"/effects/" + id + "/done": by, "/resources/roadway/R/release": by,
		"/resources/roadway/R/transfer": owner,
		"/tasks/transport/T/move":       `{"actor":"a","reason":"b","to":"running"}`,
	} {
		method := http.MethodPost
		if body == "" {
			method = http.MethodGet
		}
		a := e.raw(method, "/api/v1"+target, body)
		a.problem(http.StatusServiceUnavailable, "unavailable", "store is")
		if a.Header().Get("Retry-After") != "1" {
			t.Errorf("%s: Retry-After %q", target, a.Header().Get("Retry-After"))
		}
	}
	e.get("/readyz").problem(http.StatusServiceUnavailable, "unavailable", "can't be written")
	e.get("/healthz").ok()
}

// browser is a store with one answer.
type browser struct {
	queue.Browser
	rows func(context.Context) error
}

func (b browser) Rows(ctx context.Context, _ queue.RowQuery) (queue.RowPage, error) {
	return queue.RowPage{}, b.rows(ctx)
}

func TestWhatNobodyForesawIsLoggedAndNotTold(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(context.Context) error
		log  string
	}{
		"error": {func(context.Context) error { return errors.New("secret detail") },
			"secret detail"},
		// What a panic says may be a part of a message.
		"panic": {func(context.Context) error { panic("secret detail") },
			`panic="a value of type string"`},
	} {
		fail := c.fail
		var log strings.Builder
		e := newEmpty(t, func(c *api.Config) {
			c.Logger = logTo(&log)
			c.Browser = browser{c.Browser, fail}
		})
		a := e.get("/api/v1/callbacks")
		a.problem(http.StatusInternalServerError, "internal", "internal error, see the log")
		told, logged := a.Body.String(), log.String()
		if strings.Contains(told, "secret") || !strings.Contains(logged, c.log) {
			t.Errorf("%s: told %s, logged %s", name, told, logged)
		}
	}
}

func TestASlowStoreIsGivenUpAndManyRequestsDoNotPileUp(t *testing.T) {
	entered := make(chan struct{}, 9)
	e := newEmpty(t, func(c *api.Config) {
		c.Timeout, c.Concurrent = 300*time.Millisecond, 2
		c.Browser = browser{c.Browser, func(ctx context.Context) error {
			entered <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}}
	})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			e.get("/api/v1/callbacks").problem(http.StatusServiceUnavailable, "unavailable",
				"the store did not answer in time")
		})
		<-entered
	}
	e.get("/api/v1/effects").problem(http.StatusServiceUnavailable, "unavailable",
		"2 requests are being worked already")
	e.get("/healthz").ok()
	wg.Wait()
}

func TestMetricsAreServedAndSayWhetherTheStoreIsReady(t *testing.T) {
	var full atomic.Bool
	e := newEnv(t, func(c *api.Config) {
		ping := c.Ping
		c.Ping = func(ctx context.Context) error {
			if full.Load() {
				return once.ErrUnavailable
			}
			return ping(ctx)
		}
	})
	e.callback()
	for _, want := range []string{"once_store_ready 1\n",
		`once_callbacks{source="rcs",state="pending"} 1` + "\n",
		`once_callbacks{source="rcs",state="dead"} 0` + "\n", "go_goroutines "} {
		if got := e.get("/metrics").Body.String(); !strings.Contains(got, want) {
			t.Errorf("metrics lack %q:\n%s", want, got)
		}
	}
	full.Store(true)
	if got := e.get("/metrics").Body.String(); !strings.Contains(got, "once_store_ready 0\n") {
		t.Error("the store is not ready, and the metrics say nothing")
	}
}

func TestRejectedMessagesAreShownLatestFirst(t *testing.T) {
	e := newEnv(t)
	for _, r := range []queue.Rejected{
		{Source: "rcs", Outcome: queue.Invalid, Reason: "key part 1 is missing", Size: 12,
			Peer: "192.0.2.7:4711", Meta: []byte(meta), Body: []byte(`{"taskCode"`)},
		{Source: "wms", Outcome: queue.Unauthorized, Reason: "no token"},
	} {
		r.At = e.clock.now()
		if err := e.store.Reject(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if all, _ := e.get("/api/v1/rejected").items(); len(all) != 2 || all[0]["source"] != "wms" ||
		all[0]["body"] != nil {
		t.Errorf("rejected %v", all)
	}
	if one, _ := e.get("/api/v1/rejected?limit=1").items(); len(one) != 1 {
		t.Errorf("a list of 1 holds %d", len(one))
	}
	e.get("/api/v1/rejected?source=rcs").exactly(`{
  "items": [
    {
      "id": 1,
      "source": "rcs",
      "at": "2026-07-01T10:00:00.000000Z",
      "outcome": "invalid",
      "reason": "key part 1 is missing",
      "peer": "192.0.2.7:4711",
      "size": 12,
      "request": {
        "method": "POST",
        "path": "/in/rcs",
        "query": "a=1",
        "host": "once.test",
        "peer": "192.0.2.7:4711"
      },
      "headers": {
        "Content-Type": [
          "application/json"
        ]
      },
      "body": "{\"taskCode\""
    }
  ]
}
`)
}
