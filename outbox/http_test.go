package outbox

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTestHTTP(t *testing.T, cfg HTTPConfig) *HTTP {
	t.Helper()
	h, err := NewHTTP(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// wantClass checks the class of a Send's result; 0 stands for no error.
func wantClass(t *testing.T, err error, want Class) {
	t.Helper()
	var got Class
	if err != nil {
		got, _ = classOf(err)
	}
	if got != want {
		t.Errorf("class %d, want %d: %v", got, want, err)
	}
}

func TestHTTPSendsTheMessage(t *testing.T) {
	sink := testserver.NewHTTPSink(t)
	h := newTestHTTP(t, HTTPConfig{
		URL: sink.URL() + "/api/?site=1", Bearer: "secret",
		Header: map[string]string{"X-Plant": "north", "X-Kind": "a"},
	})
	m := Message{
		ID: "0a1b2c", TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		TraceState: "rojo=00f067aa0ba902b7",
		Fence:      12, Payload: []byte(`{"a":1}`),
		Meta: Meta{Path: "/tasks/T%2F1?x=y", Method: "PUT", Header: map[string]string{
			"x-kind": "b", "Authorization": "Bearer other"}},
	}
	if err := h.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	got := sink.Requests()[0]
	if got.Method != "PUT" || got.URI != "/api/tasks/T%2F1?site=1&x=y" ||
		string(got.Body) != `{"a":1}` {
		t.Errorf("got %s %s %s", got.Method, got.URI, got.Body)
	}
	for name, want := range map[string]string{
		"Idempotency-Key": `"0a1b2c"`, "Content-Type": "application/json", "Fence": "12",
		"Traceparent": m.TraceParent, "Tracestate": m.TraceState, "X-Plant": "north",
		"X-Kind": "b", "Content-Length": "7",
		"Authorization": "Bearer secret", "User-Agent": "once", "Accept-Encoding": "",
	} {
		if name == "Content-Length" {
			continue // the server keeps it apart; the body was compared
		}
		if values := got.Header.Values(name); strings.Join(values, "|") != want {
			t.Errorf("%s: %q, want %q", name, values, want)
		}
	}
}

func TestHTTPSendsAnEmptyMessageAndTheBasicLogin(t *testing.T) {
	sink := testserver.NewHTTPSink(t)
	h := newTestHTTP(t, HTTPConfig{URL: sink.URL(), User: "Aladdin", Password: "open sesame"})
	if err := h.Send(t.Context(), Message{ID: `a"\b`}); err != nil {
		t.Fatal(err)
	}
	got := sink.Requests()[0]
	if got.Method != "POST" || got.URI != "/" || len(got.Body) != 0 ||
		got.Header["Content-Type"] != nil {
		t.Errorf("got %+v", got)
	}
	// The example of RFC 7617, section 2.
	if a := got.Header.Get("Authorization"); a != "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==" {
		t.Errorf("authorization %q", a)
	}
	if k := got.Header.Get("Idempotency-Key"); k != `"a\"\\b"` {
		t.Errorf("key %s", k)
	}
}

func TestD12_StatusDecidesWhatBecomesOfTheRow(t *testing.T) {
	sink := testserver.NewHTTPSink(t)
	h := newTestHTTP(t, HTTPConfig{URL: sink.URL()})
	classes := map[Class][]int{
		0:         {200, 201, 202, 204, 299},
		Transient: {408, 409, 425, 429, 500, 502, 503, 504, 599},
		Pause:     {401, 403},
		Permanent: {300, 301, 302, 303, 304, 307, 308,
			400, 402, 404, 405, 410, 413, 415, 422, 426, 501},
	}
	for class, statuses := range classes {
		for _, status := range statuses {
			t.Run(fmt.Sprint(status), func(t *testing.T) {
				before := len(sink.Requests())
				sink.Script(testserver.Answer{
					Status: status, Header: http.Header{"Location": {sink.URL() + "/elsewhere"}},
				})
				err := h.Send(t.Context(), Message{ID: "a", Payload: []byte("x")})
				wantClass(t, err, class)
				if err != nil && !strings.Contains(err.Error(), fmt.Sprint(status)) {
					t.Errorf("the status is not told: %v", err)
				}
				if n := len(sink.Requests()) - before; n != 1 {
					t.Errorf("%d requests", n)
				}
			})
		}
	}
}

func TestHTTPTellsWhatTheDestinationSaid(t *testing.T) {
	sink := testserver.NewHTTPSink(t)
	h := newTestHTTP(t, HTTPConfig{URL: sink.URL()})
	body := "no such\x00\x1b[2J\n task " + strings.Repeat("é", 1<<20)
	sink.Script(testserver.Answer{Status: 422, Body: body})
	err := h.Send(t.Context(), Message{ID: "a", Payload: []byte("x")})
	want := "destination answered 422 Unprocessable Entity: no such [2J task " +
		strings.Repeat("é", 181) + "…"
	if err == nil || err.Error() != want {
		t.Errorf("got %q", err)
	}
}

func TestP01_RequestIsMadeOnceATry(t *testing.T) {
	for name, payload := range map[string]string{"with a body": "x", "without": ""} {
		for _, method := range []string{"POST", "PUT", "DELETE", "GET"} {
			t.Run(name+" "+method, func(t *testing.T) {
				sink := testserver.NewHTTPSink(t)
				h := newTestHTTP(t, HTTPConfig{URL: sink.URL(), Method: method})
				m := Message{ID: "a", Payload: []byte(payload)}
				if err := h.Send(t.Context(), m); err != nil { // the connection is kept
					t.Fatal(err)
				}
				sink.Script(testserver.Answer{Drop: true})
				wantClass(t, h.Send(t.Context(), m), Unknown)
				if n := len(sink.Requests()); n != 2 {
					t.Errorf("%d requests for two tries", n)
				}
			})
		}
	}
}

func TestP01_ConnectionClosedWhileIdleCausesNoSecondRequest(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		requests.Add(1)
	}))
	defer server.Close()
	h := newTestHTTP(t, HTTPConfig{URL: server.URL})
	done := int32(0)
	for range 20 {
		err := h.Send(t.Context(), Message{ID: "a", Payload: []byte("x")})
		if err == nil {
			done++
		} else if class, _ := classOf(err); class != Transient && class != Unknown {
			t.Errorf("class %d: %v", class, err)
		}
		server.CloseClientConnections() // perhaps while the next request is being written
	}
	if n := requests.Load(); n < done || n > 20 || done == 0 {
		t.Errorf("%d requests for 20 tries, of which %d were acknowledged", n, done)
	}
}

