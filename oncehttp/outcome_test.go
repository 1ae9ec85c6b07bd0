package oncehttp_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncehttp"
	"github.com/oncekit/once/oncemem"
)

// held makes a middleware whose only request is held, and returns how to send it again.
func held(t *testing.T, seal *oncehttp.Sealer) (*oncemem.Store, func() *httptest.ResponseRecorder) {
	t.Helper()
	store, err := oncemem.New(oncemem.Config{SingleInstance: true})
	if err != nil {
		t.Fatal(err)
	}
	guard, err := oncehttp.Middleware(oncehttp.Config{Store: store, Scope: oncehttp.NoScope,
		Seal: seal, Guard: once.Config{OnUnknown: once.Hold}})
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	handler := guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if runs++; runs > 1 {
			t.Errorf("the handler ran %d times", runs)
		}
		w.WriteHeader(http.StatusBadGateway)
	}))
	send := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader("1"))
		r.Header.Set("Idempotency-Key", "K")
		handler.ServeHTTP(w, r)
		return w
	}
	if w := send(); w.Code != http.StatusBadGateway {
		t.Fatalf("the first request was answered %d", w.Code)
	}
	if w := send(); w.Code != http.StatusConflict || w.Header().Get("Retry-After") != "" {
		t.Fatalf("a held request was answered %d, Retry-After %q", w.Code, w.Header())
	}
	return store, send
}

func identityOf(t *testing.T, key string) once.Identity {
	t.Helper()
	k, err := once.KeyOf(key)
	if err != nil {
		t.Fatal(err)
	}
	id, err := once.Identify(once.NoScope(), k)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestWhatAPersonAnswersIsReplayed(t *testing.T) {
	t.Parallel()
	sealer, err := oncehttp.NewSealer(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	for name, seal := range map[string]*oncehttp.Sealer{"plain": nil, "sealed": sealer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, send := held(t, seal)
			id := identityOf(t, "K")
			outcome, err := oncehttp.Answer{Status: http.StatusCreated, Body: []byte(`{"charge":7}`),
				Header: http.Header{"content-type": {"application/json"},
					"Location": {"/charges/7"}}}.Outcome(id, seal)
			if err != nil {
				t.Fatal(err)
			}
			err = store.Resolve(context.Background(), id, once.Resolution{
				Decision: once.AnswerWith, Outcome: outcome})
			if err != nil {
				t.Fatal(err)
			}
			w := send()
			h := w.Header()
			if w.Code != http.StatusCreated || w.Body.String() != `{"charge":7}` ||
				h.Get("Content-Type") != "application/json" || h.Get("Location") != "/charges/7" ||
				h.Get("Idempotent-Replayed") != "true" {
				t.Errorf("a repeat got %d %v %s", w.Code, h, w.Body)
			}
		})
	}
}

func TestAnAnswerThatCantBeOneIsRefused(t *testing.T) {
	t.Parallel()
	for _, a := range []oncehttp.Answer{{}, {Status: 103}, {Status: 1000},
		{Status: 204, Body: []byte("x")},
		{Status: 201, Header: http.Header{"Set-Cookie": {"s=1"}}},
		{Status: 201, Header: http.Header{"content-length": {"99"}}},
		{Status: 201, Header: http.Header{"Transfer-Encoding": {"chunked"}}}} {
		if _, err := a.Outcome(identityOf(t, "K"), nil); err == nil {
			t.Errorf("%d with %q is taken", a.Status, a.Body)
		}
	}
}
