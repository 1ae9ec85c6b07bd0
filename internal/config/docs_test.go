package config

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// everything is a file that says as much as a file can.
const everything = `listen: 127.0.0.1:8080
tls: {cert: c.pem, key: k.pem, client_ca: ca.pem}
proxies: [10.0.0.0/8]
sources:
  rcs:
    paths: [/a]
    scope: "header['x-tenant']"
    key: [["body.id"], ["body.other"]]
    event: "body.kind"
    ignore: [body.at]
    keep_body: 1d
    auth:
      bearer: a-token
      basic: {username: u, password: p}
      ips: [192.0.2.0/24]
      client_names: [n]
      stripe: {secret: 0123456789abcdef, tolerance: 1m}
      github: {secret: 0123456789abcdef}
      shopify: {secret: 0123456789abcdef}
      slack: {secret: 0123456789abcdef}
      twilio: {secret: 0123456789abcdef}
      paypal: {webhook_id: w, certificate: "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAzSnjCwcaqfg7Zzq4N9U4\npWRIC+PZ0Pbq76CMVrBJCnenPYUoGtBrlEJqDBYggqCtFQ/NqLRO5HC7A4n/z1cM\neK3Amw7Pwm8p3G90Hd8fmpGj59EdlEzhsjCcEIZzNNdHuROUiC3Agq6z//acMl7r\noRqlpzy0dB71ckmvIaMCCjnkaAqZ2UY4KG7ejuKDy76Mcdb+NOQXob/QK7LxMOos\nDjrRX2UAH4jhhbdvHVa8j84lBDfY/Tlizgcli+N5BAyTYjGzl9aeHGfWj2hIuKgH\neeAaESSfjJtqi2PdRDa+gJ102jeIIJhwBJuNNDJdXEKDSPbXna9ZRXGS1TRT3HWV\ncwIDAQAB\n-----END PUBLIC KEY-----"}
      any_of:
        - {adyen: {secret: "0000000000000000000000000000000000000000000000000000000000000000"}}
        - {standard_webhooks: {secret: MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw, header_prefix: svix}}
      hmac: {secret: "0123456789abcdef", header: X, prefix: p, separator: " ", sign_over: decoded,
        key_encoding: text, timestamp: {header: X-T, format: rfc3339}, signed: "{timestamp}{body}"}
    public_url: https://h
    drop_headers: [X-A]
    reply:
      accepted: {status: 200, headers: {X-B: "${body.id}"}, body: ok}
      duplicate: {status: 200}
      conflict: {status: 409}
      invalid: {status: 400}
      unauthorized: {status: 401}
      unavailable: {status: 503}
    to: {flow: f}
  web:
    key: ["body.id"]
    event: "body.kind"
    order_by: "body.agg"
    events: [made]
    to: {http: "https://h/x", headers: {X-C: d}, bearer: a-token, tls: {ca: ca.pem}}
  own:
    key: ["body.id"]
    to: {handler: h}
  list:
    content: form
    each: {items: "body.d", bad: refuse, max: 5}
    key: ["item.n"]
    repeats: {new_after: 1h}
    probes: [{text: t, reply: {status: 200}}, {when: "true"}]
    to: {handler: h}
  agv: {preset: robot-triple, reply: [], to: {handler: h}}
  sums:
    key: ["body.id"]
    to:
      document: {database: db, in: payments, key: {pay: "${body.p}"}, set: {x: "${body.x}", s: 1},
        set_on_insert: {b: [1.50, {text: body.x}]}, inc: {n: 1}, newer: s}
  made: {key: ["body.id"], to: {document: {database: db2, in: made, id: "${body.p}", set: {x: 1}}}}
flows:
  f:
    task: "body.task"
    initial: a
    final: [z]
    starts: [go]
    early: {park: 1h}
    busy: {refuse: true, effects: [{name: n, to: log}]}
    overdue: {b: 5m, effects: [{name: n, to: log}]}
    events:
      go:
        {from: a, to: b, set: {x: 1}, acquire: ["r/${task.x}"]}
      seq: {from: [b], max: {s: "${body.s}"}, newer: "body.s"}
      back: {from: [b], to: b, again: stale}
      end:
        from: [b]
        to: z
        release: ["r/${task.x}"]
        effects:
          - {name: n, to: m, topic: t, retain: true, headers: {a: b}, expires: 1h, when: "true"}
          - {name: o, to: w, path: /p, method: PUT, content_type: a/b, payload: {a: [1, null, 1.50]}}
          - {name: p, to: log, payload: [12345678901234567890123456789, "1", '', true]}
resources: {r: {on_release: [{name: n, to: log}], free: at_once}}
destinations:
  log: {log: {url: "http://h"}}
  m:
    mqtt:
      {url: "mqtts://h", version: 3.1.1, qos: 2, client_id: c, username: u, password: p,
      tls: {ca: a, cert: b, key: c, server_name: d}, max_packet: 1MiB, no_subscriber: done}
  w: {http: {url: "https://h", basic: {username: u, password: p}, headers: {X-D: e}}}
databases:
  db: {url: "postgres://u@h,i/d", retention: 60d}
  db2: {url: "sqlite:made.db"}
gateway:
  upstream: http://h
  auth: {url: "http://h/a"}
  scope: none
  routes: [{match: POST /, in_flight: {wait: 1s}}]
admin: {token: 0123456789abcdefg, hosts: [h]}
migrate:
  flows: {f: {states: {old: a}, events: {gone: discard}}}
  destinations: {old: discard}
  sources: {rcs: {key: changed}, old: discard, gone: rcs}
`