func TestD02_DestinationThatNeverAnswersEndsAtTheDeadline(t *testing.T) {
	sink := testserver.NewHTTPSink(t)
	sink.Otherwise(testserver.Answer{Hang: true})
	d := &Destination{Sender: newTestHTTP(t, HTTPConfig{URL: sink.URL()}),
		Timeout: 200 * time.Millisecond, HoldUnknown: true}
	start := time.Now()
	row := testRow(1)
	row.Body = []byte("x")
	got := Attempt(t.Context(), d, row)
	if took := time.Since(start); got.State != queue.Held || took > 5*time.Second {
		t.Errorf("%+v after %v", got, took)
	}
}

func TestD04_OneRefusedMessageDoesNotStopTheOthers(t *testing.T) {
	sink := testserver.NewHTTPSink(t)
	sink.Script(testserver.Answer{Status: 413}, testserver.Answer{Status: 503})
	d := &Destination{Sender: newTestHTTP(t, HTTPConfig{URL: sink.URL()})}
	states := map[queue.State]int{}
	for i := range 52 {
		row := testRow(1)
		row.Seq, row.Body = int64(i), []byte("x")
		states[Attempt(t.Context(), d, row).State]++
	}
	if states[queue.Dead] != 1 || states[queue.Pending] != 1 || states[queue.Done] != 50 {
		t.Errorf("got %v", states)
	}
}

