package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/server"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/queue"
)

// payments is a source worked by the handler in Go that tests give the name h; further fields of
// `to` can follow.
func payments(to string) string {
	return `
sources:
  pay:
    key: ["body.id"]
    order_by: "body.account"
    to: {handler: h` + to + `}
`
}

// handles gives the server its handler.
func handles(h inbox.Handler) func(*server.Options) {
	return func(o *server.Options) { o.Handlers = map[string]inbox.Handler{"h": h} }
}

// payment is a message of the source pay.
func payment(id, account string) string {
	return fmt.Sprintf(`{"id":%q,"account":%q}`, id, account)
}

func TestAPanicInOneCommitLeavesItsNeighboursDoneAndNothingOfItself(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	ready := make(chan struct{}, 64)
	h := &bookings{work: func(inbox.Callback) { ready <- struct{}{}; <-gate }}
	s := serve(t, t.TempDir(), payments(", concurrency: 64, retry: {base: 10ms, attempts: 2}"),
		handles(h))
	const all = 30
	for i := range all {
		id := strconv.Itoa(i)
		if i == 7 {
			id = "bad"
		}
		s.post(200, "pay", payment(id, "account"+id))
	}
	for range all { // all of them commit at the same moment
		<-ready
	}
	close(gate)
	testserver.Until(t, patience, "the neighbours are done", func() bool {
		return s.metric(`once_callbacks{source="pay",state="done"}`) == strconv.Itoa(all-1)
	})
	c := s.awaitCallback("key=bad", "dead")
	if c.Attempt != 2 || !strings.Contains(c.Error, "bad payment") || len(c.Attempts) != 2 {
		t.Errorf("the bad one: %d attempts, %q, tries %+v", c.Attempt, c.Error, c.Attempts)
	}
	s.post(200, "pay", payment("sum", "count"))
	s.awaitCallback("key=sum", "done")
	if got := h.counted(); got != all { // the neighbours, and sum itself
		t.Errorf("%d rows were booked, want %d: one each, none of the bad one", got, all)
	}
}

// bookings writes a row for each callback; the one with the key bad panics after it has written,
// and the one with the key sum counts.
type bookings struct {
	work func(inbox.Callback)
	mu   sync.Mutex
	n    int
}

func (h *bookings) Work(_ context.Context, c inbox.Callback) (any, error) {
	if c.Attempt == 1 && c.Key[0] != "sum" {
		h.work(c)
	}
	return nil, nil
}

func (h *bookings) Commit(ctx context.Context, tx queue.Tx, c inbox.Callback, _ any) error {
	if _, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS booked (id TEXT)`); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO booked VALUES (?)`, c.Key[0]); err != nil {
		return err
	}
	switch c.Key[0] {
	case "bad":
		panic("bad payment")
	case "sum":
		h.mu.Lock()
		defer h.mu.Unlock()
		return tx.QueryRowContext(ctx, `SELECT count(*) FROM booked`).Scan(&h.n)
	}
	return nil
}

func (h *bookings) counted() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n
}

func TestI09_AFailedHandlerIsWorkedAgainAndARepeatMeanwhileIsADuplicate(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var keys []string
	fail := true
	s := serve(t, t.TempDir(), payments(", retry: {base: 10ms, cap: 20ms}"), handles(inbox.WorkFunc(
		func(_ context.Context, c inbox.Callback) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			keys = append(keys, c.IdempotencyKey())
			if fail {
				return nil, errors.New("the database is down")
			}
			return nil, nil
		})))
	s.post(200, "pay", payment("1", "A"))
	testserver.Until(t, patience, "it was tried", func() bool {
		return s.callback("key=1").Error == "the database is down"
	})
	if a := s.post(200, "pay", payment("1", "A")); !strings.Contains(a.body, "duplicate") &&
		!strings.Contains(a.body, "accepted") {
		t.Errorf("the repeat was answered %s", a.body)
	}
	mu.Lock()
	fail = false
	mu.Unlock()
	c := s.awaitCallback("key=1", "done")
	if c.Attempt < 2 {
		t.Errorf("%d attempts", c.Attempt)
	}
	for _, k := range keys {
		if k != c.ID {
			t.Errorf("an attempt had the key %s, want %s in each", k, c.ID)
		}
	}
}

