package api_test

import (
	"testing"
	"time"

	"github.com/oncekit/once/internal/api"
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
