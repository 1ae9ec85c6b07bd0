package oncehttp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncehttp"
	"github.com/oncekit/once/oncemem"
)

// A handler that returns without a word when its context ends would else leave an empty 200 behind.
func TestAHandlerThatWasToldToStopLeavesNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := oncemem.New(oncemem.Config{SingleInstance: true})
		if err != nil {
			t.Fatal(err)
		}
		guard, err := oncehttp.Middleware(oncehttp.Config{
			Store: store, Scope: oncehttp.NoScope,
			Guard: once.Config{MaxWork: time.Minute, OnUnknown: once.Hold},
		})
		if err != nil {
			t.Fatal(err)
		}
		h := guard(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}))
		for _, want := range []struct {
			status  int
			problem string
		}{
			{http.StatusGatewayTimeout, "not-finished"},
			{http.StatusConflict, "held"},
		} {
			r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader("{}"))
			r.Header.Set("Idempotency-Key", "K")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != want.status || !strings.Contains(w.Body.String(), want.problem) {
				t.Errorf("status %d, body %s, want %d and %s", w.Code, w.Body, want.status,
					want.problem)
			}
		}
	})
}
