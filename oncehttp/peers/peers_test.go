package peers

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/gorilla/websocket"

	"github.com/oncekit/once/oncehttp"
	"github.com/oncekit/once/oncemem"
)

func guard(t *testing.T) func(http.Handler) http.Handler {
	t.Helper()
	store, err := oncemem.New(oncemem.Config{SingleInstance: true})
	if err != nil {
		t.Fatal(err)
	}
	mw, err := oncehttp.Middleware(oncehttp.Config{
		Store: store, Scope: oncehttp.NoScope, Methods: []string{"POST", "PATCH", "DELETE"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return mw
}

func post(t *testing.T, url, key string) (status int, replayed bool, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Idempotent-Replayed") == "true", string(text)
}

// Routes of mounted routers see a part of the path only; what is compared is the whole of it.
func TestChiRoutesWithParametersAndMountsAreToldApart(t *testing.T) {
	ran := 0
	orders := chi.NewRouter()
	orders.Use(guard(t)) // inside of the mount
	orders.Post("/{id}/cancel", func(w http.ResponseWriter, r *http.Request) {
		ran++
		_, _ = fmt.Fprintf(w, "%s %d", chi.URLParam(r, "id"), ran)
	})
	root := chi.NewRouter()
	root.Use(middleware.RequestID, middleware.Recoverer, middleware.Compress(5))
	root.Mount("/v1/orders", orders)
	root.Mount("/v2/orders", orders)
	srv := httptest.NewServer(root)
	defer srv.Close()

	for _, want := range []struct {
		path, key string
		status    int
		replayed  bool
		body      string
	}{
		{"/v1/orders/7/cancel", "K", 200, false, "7 1"},
		{"/v1/orders/7/cancel", "K", 200, true, "7 1"},
		{"/v1/orders/8/cancel", "K", 422, false, ""},
		{"/v2/orders/7/cancel", "K", 422, false, ""},
		{"/v2/orders/7/cancel", "L", 200, false, "7 2"},
	} {
		status, replayed, body := post(t, srv.URL+want.path, want.key)
		if status != want.status || replayed != want.replayed || want.body != "" && body != want.body {
			t.Errorf("%s %s: %d %v %q", want.path, want.key, status, replayed, body)
		}
	}
}

func TestAPanicThatARecovererAnswersIsALostAttempt(t *testing.T) {
	ran := 0
	r := chi.NewRouter()
	r.Use(middleware.Recoverer, guard(t))
	r.Post("/orders", func(w http.ResponseWriter, _ *http.Request) {
		if ran++; ran == 1 {
			w.WriteHeader(http.StatusCreated)
			panic("after the status")
		}
	})
	srv := httptest.NewServer(r)
	defer srv.Close()
	for i, want := range []int{500, 200, 200} {
		status, replayed, _ := post(t, srv.URL+"/orders", "K")
		if status != want || replayed != (i == 2) {
			t.Errorf("answer %d: %d, replayed %v", i, status, replayed)
		}
	}
}

func TestAWebSocketPassesWithAKey(t *testing.T) {
	upgrader := websocket.Upgrader{}
	h := guard(t)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		kind, text, err := conn.ReadMessage()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.WriteMessage(kind, append([]byte("echo "), text...))
	}))
	srv := httptest.NewServer(h) // its handshake is a GET, which no key guards
	defer srv.Close()
	header := http.Header{"Idempotency-Key": {"K"}}
	conn, resp, err := websocket.DefaultDialer.DialContext(t.Context(),
		"ws"+strings.TrimPrefix(srv.URL, "http"), header)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer conn.Close()
	if err := conn.WriteMessage(websocket.TextMessage, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, text, err := conn.ReadMessage(); string(text) != "echo hello" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