func TestD13_TimeOutAfterAcceptanceIsUnknownAndRepeatedAsItWas(t *testing.T) {
	sink := testserver.NewHTTPSink(t)
	sink.Script(testserver.Answer{Hang: true})
	d := &Destination{Sender: newTestHTTP(t, HTTPConfig{URL: sink.URL()}),
		Timeout: 200 * time.Millisecond}
	row := testRow(1)
	row.Body = []byte(`{"n": 1.0 }`)
	if got := Attempt(t.Context(), d, row); got.State != queue.Pending || got.NotTried {
		t.Fatalf("first try: %+v", got)
	}
	row.Attempt, d.Timeout = 2, 10*time.Second
	if got := Attempt(t.Context(), d, row); got.State != queue.Done {
		t.Fatalf("second try: %+v", got)
	}
	r := sink.Await(t, 2, 5*time.Second)
	if string(r[0].Body) != string(r[1].Body) || string(r[1].Body) != `{"n": 1.0 }` ||
		r[0].Header.Get("Idempotency-Key") != r[1].Header.Get("Idempotency-Key") ||
		r[0].Header.Get("Idempotency-Key") != `"04106000000000000000000000"` {
		t.Errorf("got %+v", r)
	}
}

// rawServer answers each connection with what serve does and tells where it listens.
func rawServer(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-ended })
	return l.Addr().String()
}

func TestD13_WhatIsKnownOfAFailedTryDecides(t *testing.T) {
	closed := rawServer(t, func(net.Conn) {})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := l.Addr().String()
	_ = l.Close()
	line := func(c net.Conn) { _, _ = bufio.NewReader(c).ReadString('\n') }
	garbage := rawServer(t, func(c net.Conn) { line(c); _, _ = c.Write([]byte("SSH-2.0\r\n\r\n")) })
	mute := rawServer(t, line)
	sink := testserver.NewHTTPSink(t)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx  context.Context
		url  string
		want Class
	}{
		"refused":                  {t.Context(), "http://" + free, Transient},
		"no TLS there":             {t.Context(), "https://" + sink.Addr(), Transient},
		"ended before it began":    {cancelled, sink.URL(), Transient},
		"answer that is none":      {t.Context(), "http://" + garbage, Unknown},
		"cut off while being read": {t.Context(), "http://" + mute, Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			h := newTestHTTP(t, HTTPConfig{URL: test.url})
			payload := []byte(strings.Repeat("x", 1<<20))
			wantClass(t, h.Send(test.ctx, Message{ID: "a", Payload: payload}), test.want)
		})
	}
	// Here the network may or may not have taken the request; never is it said to be done or dead.
	err = newTestHTTP(t, HTTPConfig{URL: "http://" + closed}).Send(t.Context(), Message{ID: "a"})
	if class, _ := classOf(err); err == nil || class != Transient && class != Unknown {
		t.Errorf("class %d: %v", class, err)
	}
}

func TestHTTPSecureConnectionThatHangsIsTransient(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never speaks
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h := newTestHTTP(t, HTTPConfig{
		URL: "https://" + l.Addr().String(), DialTimeout: 100 * time.Millisecond})
	wantClass(t, h.Send(t.Context(), Message{ID: "a", Payload: []byte("x")}), Transient)
}