func TestK19_APanicOfWorkIsUnknownAndHeldForAPersonWhereTheFileSaysSo(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	calls := 0
	s := serve(t, t.TempDir(), payments(", on_unknown: hold"), handles(inbox.WorkFunc(
		func(context.Context, inbox.Callback) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls == 1 {
				panic("after the charge")
			}
			return nil, nil
		})))
	s.post(200, "pay", payment("1", "A"))
	c := s.awaitCallback("key=1", "held")
	if !strings.Contains(c.Error, "after the charge") {
		t.Errorf("the reason is %q", c.Error)
	}
	s.post(200, "pay", payment("1", "A")) // a repeat does not revive what is held
	if c := s.callback("key=1"); c.State != "held" {
		t.Errorf("a repeat made it %s", c.State)
	}
	s.change(200, "/api/v1/callbacks/"+c.ID+"/retry", "")
	c = s.awaitCallback("key=1", "done")
	if len(c.Audit) != 1 || c.Audit[0].Actor != "ann" || c.Audit[0].Action != "retry" {
		t.Errorf("the audit is %+v, want ann's retry", c.Audit)
	}
}

func TestAServiceInAnyLanguageIsHandedTheCallbackUnderOneKeyUntilItTakesIt(t *testing.T) {
	t.Parallel()
	sink := testserver.NewHTTPSink(t)
	sink.Script(testserver.Answer{Status: 503}, testserver.Answer{Drop: true},
		testserver.Answer{Status: 429, Header: http.Header{"Retry-After": {"0"}}},
		testserver.Answer{Status: 204})
	s := serve(t, t.TempDir(), `
sources:
  pay:
    key: ["body.id"]
    event: "body.type"
    to: {http: "`+sink.URL()+`/payments?x=1", bearer: service-secret-token, retry: {base: 10ms}}
`)
	const body = `{ "id": "1",  "type":"paid","n":9007199254740993 }`
	s.post(200, "pay", body, "X-Own", "kept", "Authorization", "Bearer of-the-sender")
	c := s.awaitCallback("key=1", "done")
	got := sink.Requests()
	if len(got) != 4 {
		t.Fatalf("%d requests, want 4", len(got))
	}
	for i, r := range got {
		want := map[string]string{"Idempotency-Key": `"` + c.ID + `"`, "Once-Source": "pay",
			"Once-Event": "paid", "Once-Attempt": strconv.Itoa(i + 1), "X-Own": "kept",
			"Authorization": "Bearer service-secret-token", "Content-Type": "application/json"}
		for name, v := range want {
			if got := r.Header.Get(name); got != v {
				t.Errorf("request %d: %s: %s, want %s", i, name, got, v)
			}
		}
		if string(r.Body) != body || r.URI != "/payments?x=1" {
			t.Errorf("request %d: %s with %s, want the body as it came", i, r.URI, r.Body)
		}
	}
}

func TestD12_WhatAServiceAnswersDecidesWhatBecomesOfTheCallback(t *testing.T) {
	t.Parallel()
	sink := testserver.NewHTTPSink(t)
	s := serve(t, t.TempDir(), `
sources:
  pay: {key: ["body.id"], to: {http: "`+sink.URL()+`", retry: {base: 10ms, attempts: 2}}}
`)
	for _, c := range []struct {
		status int
		state  string
		cause  string
	}{
		{200, "done", ""}, {400, "dead", "permanent"}, {404, "dead", "permanent"},
		{410, "dead", "permanent"}, {501, "dead", "permanent"}, {302, "dead", "permanent"},
		{408, "dead", "transient"}, {409, "dead", "transient"}, {500, "dead", "transient"},
	} {
		id := strconv.Itoa(c.status)
		sink.Otherwise(testserver.Answer{Status: c.status,
			Header: http.Header{"Location": {sink.URL() + "/elsewhere"}}})
		before := len(sink.Requests())
		s.post(200, "pay", payment(id, ""))
		sink.Await(t, before+1, patience)
		got := s.awaitCallback("key="+id, c.state)
		if got.DeadCause != c.cause {
			t.Errorf("%d: the cause is %q, want %q", c.status, got.DeadCause, c.cause)
		}
	}
	for _, r := range sink.Requests() {
		if r.URI != "/" {
			t.Errorf("a redirect was followed to %s", r.URI)
		}
	}
}

