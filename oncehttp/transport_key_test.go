package oncehttp_test

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/oncekit/once/oncehttp"
)

func TestAKeyOfTheCallersIsKept(t *testing.T) {
	const uuid = `^"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"$`
	for name, c := range map[string]struct {
		header     http.Header
		ctx        string
		sent, also string // patterns of Idempotency-Key and X-Idempotency-Key
	}{
		"none":                     {nil, "", uuid, "^$"},
		"by the context":           {nil, "order-7", `^"order-7"$`, "^$"},
		"with a quote":             {nil, `a"b\c`, `^"a\\"b\\\\c"$`, "^$"},
		"in the header":            {http.Header{"Idempotency-Key": {"K1"}}, "", "^K1$", "^$"},
		"the header comes first":   {http.Header{"Idempotency-Key": {"K1"}}, "K2", "^K1$", "^$"},
		"two lines are not ours":   {http.Header{"Idempotency-Key": {"K1", "K2"}}, "", `^K1\|K2$`, "^$"},
		"in the older header":      {http.Header{"X-Idempotency-Key": {"K1"}}, "", "^$", "^K1$"},
		"a blank one is none":      {http.Header{"Idempotency-Key": {" "}}, "", uuid, "^$"},
		"a quoted blank too":       {http.Header{"Idempotency-Key": {`""`}}, "", uuid, "^$"},
		"a blank older one is cut": {http.Header{"X-Idempotency-Key": {""}}, "K2", `^"K2"$`, "^$"},
	} {
		t.Run(name, func(t *testing.T) {
			var got http.Header
			base := roundTripper(func(r *http.Request) (*http.Response, error) {
				got = r.Header
				return answer(201, "")(r)
			})
			ctx := t.Context()
			if c.ctx != "" {
				ctx = oncehttp.WithKey(ctx, c.ctx)
			}
			req, err := http.NewRequestWithContext(ctx, "PATCH", "http://api.test/", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header = c.header
			resp, err := transport(t, oncehttp.TransportConfig{Base: base}).RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			for name, want := range map[string]string{
				"Idempotency-Key": c.sent, "X-Idempotency-Key": c.also,
			} {
				value := strings.Join(got[name], "|")
				if !regexp.MustCompile(want).MatchString(value) {
					t.Errorf("%s is %q, want %s", name, value, want)
				}
			}
			if c.header == nil && req.Header != nil {
				t.Error("the caller's request was changed")
			}
		})
	}
}

func TestAKeyThatNoServerTakesIsNotSent(t *testing.T) {
	base := roundTripper(func(*http.Request) (*http.Response, error) {
		panic("it was sent")
	})
	for _, key := range []string{"", "a\nb", "ü", strings.Repeat("k", 256)} {
		body := &closed{Reader: strings.NewReader("x")}
		ctx := oncehttp.WithKey(context.Background(), key)
		req, err := http.NewRequestWithContext(ctx, "POST", "http://api.test/", body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := transport(t, oncehttp.TransportConfig{Base: base}).RoundTrip(req); err == nil {
			t.Errorf("key %q: no error", key)
		}
		if !body.closed {
			t.Errorf("key %q: the body was not closed", key)
		}
	}
}

type closed struct {
	*strings.Reader
	closed bool
}

func (c *closed) Close() error {
	c.closed = true
	return nil
}

func TestKeysAreNewForEachRequestAndTheTransportIsSharedSafely(t *testing.T) {
	const senders, each = 8, 50
	var mu sync.Mutex
	keys := map[string]bool{}
	tr := transport(t, oncehttp.TransportConfig{
		Base: roundTripper(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			keys[r.Header.Get("Idempotency-Key")] = true
			return answer(201, "")(r)
		}),
	})
	var group sync.WaitGroup
	for range senders {
		group.Go(func() {
			for range each {
				resp, err := (&http.Client{Transport: tr}).Post("http://api.test/", "text/plain",
					strings.NewReader("x"))
				if err != nil {
					t.Error(err)
					return
				}
				_ = resp.Body.Close()
			}
		})
	}
	group.Wait()
	if len(keys) != senders*each {
		t.Errorf("%d keys of %d requests", len(keys), senders*each)
	}
}

func TestAWrongConfigurationOfATransportIsRefused(t *testing.T) {
	for _, cfg := range []oncehttp.TransportConfig{
		{MaxTries: -1}, {MaxTime: -1}, {Methods: []string{"GET"}}, {Methods: []string{"post"}},
		{MaxBuffer: -1},
	} {
		if _, err := oncehttp.NewTransport(cfg); err == nil {
			t.Errorf("%+v is not refused", cfg)
		}
	}
}
