package server_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/internal/server"
	"github.com/oncekit/once/internal/testserver"
)

func TestS09_TokensAndCookiesAreNowhereInTheStore(t *testing.T) {
	t.Parallel()
	sink := testserver.NewHTTPSink(t)
	dir := t.TempDir()
	s := serve(t, dir, `
sources:
  pay:
    key: ["body.id"]
    auth: {bearer: senders-secret-token}
    drop_headers: [X-Api-Key]
    to: {http: "`+sink.URL()+`", bearer: services-secret-token, headers: {X-Own: own-secret-header}}
`)
	secrets := []string{"senders-secret-token", "secret-cookie", "secret-proxy", "secret-api-key",
		"another-token", "services-secret-token", "own-secret-header"}
	headers := []string{"Cookie", "sid=secret-cookie", "Proxy-Authorization", "Basic secret-proxy",
		"X-Api-Key", "secret-api-key", "X-Plain", "a-plain-header"}
	right := append([]string{"Authorization", "Bearer senders-secret-token"}, headers...)
	s.post(200, "pay", `{"id":"1"}`, right...)
	s.post(200, "pay", `{"id":"1"}`, right...)              // duplicate
	s.post(200, "pay", `{"id":"1","other":true}`, right...) // conflict
	s.post(400, "pay", `{"no":"key"}`, right...)            // invalid
	s.post(401, "pay", `{"id":"2"}`, append([]string{"Authorization", "Bearer another-token"},
		headers...)...)
	c := s.awaitCallback("key=1", "done")
	if c.Headers["X-Plain"] == nil || c.Headers["Cookie"] != nil || c.Headers["X-Api-Key"] != nil ||
		c.Headers["Authorization"] != nil || len(c.Hidden["Cookie"]) != 1 ||
		len(c.Hidden["Authorization"]) != 1 || len(c.Hidden["X-Api-Key"]) != 1 {
		t.Errorf("headers %v, hidden %v", c.Headers, c.Hidden)
	}
	var ring struct{ Items []struct{} }
	testserver.Until(t, patience, "the refused ones are stored", func() bool {
		s.get("/api/v1/rejected", &ring)
		return len(ring.Items) == 2
	})
	findNone(t, dir, secrets) // with the write-ahead log
	s.end()
	findNone(t, dir, secrets)
	if got := sink.Requests()[0].Header; got.Get("Cookie") != "" || got.Get("X-Api-Key") != "" {
		t.Errorf("the service was handed %v", got)
	}
}

// findNone checks that no file of the store holds a secret, and that one holds what is no secret.
func findNone(t *testing.T, dir string, secrets []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "once.db*"))
	if err != nil || len(files) < 2 {
		t.Fatalf("files of the store: %v, %v", files, err)
	}
	plain := false
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		plain = plain || bytes.Contains(b, []byte("a-plain-header"))
		for _, secret := range secrets {
			if bytes.Contains(b, []byte(secret)) {
				t.Errorf("%s holds %s", filepath.Base(file), secret)
			}
		}
	}
	if !plain {
		t.Error("the store doesn't hold a plain header: is this the right file?")
	}
}

func TestTheOperatorsListenerAnswersNoPageOfAnotherOrigin(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), flowOf("go: {from: [a], to: z}"))
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/api/v1/callbacks",
		"/api/v1/openapi.yaml"} {
		if a := s.get(path, nil); a.status != http.StatusOK {
			t.Errorf("%s without a token on loopback: %d", path, a.status)
		}
		for _, h := range [][]string{
			{"Origin", "http://evil.example"}, {"Sec-Fetch-Site", "cross-site"},
		} {
			a, err := s.send(http.MethodGet, s.admin+path, "", h...)
			if err != nil || a.status != http.StatusForbidden {
				t.Errorf("%s with %v: %v, status %d, want 403", path, h, err, a.status)
			}
		}
		req, err := http.NewRequest(http.MethodGet, s.admin+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "rebound.example:8081"
		res, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("%s for another host: %d, want 403", path, res.StatusCode)
		}
	}
	a, err := s.send(http.MethodPost, s.url+"/api/v1/callbacks", "{}")
	if err != nil || a.status != http.StatusNotFound {
		t.Errorf("the API on the senders' port: %v, status %d, want 404", err, a.status)
	}
}

func TestTheOperatorsListenerAsksForItsToken(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), "admin: {token: sixteen-letters-or-more}\n"+
		flowOf("go: {from: [a], to: z}"))
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 401,
		"/api/v1/callbacks": 401, "/api/v1/openapi.yaml": 401} {
		if a := s.get(path, nil); a.status != want {
			t.Errorf("%s without the token: %d, want %d", path, a.status, want)
		}
		a, err := s.send(http.MethodGet, s.admin+path, "", "Authorization",
			"Bearer sixteen-letters-or-more")
		if err != nil || a.status != 200 {
			t.Errorf("%s with the token: %v, status %d", path, err, a.status)
		}
	}
}

