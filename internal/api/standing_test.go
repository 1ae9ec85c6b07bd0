package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/oncekit/once/internal/api"
	"github.com/oncekit/once/queue"
)

func TestDestinationsSayWhyEffectsWait(t *testing.T) {
	since := time.Date(2026, 4, 3, 10, 8, 6, 0, time.UTC)
	e := newEnv(t, func(c *api.Config) {
		c.Destinations = func() []api.Destination {
			return []api.Destination{
				{Name: "plant", Kind: "mqtt", Reason: "connection refused"},
				{Name: "wms", Kind: "http", Reason: "paused: 401", PausedSince: since},
				{Name: "board", Kind: "log", Open: true},
			}
		}
	})
	items := e.get("/api/v1/destinations").ok()["items"].([]any)
	want := []map[string]any{
		{"name": "plant", "kind": "mqtt", "open": false, "reason": "connection refused",
			"paused_since": nil},
		{"name": "wms", "kind": "http", "open": false, "reason": "paused: 401",
			"paused_since": "2026-04-03T10:08:06.000000Z"},
		{"name": "board", "kind": "log", "open": true, "reason": "", "paused_since": nil},
	}
	for i, one := range want {
		for field, v := range one {
			if got := items[i].(map[string]any)[field]; got != v {
				t.Errorf("%s of %s: %v, want %v", field, one["name"], got, v)
			}
		}
	}
}

func TestSourcesSayWhyCallbacksWait(t *testing.T) {
	since := time.Date(2026, 4, 3, 10, 8, 6, 0, time.UTC)
	e := newEnv(t, func(c *api.Config) {
		c.Sources = func() []api.Source {
			return []api.Source{
				{Name: "rcs", To: "flow/transport"},
				{Name: "pay", To: "http", Reason: "401 from the service", PausedSince: since},
			}
		}
	})
	e.get("/api/v1/sources").exactly(`{
  "items": [
    {
      "name": "rcs",
      "to": "flow/transport",
      "open": true,
      "reason": "",
      "paused_since": null
    },
    {
      "name": "pay",
      "to": "http",
      "open": false,
      "reason": "401 from the service",
      "paused_since": "2026-04-03T10:08:06.000000Z"
    }
  ]
}
`)
	newEnv(t).get("/api/v1/sources").exactly("{\n  \"items\": []\n}\n")
}

func TestNodesSayWhoIsAliveAndWhatEachWorksOn(t *testing.T) {
	e := newEnv(t, func(c *api.Config) { c.Nodes = c.Browser.(queue.NodeLister) })
	id := e.effect(func(a *queue.Arrival) { a.Event, a.Task = "pulse", "T-1" })
	got, err := e.store.Lease(t.Context(), queue.LeaseRequest{Lane: "effect/plant", Max: 1,
		For: time.Minute})
	if err != nil || len(got.Rows) != 1 {
		t.Fatalf("leased %d rows, %v", len(got.Rows), err)
	}
	items := e.get("/api/v1/nodes").ok()["items"].([]any)
	if len(items) != 1 {
		t.Fatalf("%d nodes", len(items))
	}
	node := items[0].(map[string]any)
	if node["state"] != "alive" || node["seen_at"] != "2026-07-01T10:00:00.000000Z" ||
		node["more"] != false {
		t.Errorf("node %v", node)
	}
	works := node["works"].([]any)
	if len(works) != 1 {
		t.Fatalf("it works on %v", works)
	}
	for field, want := range map[string]any{"kind": "effect", "source": "plant",
		"event": "pulse", "task": "T-1", "attempt": 1.0, "id": id,
		"since": "2026-07-01T10:00:00.000000Z"} {
		if got := works[0].(map[string]any)[field]; got != want {
			t.Errorf("%s is %v, want %v", field, got, want)
		}
	}
}

func TestAStoreThatDoesNotTellItsNodesIsNotFound(t *testing.T) {
	newEnv(t).get("/api/v1/nodes").problem(http.StatusNotFound, "not-found",
		"the store does not tell who serves it")
}
