package config

import (
	"strings"
	"testing"
	"time"
)

func gatewayRoute(t *testing.T, fields string) *Config {
	t.Helper()
	return mustParse(t, `gateway: {upstream: "http://h", scope: none, lease: 1s, routes: [{`+
		"match: POST /, "+fields+"}]}\n", Env{})
}

func TestGateway_IgnoreThatNoContentHeedsIsWarnedOf(t *testing.T) {
	const ignore = "ignore: [/sent_at], content: "
	for content, warned := range map[string]bool{
		"{application/json: raw}": true, `{"application/*": raw}`: true,
		"{text/plain: raw}": false, "{application/json: json}": false,
		"{application/json: raw, application/x.v1: json}":    false,
		`{"application/*": raw, application/json: json}`:     false,
		"{application/json: form, text/plain: raw}":          true,
		`{"application/*": json, application/json: "raw"}`:   false,
		`{application/x-www-form-urlencoded: raw}`:           false,
		`{"application/*": multipart, "text/*": "raw"}`:      true,
		`{"application/*": multipart, "text/plain": "json"}`: false,
	} {
		w := gatewayRoute(t, ignore+content).Warnings
		got := len(w) == 1 && strings.Contains(w[0].Msg, "`ignore` has no meaning")
		if got != warned {
			t.Errorf("%s: %v", content, w)
		}
	}
	if w := gatewayRoute(t, "content: {application/json: raw}").Warnings; len(w) != 0 {
		t.Errorf("nothing is ignored: %v", w)
	}
}

func TestGateway_AnIgnoredRouteIsPrintedAndReadAgain(t *testing.T) {
	c := gatewayRoute(t, "key: ignored")
	var printed strings.Builder
	if err := c.Print(&printed); err != nil {
		t.Fatal(err)
	}
	again := mustParse(t, printed.String(), Env{})
	if r := again.Gateway.Routes[0]; r.Key != "ignored" || r.Pattern.Method() != "POST" {
		t.Errorf("route %+v", r)
	}
	if again.Gateway.Lease != time.Second {
		t.Errorf("lease %v", again.Gateway.Lease)
	}
}

func TestGateway_AScopeOfWhichOnePartIsWrittenIsOne(t *testing.T) {
	c := mustParse(t, `gateway: {upstream: "http://h", routes: [{match: POST /}], `+
		`scope: ["'v1'", "header['x-a']"]}`+"\n", Env{})
	if c.Gateway.Scope == nil {
		t.Error("there is no scope")
	}
}
