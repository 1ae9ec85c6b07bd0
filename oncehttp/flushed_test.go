package oncehttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncehttp"
	"github.com/oncekit/once/oncemem"
)

// fullStore takes no outcome.
type fullStore struct{ *oncemem.Store }

func (s fullStore) Complete(context.Context, once.Grant, once.Outcome) error {
	return errors.New("no room")
}

// An answer whose length is told is whole to its client as soon as all of it has come. It must not
// be before it is stored, also where its handler flushes.
func TestAFlushedAnswerOfKnownLengthIsHeldBackUntilItIsStored(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"length": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "4")
			_, _ = io.WriteString(w, "done")
			_ = http.NewResponseController(w).Flush()
		},
		"no body": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			_ = http.NewResponseController(w).Flush()
		},
	} {
		mem, err := oncemem.New(oncemem.Config{SingleInstance: true})
		if err != nil {
			t.Fatal(err)
		}
		guard, err := oncehttp.Middleware(oncehttp.Config{
			Store: fullStore{mem}, Scope: oncehttp.NoScope,
			Guard: once.Config{CompleteTimeout: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewServer(guard(handler))
		r, err := http.NewRequest(http.MethodPost, s.URL, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", "K")
		a, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Header.Get("Idempotency-Stored"); got != "false" {
			t.Errorf("%s: the answer says %q about being stored, want false", name, got)
		}
		_ = a.Body.Close()
		s.Close()
	}
}