func TestHTTPAnswerWithoutEndIsNotReadToItsEnd(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write([]byte("more ")); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	start := time.Now()
	h := newTestHTTP(t, HTTPConfig{URL: server.URL})
	if err := h.Send(t.Context(), Message{ID: "a", Payload: []byte("x")}); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestHTTPMessageThatNoRequestCanCarryIsPermanent(t *testing.T) {
	sink := testserver.NewHTTPSink(t)
	h := newTestHTTP(t, HTTPConfig{URL: sink.URL() + "/base"})
	for name, meta := range map[string]Meta{
		"other host":         {Path: "//evil.example/x"},
		"other scheme":       {Path: "/%zz"},
		"up":                 {Path: "/../admin"},
		"up, encoded":        {Path: "/%2e%2e/admin"},
		"fragment":           {Path: "/x#y"},
		"method":             {Method: "CONNECT"},
		"method with a line": {Method: "POST\r\nX: y"},
		"reserved header":    {Header: map[string]string{"idempotency-key": "x"}},
		"hop header":         {Header: map[string]string{"Transfer-Encoding": "x"}},
		"bad name":           {Header: map[string]string{"a b": "x"}},
		"bad value":          {Header: map[string]string{"a": "x\r\ny: z"}},
		"bad content type":   {ContentType: "a\nb"},
	} {
		t.Run(name, func(t *testing.T) {
			wantClass(t, h.Send(t.Context(), Message{ID: "a", Meta: meta}), Permanent)
		})
	}
	wantClass(t, h.Send(t.Context(), Message{ID: "é"}), Permanent)
	wantClass(t, h.Send(t.Context(), Message{ID: "a", TraceParent: "\n"}), Permanent)
	if n := len(sink.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
	at := Message{ID: "a", Meta: Meta{Path: "@evil.example/x"}}
	if err := h.Send(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	if got := sink.Requests()[0].URI; got != "/base/@evil.example/x" {
		t.Errorf("uri %s", got)
	}
}

func FuzzPathStaysBelowTheURL(f *testing.F) {
	for _, s := range []string{
		"/a?b=c", "//evil.example", "@evil", "/../x", "/%2e%2e/x", "a:b", "?x",
	} {
		f.Add(s)
	}
	h, err := NewHTTP(HTTPConfig{URL: "http://good.example/base?k=v"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path string) {
		u, err := h.url(path)
		if err != nil {
			return
		}
		again, err := url.Parse(u.String())
		if err != nil || again.Host != "good.example" || again.User != nil ||
			again.Path != "/base" && !strings.HasPrefix(again.Path, "/base/") ||
			!strings.HasPrefix(again.RawQuery, "k=v") || strings.Contains(again.Path, "/../") {
			t.Errorf("%q: %v, %v", path, u, err)
		}
	})
}

func TestHTTPConfigurationIsChecked(t *testing.T) {
	for name, cfg := range map[string]HTTPConfig{
		"no URL": {}, "other scheme": {URL: "ftp://h"}, "no host": {URL: "http:///x"},
		"login in the URL": {URL: "http://u:secret@h"},
		"two logins":       {URL: "http://h", Bearer: "a", User: "b"},
		"method":           {URL: "http://h", Method: "TRACE"},
		"token":            {URL: "http://h", Bearer: "a\nb"},
		"header":           {URL: "http://h", Header: map[string]string{"Host": "x"}},
		"fragment":         {URL: "http://h#x"},
	} {
		_, err := NewHTTP(cfg)
		if err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v tells the password", name, err)
		}
	}
}

func TestHTTPTrustsItsOwnAuthorityAlone(t *testing.T) {
	ca := testserver.NewCA(t)
	cert, key := ca.Server(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	clients := make(chan int, 10)
	handler := func(_ http.ResponseWriter, r *http.Request) {
		clients <- len(r.TLS.PeerCertificates)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(handler))
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()

	wantClass(t, newTestHTTP(t, HTTPConfig{URL: server.URL}).
		Send(t.Context(), Message{ID: "a", Payload: []byte("x")}), Transient)

	files := TLSFiles{CA: ca.File(), Cert: cert, Key: key}
	config, err := files.Load()
	if err != nil {
		t.Fatal(err)
	}
	h := newTestHTTP(t, HTTPConfig{URL: server.URL, TLS: config})
	if err := h.Send(t.Context(), Message{ID: "a", Payload: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if n := <-clients; n != 1 {
		t.Errorf("%d client certificates", n)
	}
	files.ServerName = "another.example"
	if config, err = files.Load(); err != nil {
		t.Fatal(err)
	}
	h = newTestHTTP(t, HTTPConfig{URL: server.URL, TLS: config})
	wantClass(t, h.Send(t.Context(), Message{ID: "a", Payload: []byte("x")}), Transient)
}

func TestTLSFilesThatAreWrongAreToldAtTheStart(t *testing.T) {
	text := filepath.Join(t.TempDir(), "x.pem")
	if err := os.WriteFile(text, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, f := range []TLSFiles{
		{CA: "/nowhere/ca.pem"}, {CA: text}, {Cert: text}, {Key: text}, {Cert: text, Key: text},
	} {
		if _, err := f.Load(); err == nil {
			t.Errorf("%+v was accepted", f)
		}
	}
	if _, err := (TLSFiles{CA: "/nowhere/ca.pem"}).Load(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
