package config

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/oncekit/once/flow"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/outbox"
)

// derived are defaults that are made of other fields, as smallest makes them and as they are
// printed.
var derived = map[string]string{
	"Flows retention": "7d",
	"Probes reply":    "{}",
}

// meanings shows what smallest means where a default is not printed, in the words of the table.
var meanings = map[string]func(*testing.T, *Config) string{
	"Sources repeats": func(t *testing.T, c *Config) string {
		return either(sourceNamed(t, c, "own").NewAfter == 0, "duplicate")
	},
	"Sources keep_body": func(t *testing.T, c *Config) string {
		return either(sourceNamed(t, c, "own").KeepBody == 0, "as `retention`")
	},
	"Flows busy.refuse": func(t *testing.T, c *Config) string {
		return fmt.Sprint(machine(t, c, "f").Busy.Refuse)
	},
	"Flows starts": func(t *testing.T, c *Config) string {
		m := machine(t, c, "f")
		return either(len(m.Starts) == 0 || slices.Equal(m.Starts, []string{"go"}),
			"events with `initial` in their `from`")
	},
	"Flows events.NAME to": func(t *testing.T, c *Config) string {
		return either(machine(t, c, "f").Events["stay"].To == "", "the state stays")
	},
	"Effects retain": func(t *testing.T, c *Config) string {
		meta, _ := built(t, smallestEffect(t, c, "published"), effectVars())
		return fmt.Sprint(meta.Retain)
	},
	"Effects payload": func(t *testing.T, c *Config) string {
		_, body := built(t, smallestEffect(t, c, "called"), effectVars())
		return either(body == "", "empty")
	},
	"Effects content_type": func(t *testing.T, c *Config) string {
		text, _ := built(t, smallestEffect(t, c, "told"), effectVars())
		tree, _ := built(t, effectFlow(t, "{name: n, to: wms, payload: {a: 1}}")[0], effectVars())
		return fmt.Sprintf("`%s` or `%s`", tree.ContentType, text.ContentType)
	},
	"Effects method": func(t *testing.T, c *Config) string {
		meta, body := built(t, smallestEffect(t, c, "called"), effectVars())
		return methodOf(t, outbox.Message{ID: "1", Meta: meta, Payload: []byte(body)})
	},
	"Effects expires": func(t *testing.T, c *Config) string {
		return either(smallestEffect(t, c, "called").Expires == 0, "never")
	},
	"Effects when": func(t *testing.T, c *Config) string {
		return either(smallestEffect(t, c, "called").When == nil, "always")
	},
	"Destinations mqtt client_id": func(t *testing.T, c *Config) string {
		return either(broker(t, c).ClientID == "", "random")
	},
	"Destinations mqtt max_packet": func(t *testing.T, c *Config) string {
		return either(broker(t, c).MaxPacket == 0, "what the broker says")
	},
}

func either(ok bool, words string) string {
	if ok {
		return words
	}
	return "something else"
}

func sourceNamed(t *testing.T, c *Config, name string) *inbox.Source {
	t.Helper()
	i := slices.IndexFunc(c.Sources, func(s *inbox.Source) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no source %s", name)
	}
	return c.Sources[i]
}

func broker(t *testing.T, c *Config) *MQTTConfig {
	t.Helper()
	for _, d := range c.Destinations {
		if d.MQTT != nil {
			return d.MQTT
		}
	}
	t.Fatal("no broker")
	return nil
}

func smallestEffect(t *testing.T, c *Config, name string) flow.Effect {
	t.Helper()
	all := machine(t, c, "f").Events["go"].Effects
	i := slices.IndexFunc(all, func(ef flow.Effect) bool { return ef.Name == name })
	if i < 0 {
		t.Fatalf("no effect %s", name)
	}
	return all[i]
}

// methodOf sends a message and returns the method that arrives.
func methodOf(t *testing.T, m outbox.Message) (method string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		method = r.Method
	}))
	defer server.Close()
	sink, err := outbox.NewHTTP(outbox.HTTPConfig{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	if err := sink.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	return method
}
