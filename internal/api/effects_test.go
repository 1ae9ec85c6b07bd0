package api_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/oncekit/once/internal/api"
	"github.com/oncekit/once/queue"
)

func TestAnEffectIsShownWithItsAddressingAndTries(t *testing.T) {
	e := newEnv(t)
	id := e.effect(func(a *queue.Arrival) {
		a.Expires, a.Body, a.Resource = time.Hour, []byte{0xff, 0}, "roadway/R/1"
	})
	e.settle("effect/plant", queue.Settlement{State: queue.Pending, RetryIn: time.Minute,
		Error: "connection refused"})
	e.get("/api/v1/effects/" + id).exactly(`{
  "id": "` + id + `",
  "destination": "plant",
  "name": "unlock",
  "flow": "transport",
  "task": "TASK-001",
  "resource": "roadway/R/1",
  "cause": "person",
  "state": "pending",
  "attempt": 1,
  "created_at": "2026-07-01T10:00:00.000000Z",
  "next_try_at": "2026-07-01T10:01:01.000000Z",
  "error": "connection refused",
  "frees": false,
  "dead_cause": "",
  "expires_at": "2026-07-01T11:00:00.000000Z",
  "started_at": "2026-07-01T10:00:00.000000Z",
  "finished_at": null,
  "addressing": {
    "topic": "a/b"
  },
  "body": null,
  "body_base64": "/wA=",
  "attempts": [
    {
      "n": 1,
      "started_at": "2026-07-01T10:00:00.000000Z",
      "ended_at": "2026-07-01T10:00:01.000000Z",
      "result": "retry",
      "error": "connection refused"
    }
  ],
  "audit": []
}
`)
}

func TestAnEffectThatIsBeingSentIsLeftAlone(t *testing.T) {
	e := newEnv(t)
	id := e.effect()
	_, err := e.store.Lease(t.Context(), queue.LeaseRequest{Lane: "effect/plant", Max: 1,
		For: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for _, do := range []string{"retry", "discard", "done"} {
		e.post("/api/v1/effects/"+id+"/"+do, by).
			problem(http.StatusConflict, "state", "it is sending")
	}
}

// oneRow is a store that has one row.
type oneRow struct {
	queue.Browser
	row queue.Row
}

func (s oneRow) Row(context.Context, queue.Kind, string) (queue.RowDetail, error) {
	return queue.RowDetail{Row: s.row}, nil
}

func TestTheEndOfALeaseIsNoNextTry(t *testing.T) {
	at := time.Date(2026, 7, 1, 10, 0, 30, 123456789, time.FixedZone("", 2*3600))
	for state, want := range map[queue.State]any{
		queue.Sending: nil, queue.Pending: "2026-07-01T08:00:30.123456Z", queue.Held: nil,
	} {
		e := newEmpty(t, func(c *api.Config) {
			c.Browser = oneRow{c.Browser, queue.Row{State: state, NextAt: at, ReceivedAt: at}}
		})
		if got := e.get("/api/v1/effects/x").ok(); got["next_try_at"] != want {
			t.Errorf("%s: next_try_at %v, want %v", state, got["next_try_at"], want)
		}
	}
}

func TestEveryFilterOfEffectsSelects(t *testing.T) {
	e := newEnv(t)
	e.callback()
	first := e.effect()
	e.settle("effect/plant", queue.Settlement{State: queue.Held})
	second := e.effect(func(a *queue.Arrival) { a.Source, a.Event, a.Task = "wms", "tell", "T/2" })
	for query, want := range map[string]string{
		"": second + first, "state=held": first, "state=pending": second, "destination=wms": second,
		"name=unlock": first, "task=T%2F2": second, "limit=1": second,
		"destination=wms&state=held": "",
	} {
		items, _ := e.get("/api/v1/effects?" + query).items()
		got := ""
		for _, i := range items {
			got += i["id"].(string)
		}
		if got != want {
			t.Errorf("%q selects %q, want %q", query, got, want)
		}
	}
}

func TestAHeldEffectIsResolvedByAPerson(t *testing.T) {
	e := newEnv(t)
	for do, want := range map[string]string{
		"retry": "pending", "discard": "discarded", "done": "done",
	} {
		id := e.effect(func(a *queue.Arrival) { a.Lane = "effect/" + do })
		e.settle("effect/"+do, queue.Settlement{State: queue.Held, Error: "broke off"})
		got := e.post("/api/v1/effects/"+id+"/"+do, by).ok()
		audit := got["audit"].([]any)[0].(map[string]any)
		if got["state"] != want || audit["action"] != do || audit["actor"] != "anna" ||
			audit["reason"] != "tested" {
			t.Errorf("%s: %v", do, got)
		}
	}
}

func TestTheEndOfAnEffectByAPersonSetsItsResourceFree(t *testing.T) {
	for do, want := range map[string]string{"done": "done", "discard": "discarded"} {
		e := newEnv(t)
		e.event("startFE", "A", `{"roadway":"R1"}`)
		e.event("finish", "A", `{}`)
		list, _ := e.get("/api/v1/resources").items()
		if list[0]["freeing"] != 1.0 || list[0]["owner"] == nil {
			t.Fatalf("resource %v", list[0])
		}
		effects, _ := e.get("/api/v1/effects").items()
		if effects[0]["resource"] != "roadway/R1" || effects[0]["name"] != "unlock" {
			t.Fatalf("effect %v", effects[0])
		}
		e.settle("effect/plant", queue.Settlement{State: queue.Dead,
			DeadCause: queue.CausePermanent})
		got := e.post("/api/v1/effects/"+effects[0]["id"].(string)+"/"+do, by).ok()
		if got["state"] != want || got["frees"] != true {
			t.Errorf("effect %v", got)
		}
		if list, _ := e.get("/api/v1/resources").items(); list[0]["owner"] != nil ||
			list[0]["freeing"] != 0.0 {
			t.Errorf("%s: resource %v", do, list[0])
		}
	}
}
