package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/queue"
)

func TestAccepted_IsStoredWithEverything(t *testing.T) {
	store, seen := newMemStore(), &counter{}
	source := rcs()
	source.Retention, source.KeepBody, source.ReplaceDead = time.Hour, time.Minute, true
	rc := newReceiver(t, store, inbox.Config{Observer: seen}, source)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	w := post(rc, "/in/rcs?a=1&a=2", finishFE, "Traceparent", parent)
	if w.Code != 200 || w.Body.String() != `{"code":"0","message":"Success","reqCode":"REQ-1024"}` {
		t.Fatalf("answer %d %s", w.Code, w.Body)
	}
	scope, err := once.NewScope("source", "rcs")
	if err != nil {
		t.Fatal(err)
	}
	key, err := once.KeyOf("REQ-1024", "TASK-001", "finishFE")
	if err != nil {
		t.Fatal(err)
	}
	identity, err := once.Identify(scope, key)
	if err != nil {
		t.Fatal(err)
	}
	got := store.accepted()[0]
	if got.Identity != identity || got.Fingerprint != once.FingerprintRaw([]byte(finishFE)) ||
		got.Kind != queue.Callback || got.Lane != "flow" || got.OrderKey != "TASK-001" ||
		got.State != queue.Pending || got.Source != "rcs" || got.Event != "finishFE" ||
		got.Flow != "transport" || got.Task != "TASK-001" || got.TraceParent != parent ||
		got.Peer != "192.0.2.1:1234" || string(got.Body) != finishFE ||
		strings.Join(got.Key, "|") != "REQ-1024|TASK-001|finishFE" ||
		got.Retention != time.Hour || got.KeepBody != time.Minute || !got.ReplaceDead {
		t.Errorf("stored %+v", got)
	}
	request, err := inbox.DecodeMeta(got.Meta)
	if err != nil || request.Query != "a=1&a=2" || request.Path != "/in/rcs" ||
		request.Method != "POST" || request.Host != "example.com" {
		t.Errorf("request %+v, %v", request, err)
	}
	if seen.count("rcs/accepted") != 1 {
		t.Errorf("counted %v", seen.n)
	}
}

func TestDefaults_OfASource(t *testing.T) {
	store := newMemStore()
	post(newReceiver(t, store, inbox.Config{}), "/in/rcs", finishFE)
	if got := store.accepted()[0]; got.Retention != 7*24*time.Hour || got.KeepBody != 0 {
		t.Errorf("retention %s, keep body %s", got.Retention, got.KeepBody)
	}
}

func TestI01_BodyIsStoredByteForByte(t *testing.T) {
	body := "\xef\xbb\xbf{ \"reqCode\":\"1\",\t\"taskCode\" : \"\\u0041\",\r\n" +
		"\"amount\": 100.00 ,\"callbackMethod\":\"m\" }\n"
	store := newMemStore()
	source := rcs()
	var verified []byte
	source.Verifier = verifyFunc(func(m *inbox.Message) error {
		verified = bytes.Clone(m.Raw)
		return nil
	})
	w := post(newReceiver(t, store, inbox.Config{}, source), "/in/rcs", body)
	if w.Code != 200 {
		t.Fatalf("answer %d %s", w.Code, w.Body)
	}
	if string(verified) != body || string(store.accepted()[0].Body) != body {
		t.Errorf("verified %q, stored %q", verified, store.accepted()[0].Body)
	}
}

type verifyFunc func(m *inbox.Message) error

func (f verifyFunc) Verify(_ context.Context, m *inbox.Message) error { return f(m) }

func TestI18_DuplicateIsAnsweredLikeTheFirst(t *testing.T) {
	store, seen := newMemStore(), &counter{}
	rc := newReceiver(t, store, inbox.Config{Observer: seen})
	first := post(rc, "/in/rcs", finishFE)
	for range 9 {
		again := post(rc, "/in/rcs", finishFE)
		if again.Code != 200 || again.Body.String() != first.Body.String() {
			t.Errorf("answer %d %s", again.Code, again.Body)
		}
	}
	conflict := post(rc, "/in/rcs", strings.Replace(finishFE, "{", "{ ", 1))
	if conflict.Code != 200 || conflict.Body.String() != first.Body.String() {
		t.Errorf("answer to a conflict %d %s", conflict.Code, conflict.Body)
	}
	unheard := post(rc, "/in/rcs", strings.Replace(finishFE, "finishFE", "unheardOf", 1))
	if unheard.Code != 200 {
		t.Errorf("answer to an unknown event %d", unheard.Code)
	}
	if got := store.accepted(); len(got) != 2 || got[1].State != queue.Unrouted {
		t.Errorf("accepted %+v", got)
	}
	if seen.count("rcs/accepted") != 2 || seen.count("rcs/duplicate") != 9 ||
		seen.count("rcs/conflict") != 1 {
		t.Errorf("counted %v", seen.n)
	}
}