func TestATaskThatStandsStillRaisesItsAlarmOnce(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	s := serve(t, t.TempDir(), p.config(t, p.broker.Addr(), "running: 30m", "running: 100ms"))
	s.post(200, "rcs", event("R1", "T1", "startFE", ""))
	got := p.wms.Await(t, 1, patience)
	if want := `{"state":"running","task":"T1"}`; string(got[0].Body) != want {
		t.Errorf("the alarm is %s, want %s", got[0].Body, want)
	}
	s.post(200, "rcs", event("R2", "T1", "finishFE", "")) // it goes on all the same
	s.awaitTask("T1", "unloaded")
	s.awaitEffects("state=done&destination=wms", 2)
	if n := len(s.listEffects("name=task-stands-still")); n != 1 {
		t.Errorf("%d alarms, want 1", n)
	}
}

func TestI21_AnIdentityIsKnownLongerThanItsBodyAndForgottenAfterItsRetention(t *testing.T) {
	t.Parallel()
	sink := testserver.NewHTTPSink(t)
	s := serve(t, t.TempDir(), `
sources:
  short: {key: ["body.id"], retention: 200ms, to: {http: "`+sink.URL()+`"}}
  long:  {key: ["body.id"], retention: 7d, keep_body: 200ms, to: {http: "`+sink.URL()+`"}}
`)
	s.post(200, "short", `{"id":"1"}`)
	s.post(200, "long", `{"id":"1"}`)
	s.awaitCallback("source=long", "done")
	testserver.Until(t, patience, "the short one is forgotten and the long one's body swept",
		func() bool {
			return len(s.callbacks("source=short")) == 0 && s.callback("source=long").Body == nil
		})
	s.post(200, "short", `{"id":"1"}`)
	s.post(200, "long", `{"id":"1"}`)
	s.post(200, "long", `{"id":"1","other":true}`)
	sink.Await(t, 3, patience)
	s.awaitCallback("source=short", "done")
	testserver.Until(t, patience, "the repeats are counted", func() bool {
		c := s.callback("source=long")
		return c.Duplicates == 1 && c.Conflicts == 1
	})
	if n := len(sink.Requests()); n != 3 {
		t.Errorf("%d requests, want 3: the forgotten one was new", n)
	}
}

func TestAWrongFileOrAMissingHandlerIsToldAtTheStart(t *testing.T) {
	t.Parallel()
	msg := refusal(t, t.TempDir(), flowOf("go: {from: [a], to: nowhere}"))
	if !strings.Contains(msg, "once.yaml:10:") || !strings.Contains(msg, "^") {
		t.Errorf("no place and caret:\n%s", msg)
	}
	if msg := refusal(t, t.TempDir(), payments("")); !strings.Contains(msg, "examples/handler") {
		t.Errorf("a missing handler: %s", msg)
	}
	if msg := openError(t, "create: false\n"+flowOf("go: {from: [a], to: z}")); !strings.Contains(
		msg, "create") {
		t.Errorf("a store that isn't there: %s", msg)
	}
	dir := t.TempDir()
	if msg := refusal(t, dir, payments("")); !strings.Contains(msg, "handler") {
		t.Errorf("a handler: %s", msg)
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("it left %v behind, %v", left, err)
	}
}

func TestATakenAddressIsToldOnceAndLeavesNoStoreBehind(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	for _, o := range []config.Override{
		{Listen: taken.Addr().String(), AdminListen: "127.0.0.1:0"},
		{Listen: "127.0.0.1:0", AdminListen: taken.Addr().String()},
	} {
		cfg, err := config.Parse(filepath.Join(dir, "once.yaml"),
			[]byte(flowOf("go: {from: [a], to: z}")), config.Env{Override: o})
		if err != nil {
			t.Fatal(err)
		}
		_, err = server.Open(t.Context(), server.Options{Config: cfg, Effects: io.Discard})
		if err == nil || strings.Count(err.Error(), taken.Addr().String()) != 1 ||
			!strings.Contains(err.Error(), "address already in use (is another server") {
			t.Errorf("the error is %v", err)
		}
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("it left %v behind, %v", left, err)
	}
}

func TestAnAddressIsShownAsItWasConfigured(t *testing.T) {
	t.Parallel()
	cfg, err := config.Parse(filepath.Join(t.TempDir(), "once.yaml"),
		[]byte(flowOf("go: {from: [a], to: z}")), config.Env{Override: config.Override{
			Listen: "localhost:0", AdminListen: "0.0.0.0:0", AdminToken: "0123456789abcdef"}})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.Open(t.Context(), server.Options{Config: cfg, Effects: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := srv.Addr(), srv.AdminAddr(); !strings.HasPrefix(a, "localhost:") ||
		!strings.HasPrefix(b, "0.0.0.0:") || strings.HasSuffix(a+b, ":0") {
		t.Errorf("shown as %s and %s", a, b)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if err := srv.Run(ctx); err != nil {
		t.Error(err)
	}
}
