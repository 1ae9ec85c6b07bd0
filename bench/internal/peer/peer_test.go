package peer

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

const one = `{"reqCode":"REQ-1","taskCode":"TASK-1","callbackMethod":"finish"}`

func post(t *testing.T, h http.Handler, body string, header ...string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/in/rcs", strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestTheHandlerAnswersLikeOnce(t *testing.T) {
	h := Handler(nil)
	status, body := post(t, h, one)
	if status != 200 || body != `{"code":"0","message":"Success","reqCode":"REQ-1"}` {
		t.Errorf("%d %s", status, body)
	}
	for _, bad := range []string{"", "{", `{"reqCode":"REQ-1"}`, `[]`} {
		if status, body := post(t, h, bad); status != 400 {
			t.Errorf("%q: %d %s, want 400", bad, status, body)
		}
	}
}

func TestTheNaivePeerStoresEachCallbackOnce(t *testing.T) {
	n, err := openNaive(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.run(ctx) }()
	h := Handler(n.accept)
	var wg sync.WaitGroup
	for i := range 40 {
		body := strings.Replace(one, "REQ-1", "REQ-"+string(rune('A'+i%4)), 1)
		wg.Go(func() {
			if status, text := post(t, h, body); status != 200 {
				t.Errorf("%d %s", status, text)
			}
		})
	}
	wg.Wait()
	rows := 0
	if err := n.db.QueryRow("SELECT count(*) FROM callbacks").Scan(&rows); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil || rows != 4 {
		t.Errorf("%d rows, error %v, want 4", rows, err)
	}
}

func TestTheSinkTellsRepeatsApart(t *testing.T) {
	b, err := Open(t.Context(), "sink", "", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b", "a"} {
		if status, _ := post(t, b.Handler, "{}", "Idempotency-Key", key); status != 204 {
			t.Errorf("status %d, want 204", status)
		}
	}
	if status, _ := post(t, b.Handler, "{}"); status != 400 {
		t.Errorf("status %d without a key, want 400", status)
	}
	w := httptest.NewRecorder()
	b.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	got, _ := io.ReadAll(w.Body)
	if string(got) != "sink_requests_total 3\nsink_effects_total 2\n" {
		t.Errorf("%s", got)
	}
}

func TestAnUnknownServerIsRefused(t *testing.T) {
	if _, err := Open(t.Context(), "other", "", ""); err == nil {
		t.Error("no error")
	}
}