// rememberingStore is a memStore that answers repeats by itself.
type rememberingStore struct {
	*memStore
	recalled int
	peer     string
}

func (s *rememberingStore) Recall(id once.Identity, fp once.Fingerprint, peer string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, known := s.rows[id]
	if !known || first.Fingerprint != fp {
		return false
	}
	s.recalled++
	s.peer = peer
	return true
}

func TestRepeatThatTheStoreRemembers_IsADuplicateWithoutAnAppend(t *testing.T) {
	store := &rememberingStore{memStore: newMemStore()}
	rc := newReceiver(t, store, inbox.Config{})
	first, second := post(rc, "/in/rcs", finishFE), post(rc, "/in/rcs", finishFE)
	other := post(rc, "/in/rcs", strings.Replace(finishFE, "{", "{ ", 1))
	if first.Code != 200 || second.Code != 200 || first.Body.String() != second.Body.String() {
		t.Errorf("replied %d %s, then %d %s", first.Code, first.Body, second.Code, second.Body)
	}
	if other.Code != 200 || store.recalled != 1 || store.arrivals != 2 || store.peer == "" {
		t.Errorf("status %d, %d recalled (peer %q), %d arrivals; want 1 recalled, 2 arrivals",
			other.Code, store.recalled, store.peer, store.arrivals)
	}
}

func TestI09_RetryOfAMessageThatFailedIsADuplicate(t *testing.T) {
	store, seen := newMemStore(), &counter{}
	rc := newReceiver(t, store, inbox.Config{Observer: seen})
	post(rc, "/in/rcs", finishFE) // its first attempt may fail: the row stays pending
	if w := post(rc, "/in/rcs", finishFE); w.Code != 200 {
		t.Errorf("answer %d", w.Code)
	}
	got := store.accepted()
	if len(got) != 1 || got[0].State != queue.Pending || seen.count("rcs/duplicate") != 1 {
		t.Errorf("accepted %d, counted %v", len(got), seen.n)
	}
}

func TestI10_I24_EqualMessagesAtOnceAreOneCallback(t *testing.T) {
	store, seen := newMemStore(), &counter{}
	source := headed()
	srv := httptest.NewServer(newReceiver(t, store, inbox.Config{Observer: seen}, source))
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			body := strings.NewReader(finishFE)
			req, err := http.NewRequest(http.MethodPost, srv.URL+"/in/headed", body)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("X-Request-Id", "webhook-1")
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			if _, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 200 {
				t.Errorf("answer %d, %v", res.StatusCode, err)
			}
		})
	}
	wg.Wait()
	http.DefaultClient.CloseIdleConnections()
	srv.Close() // waits for the handlers
	if len(store.accepted()) != 1 || seen.count("headed/accepted") != 1 ||
		seen.count("headed/duplicate") != 199 {
		t.Errorf("accepted %d, counted %v", len(store.accepted()), seen.n)
	}
	request, err := inbox.DecodeMeta(store.accepted()[0].Meta)
	if err != nil || request.Header.Get("X-Request-Id") != "webhook-1" {
		t.Errorf("request %+v, %v", request, err)
	}
}

func TestUnavailableStore_AcknowledgesNothingAndRecovers(t *testing.T) {
	store, seen := newMemStore(), &counter{}
	var logged bytes.Buffer
	rc := newReceiver(t, store, inbox.Config{
		Observer: seen, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
	})
	for _, fail := range []error{
		fmt.Errorf("write: %w", once.ErrUnavailable), errors.New("disk full"), once.ErrTooLarge,
	} {
		store.before = func(context.Context) error { return fail }
		w := post(rc, "/in/rcs", finishFE)
		if w.Code != 503 || w.Header().Get("Retry-After") != "1" ||
			w.Body.String() != `{"code":"99","message":"try again"}` {
			t.Errorf("%v: answer %d %v %s", fail, w.Code, w.Header(), w.Body)
		}
	}
	if len(store.ring()) != 0 || seen.count("rcs/unavailable") != 3 {
		t.Errorf("ring %v, counted %v", store.ring(), seen.n)
	}
	if log := logged.String(); !strings.Contains(log, "disk full") ||
		strings.Contains(log, "REQ-1024") {
		t.Errorf("log %s", log)
	}
	store.before = nil
	if w := post(rc, "/in/rcs", finishFE); w.Code != 200 || len(store.accepted()) != 1 {
		t.Errorf("answer %d after the outage", w.Code)
	}
}