func TestDocs_NameEveryField(t *testing.T) {
	b, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	out := printed(t, mustParse(t, everything, Env{}))
	own := strings.Fields("rcs web own list agv f go seq back end b x s r log m w n a h" +
		" old gone sums made db db2 pay")
	seen := map[string]bool{}
	fields := regexp.MustCompile(`(?m)(?:^ *|[{,] ?)([a-z_]+):`)
	for _, m := range fields.FindAllStringSubmatch(out, -1) {
		field := m[1]
		if slices.Contains(own, field) || seen[field] {
			continue
		}
		seen[field] = true
		named := regexp.MustCompile("[`.]" + field + "[`.:]|`" + field + "|" + field + ": ")
		if !named.MatchString(doc) {
			t.Errorf("docs/configuration.md doesn't name %s", field)
		}
	}
	if len(seen) < 90 {
		t.Errorf("only %d fields were looked for", len(seen))
	}
}

func TestDocs_ExamplesLoad(t *testing.T) {
	b, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(b), -1)
	last := len(blocks) - 1
	if last < 2 {
		t.Fatalf("%d blocks", len(blocks))
	}
	for _, block := range blocks[:last] {
		mustParse(t, block[1], Env{})
	}
	flow := strings.NewReplacer("  f:", "  transport:", "flow: f", "flow: transport",
		"to: b", "to: running", "[b]", "[running]").Replace(minimal)
	mustParse(t, flow+blocks[last][1], Env{})
}

func TestDocs_NameEveryPreset(t *testing.T) {
	b, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range presetNames() {
		if !strings.Contains(string(b), "\n| `"+name+"` |") {
			t.Errorf("docs/configuration.md has no row for the preset %s", name)
		}
	}
}

func TestDocs_TheGatewaysFileLoads(t *testing.T) {
	b, err := os.ReadFile("../../docs/gateway.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(b), -1)
	if len(blocks) != 1 {
		t.Fatalf("%d blocks", len(blocks))
	}
	g := mustParse(t, blocks[0][1], Env{}).Gateway
	if len(g.Routes) != 3 || !g.Routes[1].HoldUnknown || g.Routes[2].Key != "optional" {
		t.Errorf("routes %+v", g.Routes)
	}
}
