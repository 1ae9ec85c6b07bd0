package server_test

import (
	"strings"
	"testing"

	"github.com/oncekit/once/internal/server"
	"github.com/oncekit/once/internal/testserver"
)

func TestGateway_RecordsInRedisOutliveTheProcess(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, "appendonly yes")
	o := newOrigin(t, numbered())
	file := gatewayTo(o.URL, byAccount+"  records: redis://"+redis.Addr()+"/0\n",
		"{match: POST /, key: required, on_unknown: retry}")
	s := serve(t, t.TempDir(), file)
	first := s.pay("/p", "k", "{}")
	wantStatus(t, first, 201, "")
	s.end()
	s = serve(t, t.TempDir(), file) // a store that is new
	wantReplayOf(t, s.pay("/p", "k", "{}"), first)
	wantStatus(t, s.pay("/p", "k", "[]"), 422, "mismatch")
	if r := s.recordOf("?scope=a1&key=k"); r.State != "completed" {
		t.Errorf("record %+v", r)
	}
	redis.Stop()
	a := s.pay("/p", "k2", "{}")
	wantStatus(t, a, 503, "store-unavailable")
	if o.ran.Load() != 1 {
		t.Errorf("the origin ran %d times, want once", o.ran.Load())
	}
}

func TestGateway_ARedisThatForgetsIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, "appendonly no")
	cfg, err := load(t.TempDir(), gatewayTo("http://127.0.0.1:1",
		byAccount+"  records: redis://user:the-password@"+redis.Addr()+"/x\n", "{match: POST /}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.Open(t.Context(), server.Options{Config: cfg}); err == nil ||
		strings.Contains(err.Error(), "the-password") ||
		!strings.Contains(err.Error(), "records can't be used: invalid database number") {
		t.Errorf("a wrong URL: %v", err)
	}
	cfg, err = load(t.TempDir(), gatewayTo("http://127.0.0.1:1",
		byAccount+"  records: redis://"+redis.Addr()+"\n", "{match: POST /}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.Open(t.Context(), server.Options{Config: cfg}); err == nil ||
		!strings.Contains(err.Error(), "set appendonly yes, or write redis_may_forget: true") {
		t.Errorf("without a file: %v", err)
	}
	serve(t, t.TempDir(), gatewayTo("http://127.0.0.1:1", byAccount+"  records: redis://"+
		redis.Addr()+"\n  redis_may_forget: true\n",
		"{match: POST /, key: required, on_unknown: hold}"))
}

func TestGateway_ARedisThatEvictsIsAcceptedIfTheFileSaysSo(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, "appendonly yes", "maxmemory-policy allkeys-lru")
	records := byAccount + "  records: redis://" + redis.Addr() + "\n"
	cfg, err := load(t.TempDir(), gatewayTo("http://127.0.0.1:1", records, "{match: POST /}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.Open(t.Context(), server.Options{Config: cfg}); err == nil ||
		!strings.Contains(err.Error(), "set noeviction, or write redis_may_evict: true") {
		t.Errorf("an evicting server: %v", err)
	}
	serve(t, t.TempDir(), gatewayTo("http://127.0.0.1:1", records+"  redis_may_evict: true\n",
		"{match: POST /}"))
}

func TestGateway_IsNotReadyWhileTheRedisOfItsRecordsIsAway(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, "appendonly yes")
	s := serve(t, t.TempDir(), gatewayTo("http://127.0.0.1:1",
		byAccount+"  records: redis://"+redis.Addr()+"\n", "{match: POST /}"))
	ready := func() int { return s.get("/readyz", nil).status }
	if got := ready(); got != 200 {
		t.Fatalf("at first: %d", got)
	}
	until := func(what string, status int) {
		t.Helper()
		testserver.Until(t, patience, what, func() bool { return ready() == status })
	}
	redis.Freeze()
	until("a Redis that hangs is told", 503)
	a := s.get("/readyz", nil)
	if a.status == 503 && (!strings.Contains(a.body, "records can't be reached: ") ||
		strings.Contains(a.body, "can't be written")) {
		t.Errorf("the reason is told as %s", a.body)
	}
	redis.Thaw()
	until("it is ready again", 200)
	redis.Stop()
	until("a Redis that is down is told", 503)
}