type wrongStore struct{ receipts []queue.Receipt }

func (s wrongStore) Append(context.Context, []queue.Arrival) ([]queue.Receipt, error) {
	return s.receipts, nil
}

func TestStoreThatAnswersNonsense_IsUnavailable(t *testing.T) {
	for _, receipts := range [][]queue.Receipt{
		nil, {{}}, {{Outcome: "fine"}}, {{Outcome: queue.Invalid}},
		{{Outcome: queue.Accepted}, {Outcome: queue.Accepted}},
	} {
		rc := newReceiver(t, wrongStore{receipts}, inbox.Config{})
		if w := post(rc, "/in/rcs", finishFE); w.Code != 503 {
			t.Errorf("%v: answer %d", receipts, w.Code)
		}
	}
}

func TestAppend_EndsAtItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		store.before = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		rc := newReceiver(t, store, inbox.Config{AppendTimeout: 2 * time.Second})
		for range 2 {
			start := time.Now()
			if w := post(rc, "/in/rcs", finishFE); w.Code != 503 {
				t.Errorf("answer %d", w.Code)
			}
			if d := time.Since(start); d < 2*time.Second || d > 2200*time.Millisecond {
				t.Errorf("it took %s", d)
			}
		}
	})
}

func TestAppend_DoesNotEndWithItsSender(t *testing.T) {
	store := newMemStore()
	started, finish := make(chan struct{}), make(chan struct{})
	store.before = func(ctx context.Context) error {
		close(started)
		<-finish
		return ctx.Err()
	}
	srv := httptest.NewServer(newReceiver(t, store, inbox.Config{}))
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	body := request("/in/rcs", "application/json", finishFE)
	if _, err := io.WriteString(conn, body); err != nil {
		t.Fatal(err)
	}
	<-started
	conn.Close()
	close(finish)
	srv.Close()
	if len(store.accepted()) != 1 {
		t.Error("the callback was not stored")
	}
}

type ctxKey struct{}

func TestAppend_SeesTheRequestsValues(t *testing.T) {
	store := newMemStore()
	store.before = func(ctx context.Context) error {
		goroutines := runtime.NumGoroutine()
		derived, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if n := runtime.NumGoroutine(); n > goroutines {
			t.Errorf("a derived context costs %d goroutines", n-goroutines)
		}
		if derived.Value(ctxKey{}) != "v" || derived.Err() != nil {
			t.Errorf("value %v, %v", derived.Value(ctxKey{}), derived.Err())
		}
		return nil
	}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), ctxKey{}, "v"))
	cancel() // the sender is gone
	body := strings.NewReader(finishFE)
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/in/rcs", body)
	w := httptest.NewRecorder()
	newReceiver(t, store, inbox.Config{}).ServeHTTP(w, r)
	if w.Code != 200 {
		t.Errorf("answer %d", w.Code)
	}
}

