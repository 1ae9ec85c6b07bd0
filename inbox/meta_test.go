package inbox_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/oncekit/once/inbox"
)

// metaOf lets a receiver store a request and returns its encoding.
func metaOf(t *testing.T, target string, header http.Header) []byte {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/in/rcs", strings.NewReader(finishFE))
	r.URL.RawQuery = target
	r.Header = header
	store := newMemStore()
	w := httptest.NewRecorder()
	newReceiver(t, store, inbox.Config{}).ServeHTTP(w, r)
	if w.Code != 200 {
		t.Fatalf("answer %d %s", w.Code, w.Body)
	}
	return store.accepted()[0].Meta
}

func TestMeta_IsPlainJSON(t *testing.T) {
	meta := metaOf(t, "a=1", http.Header{"X-A": {"1", `q"\` + "\t\x7f€"}})
	want := `{"method":"POST","path":"/in/rcs","query":"a=1","host":"example.com",` +
		`"peer":"192.0.2.1:1234","header":{"X-A":["1","q\"\\\u0009` + "\x7f€" + `"]}}`
	if string(meta) != want {
		t.Errorf("meta %s\nwant %s", meta, want)
	}
	if !json.Valid(meta) {
		t.Error("it is not JSON")
	}
}

func TestMeta_KeepsEveryByte(t *testing.T) {
	header := http.Header{
		"X-Latin": {"caf\xe9", "café", "", "\xff\xfe"}, "X-None": nil, "X-Html": {"<a&b>\u2028"},
	}
	got, err := inbox.DecodeMeta(metaOf(t, "k=\xe9&k=%E9", header))
	if err != nil {
		t.Fatal(err)
	}
	delete(header, "X-None")
	if !reflect.DeepEqual(got.Header, header) || got.Query != "k=\xe9&k=%E9" {
		t.Errorf("got %q %q", got.Header, got.Query)
	}
}

func TestDecodeMeta_OfNothingAndNonsense(t *testing.T) {
	if got, err := inbox.DecodeMeta(nil); err != nil || got.Method != "" {
		t.Errorf("nothing: %+v, %v", got, err)
	}
	for _, s := range []string{"x", "[]", `{"path":1}`, `{"header":{"A":[{"base64":"!"}]}}`} {
		if _, err := inbox.DecodeMeta([]byte(s)); err == nil {
			t.Errorf("%s was accepted", s)
		}
	}
}

func TestTraceParent_OnlyAValidOneIsKept(t *testing.T) {
	const ok = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for in, want := range map[string]string{
		ok:                    ok,
		"cc" + ok[2:] + "-x":  "cc" + ok[2:],
		ok + "-x":             "",
		"cc" + ok[2:] + "x":   "",
		ok[:54]:               "",
		"ff" + ok[2:]:         "",
		strings.ToUpper(ok):   "",
		ok[:2] + "_" + ok[3:]: "",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": "",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": "",
		"": "",
	} {
		store := newMemStore()
		post(newReceiver(t, store, inbox.Config{}), "/in/rcs", finishFE, "Traceparent", in)
		if got := store.accepted()[0].TraceParent; got != want {
			t.Errorf("%q: kept %q, want %q", in, got, want)
		}
	}
}

func FuzzMeta_RoundTrip(f *testing.F) {
	f.Add("X-A", "v", "a=1", "tok")
	f.Add("Authorization", "caf\xe9", "\x00", "\"\\")
	f.Fuzz(func(t *testing.T, name, value, query, second string) {
		name = http.CanonicalHeaderKey(name)
		if strings.ToValidUTF8(name, "") != name {
			return // net/http lets no such name through
		}
		header := http.Header{name: {value, second}}
		if name == "Content-Type" || name == "Content-Encoding" {
			return // would be refused
		}
		got, err := inbox.DecodeMeta(metaOf(t, query, header))
		if err != nil {
			t.Fatal(err)
		}
		switch name {
		case "Authorization", "Cookie", "Proxy-Authorization":
			if len(got.Header) != 0 || len(got.Digests[name]) != 2 {
				t.Fatalf("got %+v", got)
			}
		default:
			if !reflect.DeepEqual(got.Header, header) || got.Query != query {
				t.Fatalf("got %+v", got)
			}
		}
	})
}

func FuzzReceiver_AlwaysAnswers(f *testing.F) {
	f.Add("POST", "/in/rcs", "application/json", "a=1", "X-A", "v", []byte(finishFE), int64(72))
	f.Add("POST", "/in/headed", "", "", "X-Request-Id", "k", []byte("{}"), int64(-1))
	f.Add("GET", "//in/rcs", "text/plain", ";", "Authorization", "\xe9", []byte("\x00"), int64(9))
	f.Add("POST", "/in/rcs", "", "", "X-\xe9", "", []byte(finishFE), int64(-1))
	f.Add("POST", "/in/rcs", "a/b+json", "%", "A", "", []byte("\xef\xbb\xbf[1e999999]"), int64(0))
	f.Fuzz(func(t *testing.T, method, path, kind, query, name, value string, body []byte,
		length int64) {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body)))
		r.Method, r.URL.Path, r.URL.RawQuery, r.ContentLength = method, path, query, length
		if length < -1 {
			r.ContentLength = -1
		}
		r.Header = http.Header{"Content-Type": {kind}, http.CanonicalHeaderKey(name): {value}}
		store, seen := newMemStore(), &counter{}
		rc := newReceiver(t, store, inbox.Config{Observer: seen}, rcs(), headed())
		w := httptest.NewRecorder()
		rc.ServeHTTP(w, r)
		ok := w.Code == 200
		if ok != (len(store.accepted()) == 1) || ok != (len(store.ring()) == 0) {
			t.Fatalf("answer %d, %s", w.Code, dump(store))
		}
		if !ok && w.Code != 400 && w.Code != 404 && w.Code != 405 && w.Code != 413 {
			t.Fatalf("answer %d %s", w.Code, w.Body)
		}
		if len(seen.n) != 1 {
			t.Fatalf("counted %v", seen.n)
		}
		if ok {
			if _, err := inbox.DecodeMeta(store.accepted()[0].Meta); err != nil {
				t.Fatal(err)
			}
		}
	})
}
