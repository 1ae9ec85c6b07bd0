package oncehttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/oncekit/once"
)

// stray keeps calling a recorder after its handler's return.
func stray(w http.ResponseWriter, over <-chan struct{}) int {
	for n := 0; ; n++ {
		select {
		case <-over:
			return n
		default:
		}
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "stray")
		_, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader("stray"))
		w.(http.Flusher).Flush()
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = conn.Close()
			return -1
		}
		runtime.Gosched()
	}
}

func TestAGoroutineLeftBehindNeverTouchesAnAnswer(t *testing.T) {
	returned, over, calls := make(chan struct{}), make(chan struct{}), make(chan int, 1)
	a := &api{t: t, store: newStore(t)}
	h := a.guard(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "right "+r.Header.Get("Idempotency-Key"))
	})
	leaves := a.guard(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "right")
		go func() {
			<-returned // until then the connection is the handler's
			calls <- stray(w, over)
		}()
	})
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.Handle("/leaves", leaves)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	// One connection for all, so that memory and writers are used again.
	a.url, a.client = srv.URL, srv.Client()
	for i := range 200 {
		if i == 20 {
			if g := a.do("POST", "/leaves", "left", strings.NewReader(`{}`)); g.status == 0 {
				t.Error(g.err)
			}
			close(returned)
		}
		key := fmt.Sprint(i)
		first := a.post(key, `{}`)
		if first.status != http.StatusOK || first.body != "right "+key {
			t.Fatalf("%d %q, %v", first.status, first.body, first.err)
		}
		wantReplay(t, first, a.post(key, `{}`))
	}
	close(over)
	if n := receive(t, "the goroutine ends", calls); n == -1 {
		t.Error("it could take the connection over")
	}
}

func TestAGoroutineThatWritesDuringTheSaveHasNoEffect(t *testing.T) {
	for _, flush := range []bool{false, true} {
		saving, written := make(chan struct{}), make(chan struct{})
		a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "right")
			if flush {
				w.(http.Flusher).Flush()
			}
			go func() {
				defer close(written)
				<-saving
				if n, err := io.WriteString(w, " stray"); n != 0 || err == nil {
					t.Errorf("wrote %d, %v", n, err)
				}
				if err := http.NewResponseController(w).Flush(); err == nil {
					t.Error("flushed")
				}
			}()
		})
		a.store.set(func(s *faultyStore) {
			s.complete = func(context.Context, once.Outcome) error {
				close(saving)
				<-written
				return nil
			}
		})
		first := a.post("K", `{}`)
		if first.body != "right" || first.err != nil {
			t.Errorf("flush %v: %q, %v", flush, first.body, first.err)
		}
		wantReplay(t, first, a.post("K", `{}`))
	}
}
