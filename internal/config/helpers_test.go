package config

import (
	"bytes"
	"net/http"
	"net/url"
	"testing"

	"github.com/oncekit/once/flow"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/value"
)

// minimal is a file that loads; tests put what they are about in its places.
const (
	minimalSource = `sources:
  rcs:
    key: ["body.id"]
    event: "body.kind"
    to: {flow: f}
`
	minimalFlow = `flows:
  f:
    task: "body.task"
    initial: a
    final: [z]
    events:
      go: {from: [a], to: b}
      end: {from: [b], to: z}
`
	minimalDestinations = `destinations:
  wms: {http: {url: "http://127.0.0.1:9000"}}
`
	minimal = minimalSource + minimalFlow + minimalDestinations
)

// mustParse loads a text in a directory of its own.
func mustParse(t *testing.T, text string, env Env) *Config {
	t.Helper()
	c, err := Parse("/plant/once.yaml", []byte(text), env)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return c
}

func printed(t *testing.T, c *Config) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// message is an incoming message with a JSON body.
func message(t *testing.T, body string) *inbox.Message {
	t.Helper()
	v, err := value.Decode([]byte(body), value.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return &inbox.Message{
		Source: "rcs", Method: http.MethodPost, Header: http.Header{"X-Tenant": {"t1"}},
		Query: url.Values{"q": {"1"}}, Raw: []byte(body), Body: v,
	}
}

func vars(env map[string]string) Env {
	return Env{Getenv: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
}

func machine(t *testing.T, c *Config, name string) *flow.Machine {
	t.Helper()
	for _, m := range c.Machines {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("no flow %s", name)
	return nil
}
