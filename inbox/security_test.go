package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/queue"
	"github.com/oncekit/once/webhook"
)

// dump is everything the store was given, as one text.
func dump(s *memStore) string {
	var b strings.Builder
	for _, a := range s.accepted() {
		fmt.Fprintf(&b, "%s %s %s %+v\n", a.Meta, a.Body, a.Key, a)
	}
	for _, r := range s.ring() {
		fmt.Fprintf(&b, "%s %s %+v\n", r.Meta, r.Body, r)
	}
	return b.String()
}

func TestS09_SecretsAreNotStored(t *testing.T) {
	secrets := []string{"test-token", "sid=1", "proxy-secret", "api-secret"}
	header := []string{
		"Authorization", "Bearer test-token", "Cookie", "sid=1", "Proxy-Authorization",
		"Basic proxy-secret", "X-Api-Key", "api-secret", "X-Seen", "seen",
	}
	source := rcs()
	source.DropHeaders = []string{"x-api-key"}
	store := newMemStore()
	rc := newReceiver(t, store, inbox.Config{DigestKey: []byte("key")}, source)
	post(rc, "/in/rcs", finishFE, header...)   // stored
	post(rc, "/in/rcs", "nonsense", header...) // in the ring
	post(rc, "/in/none", finishFE, header...)  // no source has this path
	if len(store.accepted()) != 1 || len(store.ring()) != 2 {
		t.Fatalf("stored %s", dump(store))
	}
	for i, meta := range [][]byte{store.accepted()[0].Meta, store.ring()[0].Meta,
		store.ring()[1].Meta} {
		for _, secret := range secrets {
			if strings.Contains(string(meta), secret) {
				t.Errorf("%d: %q is in %s", i, secret, meta)
			}
		}
		request, err := inbox.DecodeMeta(meta)
		if err != nil {
			t.Fatal(err)
		}
		// printf 'cookie\0sid=1' | openssl dgst -sha256 -hmac key, the first 16 bytes
		const want = "hmac:571aadd06b9f44e60575ffdc8b575194"
		if got := request.Digests.Get("Cookie"); got != want {
			t.Errorf("digest of the cookie %q, want %q", got, want)
		}
		if len(request.Digests) != 4 || request.Header.Get("X-Seen") != "seen" {
			t.Errorf("digests %v, header %v", request.Digests, request.Header)
		}
	}
	for _, secret := range secrets {
		if strings.Contains(dump(store), secret) {
			t.Errorf("%q is stored", secret)
		}
	}
}

// bearer is a verifier of tokens.
func bearer(t *testing.T, tokens ...string) inbox.Verifier {
	t.Helper()
	v, err := webhook.NewBearer(tokens...)
	if err != nil {
		t.Fatal(err)
	}
	return inbox.Signed(v)
}

func TestBearer_AcceptsItsTokensOnly(t *testing.T) {
	source := rcs()
	source.Verifier = bearer(t, "new-token", "old-token")
	for header, want := range map[string]int{
		"Bearer new-token":            200,
		"Bearer old-token":            200,
		"bearer old-token":            200,
		"BEARER  new-token":           200,
		"":                            401,
		"new-token":                   401,
		"Bearer":                      401,
		"Bearer ":                     401,
		"Basic new-token":             401,
		"Bearer new-toke":             401,
		"Bearer new-token2":           401,
		"Bearer New-Token":            401,
		"Bearer new-token, old-token": 401,
	} {
		store, seen := newMemStore(), &counter{}
		rc := newReceiver(t, store, inbox.Config{Observer: seen}, source)
		w := post(rc, "/in/rcs", finishFE, "Authorization", header)
		if w.Code != want {
			t.Errorf("%q: answer %d, want %d", header, w.Code, want)
		}
		if want == 200 {
			continue
		}
		if w.Header().Get("WWW-Authenticate") != "Bearer" || seen.count("rcs/unauthorized") != 1 ||
			len(store.accepted()) != 0 {
			t.Errorf("%q: %v, counted %v", header, w.Header(), seen.n)
		}
		ring := store.ring()
		if len(ring) != 1 || ring[0].Outcome != queue.Unauthorized || len(ring[0].Body) != 0 {
			t.Errorf("%q: ring %+v", header, ring)
		}
		token := strings.TrimPrefix(header, "Bearer ")
		if header != "" && header != "Bearer" && token != "" &&
			(strings.Contains(dump(store), token) || strings.Contains(w.Body.String(), token)) {
			t.Errorf("%q is told or stored", token)
		}
	}
}

func TestBearer_TwoHeadersAreRefused(t *testing.T) {
	b := bearer(t, "a")
	m := &inbox.Message{Header: http.Header{"Authorization": {"Bearer a", "Bearer a"}}}
	if b.Verify(t.Context(), m) == nil {
		t.Error("accepted")
	}
	if _, err := webhook.NewBearer(""); err == nil {
		t.Error("an empty token was accepted")
	}
}

func TestI19_UnverifiedBodyIsNotKept(t *testing.T) {
	for keep, want := range map[bool]string{false: "", true: finishFE} {
		source := rcs()
		source.Verifier = verifyFunc(func(*inbox.Message) error {
			return errors.New("bad signature")
		})
		store := newMemStore()
		rc := newReceiver(t, store, inbox.Config{UnauthorizedBody: keep}, source)
		w := post(rc, "/in/rcs", finishFE)
		if w.Code != 401 || !strings.Contains(w.Body.String(), "bad signature") {
			t.Errorf("answer %d %s", w.Code, w.Body)
		}
		ring := store.ring()
		if len(store.accepted()) != 0 || len(ring) != 1 || string(ring[0].Body) != want ||
			ring[0].Size != 72 {
			t.Errorf("ring %+v", ring)
		}
	}
}