// sources are the sources as the API lists them, by name.
func (s *service) sources() map[string]map[string]any {
	s.t.Helper()
	var list struct{ Items []map[string]any }
	s.get("/api/v1/sources", &list)
	out := map[string]map[string]any{}
	for _, one := range list.Items {
		out[fmt.Sprint(one["name"])] = one
	}
	return out
}

func TestD12_AServiceThatRefusesUsPausesItsSourceAndNoOther(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			sink, other := testserver.NewHTTPSink(t), testserver.NewHTTPSink(t)
			sink.Otherwise(testserver.Answer{Status: status})
			s := serve(t, t.TempDir(), `
sources:
  pay:
    key: ["body.id"]
    to: {http: "`+sink.URL()+`", probe: 100ms, concurrency: 1, retry: {attempts: 1}}
  rest: {key: ["body.id"], to: {http: "`+other.URL()+`"}}
`)
			if m := s.get("/metrics", nil).body; !strings.Contains(m,
				`once_source_paused{source="pay"} 0`) {
				t.Error("the source is not shown from the start")
			}
			const all = 20
			for i := range all {
				s.post(200, "pay", payment(strconv.Itoa(i), ""))
			}
			testserver.Until(t, patience, "the source is paused", func() bool {
				return s.metric(`once_source_paused{source="pay"}`) == "1"
			})
			paused := s.sources()["pay"]
			if paused["open"] != false || paused["paused_since"] == nil || paused["to"] != "http" ||
				!strings.Contains(fmt.Sprint(paused["reason"]), strconv.Itoa(status)) {
				t.Errorf("the API shows the source as %v", paused)
			}
			if rest := s.sources()["rest"]; rest["open"] != true || rest["reason"] != "" {
				t.Errorf("the API shows the other source as %v", rest)
			}
			sink.Await(t, len(sink.Requests())+2, patience) // one is tried now and then
			s.post(200, "rest", payment("1", ""))
			s.awaitCallback("source=rest", "done")

			sink.Otherwise(testserver.Answer{})
			testserver.Until(t, patience, "all are done", func() bool {
				return s.metric(`once_callbacks{source="pay",state="done"}`) == strconv.Itoa(all)
			})
			for _, c := range s.callbacks("source=pay") {
				if c.Attempt != 1 {
					t.Errorf("%s: %d attempts, want 1: a refusal of us is none", c.Key, c.Attempt)
				}
			}
			// Those that were refused, and none that was taken only to be given back.
			refused := strconv.Itoa(len(sink.Requests()) - all)
			s.awaitMetrics(`once_attempts_total{result="not_tried",source="pay"} ` + refused)
			if m := s.metric(`once_source_paused{source="pay"}`); m != "0" {
				t.Error("the source is still shown as paused")
			}
			if pay := s.sources()["pay"]; pay["open"] != true || pay["paused_since"] != nil {
				t.Errorf("the API still shows it as %v", pay)
			}
			for _, line := range []string{`level=ERROR msg="service paused" source=pay error=`,
				`level=INFO msg="service resumed" source=pay`} {
				if n := strings.Count(s.log.String(), line); n != 1 {
					t.Errorf("%d lines %s in the log, want 1", n, line)
				}
			}
		})
	}
}

func TestSourcesThatShareAHandlerKeepTheirOwnPolicies(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), `
sources:
  one: {key: ["body.id"], to: {handler: h, retry: {base: 1ms, attempts: 1}}}
  two: {key: ["body.id"], to: {handler: h, retry: {base: 1ms, attempts: 3}}}
`, handles(inbox.WorkFunc(func(context.Context, inbox.Callback) (any, error) {
		return nil, errors.New("no")
	})))
	s.post(200, "one", payment("1", ""))
	s.post(200, "two", payment("1", ""))
	for source, attempts := range map[string]int{"one": 1, "two": 3} {
		if c := s.awaitCallback("source="+source, "dead"); c.Attempt != attempts {
			t.Errorf("%s was tried %d times, want %d", source, c.Attempt, attempts)
		}
	}
}
