package peer

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// send posts a body over a real connection and returns the status and the body of the answer.
func send(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(b)
}

func TestTheOriginAnswersThroughTheProxy(t *testing.T) {
	o, err := Open(t.Context(), "origin", "", "")
	if err != nil {
		t.Fatal(err)
	}
	origin := httptest.NewServer(o.Handler)
	defer origin.Close()
	p, err := Open(t.Context(), "proxy", "", origin.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(p.Handler)
	defer proxy.Close()

	status, body := send(t, http.MethodPost, proxy.URL+"/orders", one)
	want := `{"id":1,"reqCode":"REQ-1","taskCode":"TASK-1",`
	if status != 201 || !strings.HasPrefix(body, want) || len(body) < 250 || len(body) > 350 {
		t.Errorf("%d %s (%d bytes), want 201 and about 300 bytes from %s on", status, body,
			len(body), want)
	}
	if status, _ := send(t, http.MethodPost, proxy.URL+"/orders", "{"); status != 400 {
		t.Errorf("status %d, want 400", status)
	}
	const size = 200_001
	status, body = send(t, http.MethodPost, proxy.URL+"/large", strings.Repeat("x", size))
	if status != 200 || body != fmt.Sprint(size) {
		t.Errorf("%d %s, want 200 and the number of bytes", status, body)
	}
	for text, want := range map[string]int{fmt.Sprint(size): 200, "0": 200, "-1": 400, "x": 400} {
		status, body = send(t, http.MethodGet, proxy.URL+"/large?bytes="+text, "")
		if status != want || want == 200 && fmt.Sprint(len(body)) != text {
			t.Errorf("%s bytes: %d with %d bytes", text, status, len(body))
		}
	}
	_, body = send(t, http.MethodGet, origin.URL+"/metrics", "")
	if body != "origin_orders_total 6\n" {
		t.Errorf("%q, want 6", body)
	}
}

func TestAProxyNeedsAnOrigin(t *testing.T) {
	for _, to := range []string{"", "127.0.0.1:80", "http://"} {
		if _, err := Open(t.Context(), "proxy", "", to); err == nil {
			t.Errorf("%q: no error", to)
		}
	}
}

func TestOrdersAnswersWhatItDecoded(t *testing.T) {
	status, body := post(t, http.HandlerFunc(Orders), OrderText)
	if status != 201 || body != OrderText+"\n" {
		t.Errorf("%d %s, want 201 and the order", status, body)
	}
	if status, _ := post(t, http.HandlerFunc(Orders), "{"); status != 400 {
		t.Errorf("status %d, want 400", status)
	}
}

func TestTheTextbookRunsAKeyOnce(t *testing.T) {
	var mu sync.Mutex
	runs := 0
	h := Textbook(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		runs++
		mu.Unlock()
		Orders(w, r)
	}))
	for range 3 {
		status, body := post(t, h, OrderText, "Idempotency-Key", "a")
		if status != 201 || body != OrderText+"\n" {
			t.Errorf("%d %s", status, body)
		}
	}
	if status, _ := post(t, h, "{}", "Idempotency-Key", "a"); status != 422 {
		t.Errorf("another body: status %d, want 422", status)
	}
	post(t, h, OrderText, "Idempotency-Key", "b")
	post(t, h, OrderText)
	post(t, h, OrderText)
	if runs != 4 {
		t.Errorf("%d runs, want 4: one for each of two keys, and two without a key", runs)
	}
}
