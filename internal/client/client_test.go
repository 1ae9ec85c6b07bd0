package client_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once/internal/client"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/wire"
)

// against returns a client of a server that answers as it is told.
func against(t *testing.T, answer http.HandlerFunc) *client.Client {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	c, err := client.New(client.Config{URL: s.URL, Token: "the-secret-token"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func respond(status int, media, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func TestURLsThatNameNoServerAreRefused(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"":                              "want a URL such as",
		"127.0.0.1:8081":                "want a URL such as",
		"ftp://host":                    "want a URL such as",
		"http://":                       "want a URL such as",
		"http://user:secret@host:8081/": "has no name or password",
		"http://host?x=1":               "without a query",
		"http://host/\x7f":              "want a URL such as",
	} {
		_, err := client.New(client.Config{URL: url})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", url, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the password is told: %v", err)
		}
	}
	for _, c := range []client.Config{
		{URL: "http://h", Token: "two\nlines"}, {URL: "http://h", CA: []byte("none")},
	} {
		if _, err := client.New(c); err == nil || strings.Contains(err.Error(), "lines\"") {
			t.Errorf("%q, %q: %v", c.Token, c.CA, err)
		}
	}
	for url, open := range map[string]bool{"http://127.0.0.1:1": false, "http://localhost:1": false,
		"http://[::1]:1": false, "https://plant.example": false, "http://plant.example": true,
		"http://192.0.2.1:8081": true} {
		c, err := client.New(client.Config{URL: url})
		if err != nil || c.IsOpen() != open {
			t.Errorf("%s: open %v, %v; want %v", url, !open, err, open)
		}
	}
}

func TestWhatIsAskedForIsWhatTheAPIHas(t *testing.T) {
	t.Parallel()
	var got *http.Request
	c := against(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		respond(200, "application/json", `{"items": [{"id": "a", "state": "dead", "more": [1]}],
			"next": "n"}`)(w, r)
	})
	page, err := c.Callbacks(t.Context(), client.Query{Limit: 7, Cursor: "c/d",
		Filter: map[string]string{"task": "A&B", "key": ""}})
	if err != nil {
		t.Fatal(err)
	}
	if want := "/api/v1/callbacks?cursor=c%2Fd&limit=7&task=A%26B"; got.RequestURI != want {
		t.Errorf("asked for %s, want %s", got.RequestURI, want)
	}
	if auth := got.Header.Get("Authorization"); auth != "Bearer the-secret-token" {
		t.Errorf("authorization %q", auth)
	}
	one := page.Items[0]
	if page.Next != "n" || one.Value.ID != "a" || one.Value.State != "dead" {
		t.Errorf("read %+v", page)
	}
	if want := `{"id": "a", "state": "dead", "more": [1]}`; string(one.JSON) != want {
		t.Errorf("what the server wrote: %s, want %s", one.JSON, want)
	}
	_, _ = c.Task(t.Context(), "f", "A/1?x") // what comes is no task
	if want := "/api/v1/tasks/f/A%2F1%3Fx"; got.RequestURI != want {
		t.Errorf("asked for %s, want %s", got.RequestURI, want)
	}
}

func TestAChangeSaysWhoAndWhy(t *testing.T) {
	t.Parallel()
	var body map[string]any
	c := against(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" ||
			r.RequestURI != "/api/v1/resources/roadway/R%2F7/transfer" {
			t.Errorf("%s %s, %v", r.Method, r.RequestURI, r.Header)
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		respond(200, "application/json", `{"kind": "roadway", "owner": null}`)(w, r)
	})
	_, err := c.Transfer(t.Context(), "roadway", "R/7", wire.TransferChange{
		Change: wire.Change{Actor: "anna", Reason: "swapped"},
		To:     &wire.Owner{Flow: "transport", Task: "T"}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"actor": "anna", "reason": "swapped",
		"to": map[string]any{"flow": "transport", "task": "T"}}
	if fmt.Sprint(body) != fmt.Sprint(want) {
		t.Errorf("body %v, want %v", body, want)
	}
}

func TestARefusalHasTheServersOwnText(t *testing.T) {
	t.Parallel()
	c := against(t, respond(409, "application/problem+json; charset=utf-8",
		`{"type": "/problems/state", "title": "T", "status": 200, "detail": "it is done"}`))
	_, err := c.Callback(t.Context(), "x")
	var p *wire.Problem
	if !errors.As(err, &p) || p.Status != 409 || p.Type != "/problems/state" ||
		err.Error() != "it is done" {
		t.Errorf("%v, %+v", err, p)
	}
}

func TestWhatIsNoAnswerOfTheAPIIsTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"a page":      {respond(200, "text/html", "<html>\n<body>"), `status 200, "<html>"`},
		"a proxy":     {respond(502, "text/plain", "bad gateway"), `status 502, "bad gateway"`},
		"a redirect":  {respond(302, "text/plain", ""), "status 302"},
		"other JSON":  {respond(200, "application/json", `[1]`), "JSON of another shape"},
		"half JSON":   {respond(200, "application/json", `{"id": "a`), "JSON of another shape"},
		"no detail":   {respond(500, "application/problem+json", `{}`), "a problem without a detail"},
		"no problem":  {respond(500, "application/problem+json", `<`), "a problem without a detail"},
		"wrong times": {respond(200, "application/json", `{"received_at": "now"}`), "another shape"},
	} {
		_, err := against(t, c.answer).Callback(t.Context(), "x")
		var strange *client.StrangeError
		if !errors.As(err, &strange) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestNoAnswerIsUnreachable(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(slow.Close)
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte(`{"id": "a`)) // the rest never comes
	}))
	t.Cleanup(cut.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	for url, want := range map[string]string{
		slow.URL: "no answer within 50ms", cut.URL: "the answer broke off",
		gone.URL: "connection refused", secure.URL: "unknown authority",
	} {
		limit := 5 * time.Second
		if url == slow.URL {
			limit = 50 * time.Millisecond
		}
		c, err := client.New(client.Config{URL: url, Timeout: limit})
		if err != nil {
			t.Fatal(err)
		}
		err = c.Ready(t.Context())
		var away *client.UnreachableError
		if !errors.As(err, &away) || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "the server at "+url+" is not reachable: ") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, err := client.New(client.Config{URL: slow.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ready(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after an end: %v", err)
	}
}

func TestAnAuthorityOfOnesOwnIsTrustedWhereItIsNamed(t *testing.T) {
	t.Parallel()
	ca := testserver.NewCA(t)
	certificate, key := ca.Server(t)
	s := httptest.NewUnstartedServer(respond(200, "application/json", `{"status": "ready"}`))
	s.TLS = loaded(t, certificate, key)
	s.StartTLS()
	t.Cleanup(s.Close)
	pem, err := os.ReadFile(ca.File())
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Config{URL: s.URL, CA: pem})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTheTokenIsInNoErrorAndGoesNowhereElse(t *testing.T) {
	t.Parallel()
	elsewhere := testserver.NewHTTPSink(t)
	c := against(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL()+"/x", http.StatusTemporaryRedirect)
	})
	if _, err := c.Counts(t.Context()); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	if n := len(elsewhere.Requests()); n != 0 {
		t.Errorf("%d requests followed a redirect", n)
	}
}

func loaded(t *testing.T, certificate, key string) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}
