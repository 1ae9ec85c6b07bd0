package inbox_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/oncekit/once"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/queue"
)

// packed returns a text encoded with a compressor.
func packed(t testing.TB, text string, to func(io.Writer) io.WriteCloser) string {
	t.Helper()
	var b bytes.Buffer
	w := to(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func asGzip(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
func asZlib(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }
func asFlate(w io.Writer) io.WriteCloser {
	f, err := flate.NewWriter(w, flate.BestSpeed)
	if err != nil {
		panic(err)
	}
	return f
}

// jsonPrint is a source whose fingerprint is of the content.
func jsonPrint() *inbox.Source {
	s := rcs()
	s.Fingerprint = func(m *inbox.Message) (once.Fingerprint, error) {
		return value.Digest(m.Body, nil)
	}
	return s
}

func TestF07_AnEncodedBodyIsStoredAsItCameAndReadWithoutItsEncoding(t *testing.T) {
	two := packed(t, finishFE[:20], asGzip) + packed(t, finishFE[20:], asGzip)
	for name, c := range map[string]struct{ header, body string }{
		"gzip":              {"gzip", packed(t, finishFE, asGzip)},
		"GZIP":              {" GZIP ", packed(t, finishFE, asGzip)},
		"x-gzip":            {"x-gzip", packed(t, finishFE, asGzip)},
		"two gzip members":  {"gzip", two},
		"with identity":     {"identity, gzip", packed(t, finishFE, asGzip)},
		"deflate":           {"deflate", packed(t, finishFE, asZlib)},
		"deflate, no frame": {"deflate", packed(t, finishFE, asFlate)},
		"byte order mark":   {"gzip", packed(t, "\xef\xbb\xbf"+finishFE, asGzip)},
		"identity":          {"identity", finishFE},
		"none":              {"", finishFE},
	} {
		t.Run(name, func(t *testing.T) {
			store, source := newMemStore(), jsonPrint()
			var raw, content string
			source.Verifier = verifyFunc(func(m *inbox.Message) error {
				b, err := m.Content()
				raw, content = string(m.Raw), string(b)
				return err
			})
			rc := newReceiver(t, store, inbox.Config{}, source)
			w := post(rc, "/in/rcs", c.body, "Content-Encoding", c.header)
			if w.Code != 200 {
				t.Fatalf("answer %d %s", w.Code, w.Body)
			}
			if raw != c.body || strings.TrimPrefix(content, "\xef\xbb\xbf") != finishFE {
				t.Errorf("the verifier saw %q and %q", raw, content)
			}
			a := store.accepted()[0]
			if string(a.Body) != c.body {
				t.Errorf("stored %q", a.Body)
			}
			body, err := inbox.DecodeBody(a.Meta, a.Body, 64)
			if err != nil || body.(map[string]any)["taskCode"] != "TASK-001" {
				t.Errorf("a flow sees %v, %v", body, err)
			}
			cb := seenBy(t, rowOf(a))
			var decoded struct{ TaskCode string }
			if err := cb.Decode(&decoded); err != nil || decoded.TaskCode != "TASK-001" {
				t.Errorf("a handler decodes %+v, %v", decoded, err)
			}
			if got, err := cb.Content(); err != nil || string(got) != content ||
				string(cb.Body) != c.body {
				t.Errorf("a handler sees %q, %v", got, err)
			}
			plain := post(rc, "/in/rcs", " "+finishFE)
			if plain.Code != 200 || len(store.accepted()) != 1 || store.arrivals != 2 {
				t.Errorf("the same without: %d, %d accepted", plain.Code, len(store.accepted()))
			}
		})
	}
}

func TestAWronglyEncodedBodyIsRefusedWithTheReason(t *testing.T) {
	gz := packed(t, finishFE, asGzip)
	broken := []byte(gz)
	broken[len(broken)-6] ^= 1 // in the checksum
	for name, c := range map[string]struct{ header, body, reason string }{
		"brotli": {"br", finishFE,
			`content encoding "br" is not supported, want gzip, deflate, or none`},
		"twice": {"gzip, gzip", gz,
			`content encoding "gzip, gzip": more than one is not supported`},
		"not gzip": {"gzip", finishFE,
			"content encoding gzip: the body is not encoded so, or is damaged"},
		"not deflate": {"deflate", finishFE,
			"content encoding deflate: the body is not encoded so"},
		"cut off":     {"gzip", gz[:len(gz)-9], "content encoding gzip: the body is cut off"},
		"only a head": {"gzip", gz[:5], "content encoding gzip: the body is cut off"},
		"wrong sum": {"gzip", string(broken),
			"content encoding gzip: the body is not encoded so, or is damaged"},
		"more behind": {"deflate", packed(t, finishFE, asZlib) + "x",
			"something follows the encoded body"},
		"gzip, trailing": {"gzip", gz + "0123456789",
			"content encoding gzip: the body is not encoded so"},
		"empty inside":   {"gzip", packed(t, "", asGzip), "body is empty"},
		"empty":          {"gzip", "", "body is empty"},
		"no JSON inside": {"gzip", packed(t, "{", asGzip), "invalid JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			store := newMemStore()
			w := post(newReceiver(t, store, inbox.Config{}), "/in/rcs", c.body,
				"Content-Encoding", c.header)
			ring := store.ring()
			if w.Code != 400 || len(ring) != 1 || !strings.Contains(ring[0].Reason, c.reason) {
				t.Errorf("answer %d %s, ring %+v", w.Code, w.Body, ring)
			}
		})
	}
}

func TestABodyThatGrowsIsStoppedAtItsLimit(t *testing.T) {
	const limit = 10000
	fill := func(size int) string {
		const head, tail = `{"reqCode":"1","taskCode":"2","callbackMethod":"e","note":"`, `"}`
		return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
	}
	for _, to := range []func(io.Writer) io.WriteCloser{asGzip, asZlib, asFlate} {
		coding := "deflate"
		if packed(t, "", to)[0] == 0x1f {
			coding = "gzip"
		}
		for size, want := range map[int]int{
			4096: 200, 4097: 200, 9999: 200, limit: 200, limit + 1: 413, 16 << 20: 413,
		} {
			source, store := rcs(), newMemStore()
			source.MaxBody = limit
			verified := false
			source.Verifier = verifyFunc(func(m *inbox.Message) error {
				_, err := m.Content()
				verified = true
				if err != nil {
					return errors.New("wrong signature")
				}
				return nil
			})
			body := packed(t, fill(size), to)
			if len(body) > limit {
				body = body[:limit] // it would be too large as it is
			}
			w := post(newReceiver(t, store, inbox.Config{}, source), "/in/rcs", body,
				"Content-Encoding", coding)
			if w.Code != want || !verified {
				t.Errorf("%s of %d bytes: %d %s, want %d", coding, size, w.Code, w.Body, want)
			}
			if want == 413 && !strings.Contains(w.Body.String(),
				"body is larger than 10000 bytes without its content encoding") {
				t.Errorf("%s of %d bytes: %s", coding, size, w.Body)
			}
		}
	}
}

func TestTheMemoryForContentIsCountedAndGivenBack(t *testing.T) {
	fill := `{"reqCode":"1","taskCode":"2","callbackMethod":"e","note":"` +
		strings.Repeat("x", 100<<10) + `"}`
	body := packed(t, fill, asGzip)
	source := rcs()
	source.MaxBody = 110 << 10
	rc := newReceiver(t, newMemStore(), inbox.Config{MaxInFlightBytes: 400 << 10}, source)
	for i := range 20 {
		w := post(rc, "/in/rcs", body, "Content-Encoding", "gzip")
		if w.Code != 200 {
			t.Fatalf("message %d: %d %s", i, w.Code, w.Body)
		}
	}
	// What never fits is too large, not a matter of time.
	rc = newReceiver(t, newMemStore(), inbox.Config{MaxInFlightBytes: 110 << 10}, source)
	w := post(rc, "/in/rcs", body, "Content-Encoding", "gzip")
	if w.Code != 413 || !strings.Contains(w.Body.String(), "112640 bytes for all bodies") {
		t.Errorf("answer %d %s", w.Code, w.Body)
	}
	// Others hold the memory: try again.
	block, held := make(chan struct{}), make(chan struct{})
	store := newMemStore()
	var first sync.Once
	store.before = func(context.Context) error {
		first.Do(func() {
			close(held)
			<-block
		})
		return nil
	}
	rc = newReceiver(t, store, inbox.Config{MaxInFlightBytes: 300 << 10}, source)
	done := make(chan int)
	go func() { done <- post(rc, "/in/rcs", body, "Content-Encoding", "gzip").Code }()
	<-held
	w = post(rc, "/in/rcs", body, "Content-Encoding", "gzip")
	if w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("answer %d %s", w.Code, w.Body)
	}
	close(block)
	if code := <-done; code != 200 {
		t.Errorf("the first one: %d", code)
	}
}

func TestAServiceIsHandedTheBodyAsItCameWithWhatItIs(t *testing.T) {
	var got *http.Request
	var body string
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got, body = r, string(b)
	}))
	defer srv.Close()
	list := `{"data":[{"no":1},{"no":2}]}`
	form := func(s *inbox.Source) {
		s.Form = true
		s.Key = func(m *inbox.Message) (once.Key, error) {
			return once.KeyOf(m.Body.(map[string]any)["a"])
		}
		s.Event, s.Route = nil, func(*inbox.Message, string) (inbox.Route, error) {
			return inbox.Route{Lane: "l"}, nil
		}
	}
	gz := packed(t, finishFE, asGzip)
	for name, c := range map[string]struct {
		source         *inbox.Source
		change         func(*inbox.Source)
		body           string
		header         []string
		want           string
		kind, encoding string
		item           string
	}{
		"gzip": {rcs(), nil, gz, []string{"Content-Encoding", "gzip", "Digest", "d"},
			gz, "application/json", "gzip", ""},
		"header not kept": {rcs(), func(s *inbox.Source) {
			s.DropHeaders = []string{"Content-Encoding", "Content-Type"}
		}, gz, []string{"Content-Encoding", "x-gzip"}, gz, "application/json", "gzip", ""},
		"form": {rcs(), form, "a=1+2&b=%C3%A9",
			[]string{"Content-Type", "application/x-www-form-urlencoded"},
			"a=1+2&b=%C3%A9", "application/x-www-form-urlencoded", "", ""},
		"form of no type": {rcs(), form, "a=1", []string{"Content-Type", ""},
			"a=1", "application/x-www-form-urlencoded", "", ""},
		"element": {listed(), nil, packed(t, list, asGzip),
			[]string{"Content-Encoding", "gzip", "Digest", "d", "Content-Digest", "d"},
			`{"data":[{"no":1}]}`, "application/json", "", "0"},
		"only element": {listed(), nil, packed(t, `{"data":{"no":1}}`, asGzip),
			[]string{"Content-Encoding", "gzip"}, packed(t, `{"data":{"no":1}}`, asGzip),
			"application/json", "gzip", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.change != nil {
				c.change(c.source)
			}
			store := newMemStore()
			rc := newReceiver(t, store, inbox.Config{}, c.source)
			if w := post(rc, "/in/"+c.source.Name, c.body, c.header...); w.Code != 200 {
				t.Fatalf("answer %d %s", w.Code, w.Body)
			}
			cfg := httpHandler(t, inbox.HTTPConfig{URL: srv.URL})
			s := inbox.Attempt(t.Context(), cfg, rowOf(store.accepted()[0]))
			if s.State != queue.Done {
				t.Fatalf("settlement %+v", s)
			}
			if body != c.want || got.Header.Get("Content-Type") != c.kind ||
				got.Header.Get("Content-Encoding") != c.encoding ||
				got.Header.Get("Once-Item") != c.item {
				t.Errorf("handed over %q as %v", body, got.Header)
			}
			if digest := got.Header.Get("Digest") != ""; digest != (name == "gzip") {
				t.Errorf("the digest of the body that came: %v", digest)
			}
		})
	}
}