func TestBodiesInFlight_AreBoundedTogether(t *testing.T) {
	store, seen := newMemStore(), &counter{}
	source := rcs()
	source.MaxBody = 100
	rc := newReceiver(t, store, inbox.Config{MaxInFlightBytes: 100, Observer: seen}, source)
	var second *httptest.ResponseRecorder
	read := false
	store.before = func(context.Context) error {
		store.before = nil
		r := httptest.NewRequest(http.MethodPost, "/in/rcs", readFunc(func([]byte) (int, error) {
			read = true
			return 0, io.EOF
		}))
		r.ContentLength = 72
		second = httptest.NewRecorder()
		rc.ServeHTTP(second, r) // while the first one is in flight
		return nil
	}
	if w := post(rc, "/in/rcs", finishFE); w.Code != 200 {
		t.Errorf("first answer %d", w.Code)
	}
	if second.Code != 503 || second.Header().Get("Retry-After") != "1" || read {
		t.Errorf("second answer %d, read %v", second.Code, read)
	}
	for range 3 { // everything was given back
		if w := post(rc, "/in/rcs", finishFE); w.Code != 200 {
			t.Errorf("answer %d afterwards", w.Code)
		}
	}
	if seen.count("rcs/unavailable") != 1 {
		t.Errorf("counted %v", seen.n)
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func TestPanicInASource_IsUnavailable(t *testing.T) {
	boom := func() { panic("boom") }
	for name, set := range map[string]func(*inbox.Source){
		"key": func(s *inbox.Source) {
			s.Key = func(*inbox.Message) (once.Key, error) { boom(); return nil, nil }
		},
		"event": func(s *inbox.Source) {
			s.Event = func(*inbox.Message) (string, error) { boom(); return "", nil }
		},
		"route": func(s *inbox.Source) {
			s.Route = func(*inbox.Message, string) (inbox.Route, error) {
				boom()
				return inbox.Route{}, nil
			}
		},
		"verifier": func(s *inbox.Source) {
			s.Verifier = verifyFunc(func(*inbox.Message) error { panic(http.ErrAbortHandler) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, seen := newMemStore(), &counter{}
			var logged bytes.Buffer
			source := rcs()
			set(source)
			rc := newReceiver(t, store, inbox.Config{
				Observer: seen, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
			}, source)
			w := post(rc, "/in/rcs", finishFE)
			if w.Code != 503 || w.Header().Get("Retry-After") != "1" {
				t.Errorf("answer %d %v", w.Code, w.Header())
			}
			if len(store.accepted()) != 0 || seen.count("rcs/unavailable") != 1 {
				t.Errorf("accepted %d, counted %v", len(store.accepted()), seen.n)
			}
			if !strings.Contains(logged.String(), "receiver_test.go") {
				t.Errorf("no stack in %s", logged.String())
			}
		})
	}
}

func TestNew_Refuses(t *testing.T) {
	with := func(change func(*inbox.Source)) []*inbox.Source {
		s := rcs()
		change(s)
		return []*inbox.Source{s}
	}
	reply := func(o queue.Outcome, status int) []*inbox.Source {
		return with(func(s *inbox.Source) { s.Replies[o] = inbox.Reply{Status: status} })
	}
	other := headed()
	other.Paths = []string{"/in/rcs"}
	for want, sources := range map[string][]*inbox.Source{
		"nil":                      {nil},
		"1 to 64":                  with(func(s *inbox.Source) { s.Name = "" }),
		"letters":                  with(func(s *inbox.Source) { s.Name = "a/b" }),
		"key":                      with(func(s *inbox.Source) { s.Key = nil }),
		"fingerprint":              with(func(s *inbox.Source) { s.Fingerprint = nil }),
		"route are":                with(func(s *inbox.Source) { s.Route = nil }),
		"negative":                 with(func(s *inbox.Source) { s.MaxBody = -1 }),
		"never fit":                with(func(s *inbox.Source) { s.MaxBody = 65 << 20 }),
		"begin with":               with(func(s *inbox.Source) { s.Paths = []string{"x"} }),
		`both have path "/in/rcs"`: {rcs(), other},
		"both have path":           {rcs(), rcs()},
		"unavailable: status 200":  reply(queue.Unavailable, 200),
		"unauthorized: status 302": reply(queue.Unauthorized, 302),
		"not from 200":             reply(queue.Accepted, 100),
		"unknown outcome":          reply("fine", 200),
		"not http://HOST":          with(func(s *inbox.Source) { s.PublicURL = "example.org" }),
		"a query":                  with(func(s *inbox.Source) { s.PublicURL = "https://h/?a=1" }),
	} {
		_, err := inbox.New(newMemStore(), sources, inbox.Config{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if _, err := inbox.New(nil, nil, inbox.Config{}); err == nil {
		t.Error("no store was accepted")
	}
	if _, err := inbox.New(newMemStore(), nil, inbox.Config{RejectRate: -1}); err == nil {
		t.Error("a negative limit was accepted")
	}
}

func TestNamesThatNobodyCouldPutIntoAURLAreRefused(t *testing.T) {
	long := strings.Repeat("n", once.MaxKeyBytes+1)
	for name, route := range map[string]inbox.Route{
		"event":     {Lane: "flow", Flow: "f", Task: "T", OrderKey: "task/f/T"},
		"task":      {Lane: "flow", Flow: "f", Task: long, OrderKey: "task/f/" + long},
		"order key": {Lane: "handler", OrderKey: long},
		"":          {Lane: "flow", Flow: "f", Task: long[1:], OrderKey: "task/f/" + long[1:]},
	} {
		store, source := newMemStore(), rcs()
		source.Route = func(*inbox.Message, string) (inbox.Route, error) { return route, nil }
		if name == "event" {
			source.Event = func(*inbox.Message) (string, error) { return long, nil }
		}
		w := post(newReceiver(t, store, inbox.Config{}, source), "/in/rcs", finishFE)
		want, reason := 400, name+" is longer than 4096 bytes"
		if name == "" {
			want, reason = 200, "Success"
		}
		if w.Code != want || !strings.Contains(w.Body.String(), reason) {
			t.Errorf("%q: %d %s", name, w.Code, w.Body)
		}
	}
}