func TestRing_KeepsInvalidBodiesOfKnownSendersOnly(t *testing.T) {
	source := rcs()
	source.MaxBody = 10
	source.Verifier = verifyFunc(func(*inbox.Message) error { return nil })
	store := newMemStore()
	rc := newReceiver(t, store, inbox.Config{}, source)
	post(rc, "/in/rcs", "nonsense")
	long := io.MultiReader(strings.NewReader(finishFE)) // of unknown length
	r := httptest.NewRequest(http.MethodPost, "/in/rcs", long)
	w := httptest.NewRecorder()
	rc.ServeHTTP(w, r) // too large to be verified
	ring := store.ring()
	if w.Code != 413 || len(ring) != 2 || string(ring[0].Body) != "nonsense" ||
		len(ring[1].Body) != 0 || ring[1].Size != 10 {
		t.Errorf("answer %d, ring %+v", w.Code, ring)
	}
}

func TestBearer_StrangersBodiesAreNotRead(t *testing.T) {
	source := rcs()
	source.Verifier = bearer(t, "a")
	r := httptest.NewRequest(http.MethodPost, "/in/rcs", readFunc(func([]byte) (int, error) {
		t.Error("the body was read")
		return 0, io.EOF
	}))
	w := httptest.NewRecorder()
	newReceiver(t, newMemStore(), inbox.Config{}, source).ServeHTTP(w, r)
	if w.Code != 401 {
		t.Errorf("answer %d", w.Code)
	}
}

func TestRing_KeepsABodyCutToItsLimit(t *testing.T) {
	for limit, want := range map[int]int{0: 4096, 10: 10} {
		store := newMemStore()
		rc := newReceiver(t, store, inbox.Config{RejectedBody: limit})
		post(rc, "/in/rcs", strings.Repeat("x", 5000))
		if r := store.ring()[0]; len(r.Body) != want || r.Size != 5000 {
			t.Errorf("limit %d: %d bytes kept, size %d", limit, len(r.Body), r.Size)
		}
	}
}

func TestRing_LeavesLongHeadersOut(t *testing.T) {
	store := newMemStore()
	rc := newReceiver(t, store, inbox.Config{})
	post(rc, "/in/rcs", "x", "X-Long", strings.Repeat("y", 20000))
	request, err := inbox.DecodeMeta(store.ring()[0].Meta)
	if err != nil || request.Path != "/in/rcs" || len(request.Header) != 0 {
		t.Errorf("request %+v, %v", request, err)
	}
}

func TestRing_FloodIsCountedAndNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, seen := newMemStore(), &counter{}
		rc := newReceiver(t, store, inbox.Config{Observer: seen, RejectRate: 10})
		flood := func(path string) {
			for range 25 {
				if w := post(rc, path, "x"); w.Code < 400 {
					t.Errorf("answer %d", w.Code)
				}
			}
		}
		flood("/in/rcs")
		if len(store.ring()) != 10 || seen.dropped() != 15 || seen.count("rcs/invalid") != 25 {
			t.Errorf("kept %d, dropped %d", len(store.ring()), seen.dropped())
		}
		flood("/in/none") // has a rate of its own
		if len(store.ring()) != 20 || seen.dropped() != 30 {
			t.Errorf("kept %d, dropped %d", len(store.ring()), seen.dropped())
		}
		time.Sleep(500 * time.Millisecond) // of the bubble's clock
		flood("/in/rcs")
		if len(store.ring()) != 25 {
			t.Errorf("kept %d after half a second", len(store.ring()))
		}
	})
}

func TestRing_StuckStoreDoesNotHoldTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, seen := newMemStore(), &counter{}
		release := make(chan struct{})
		store.beforeReject = func(context.Context) error { <-release; return nil }
		rc := newReceiver(t, store, inbox.Config{Observer: seen})
		start := time.Now()
		for range 20 {
			if w := post(rc, "/in/rcs", "x"); w.Code != 400 {
				t.Errorf("answer %d", w.Code)
			}
		}
		// 16 writers wait 250 ms each, then there is no place for a further one.
		if d := time.Since(start); d != 16*250*time.Millisecond || seen.dropped() != 4 {
			t.Errorf("it took %s, dropped %d", d, seen.dropped())
		}
		if w := post(rc, "/in/rcs", finishFE); w.Code != 200 {
			t.Errorf("answer %d", w.Code)
		}
		close(release)
		synctest.Wait()
		if len(store.ring()) != 16 {
			t.Errorf("kept %d in the end", len(store.ring()))
		}
	})
}

func TestRing_FailingStoreIsCounted(t *testing.T) {
	for name, fail := range map[string]func(context.Context) error{
		"error": func(context.Context) error { return errors.New("disk full") },
		"panic": func(context.Context) error { panic("boom") },
	} {
		store, seen := newMemStore(), &counter{}
		store.beforeReject = fail
		rc := newReceiver(t, store, inbox.Config{Observer: seen})
		if w := post(rc, "/in/rcs", "x"); w.Code != 400 || seen.dropped() != 1 {
			t.Errorf("%s: answer %d, dropped %d", name, w.Code, seen.dropped())
		}
	}
	// A store without a ring is no failure.
	seen := &counter{}
	rc := newReceiver(t, wrongStore{}, inbox.Config{Observer: seen})
	if w := post(rc, "/in/rcs", "x"); w.Code != 400 || seen.dropped() != 0 {
		t.Errorf("no ring: answer %d, dropped %d", w.Code, seen.dropped())
	}
}
