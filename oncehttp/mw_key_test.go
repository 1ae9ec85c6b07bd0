package oncehttp_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/oncekit/once/oncehttp"
)

// raw sends header lines as they are written and reads the answer.
func (a *api) raw(lines ...string) got {
	a.t.Helper()
	conn := a.dial()
	_, _ = io.WriteString(conn, "POST /orders HTTP/1.1\r\nHost: api.test\r\nContent-Length: 2\r\n"+
		"Connection: close\r\n"+strings.Join(lines, "\r\n")+"\r\n\r\n{}")
	return readAnswer(conn)
}

func TestH01MoreThanOneFieldLineIsRefused(t *testing.T) {
	for _, lines := range [][]string{
		{"Idempotency-Key: K", "Idempotency-Key: K"},
		{"Idempotency-Key: K", "Idempotency-Key: L"},
		{"idempotency-key: K", "IDEMPOTENCY-KEY: L"},
		{"X-Idempotency-Key: K", "X-Idempotency-Key: K"},
		{"Idempotency-Key: K", "Idempotency-Key:"},
		{"Idempotency-Key:", "Idempotency-Key:"},
		{"Idempotency-Key: K", "X-Idempotency-Key: K", "X-Idempotency-Key: K"},
		{"Idempotency-Key: a, b"},
		{`Idempotency-Key: "a", "b"`},
		{"Idempotency-Key: a", " b"}, // folded: the server joins it with a blank
	} {
		a := orders(t)
		if g := a.raw("Idempotency-Key: K"); g.status != http.StatusCreated {
			t.Fatalf("one line: %d", g.status)
		}
		g := a.raw(lines...)
		wantProblem(t, g, http.StatusBadRequest, oncehttp.ProblemKeyInvalid)
		a.wantRan(1)
	}
}

func TestBothHeaderNamesAreOneKey(t *testing.T) {
	a := orders(t)
	first := a.post("", `{}`, "X-Idempotency-Key", "K")
	wantReplay(t, first, a.post("", `{}`, "Idempotency-Key", `"K"`))
	wantReplay(t, first, a.post("", `{}`, "Idempotency-Key", "K", "X-Idempotency-Key", `"K"`))
	wantReplay(t, first, a.post("", `{}`, "Idempotency-Key", "", "X-Idempotency-Key", "K"))
	wantReplay(t, first, a.post("", `{}`, "Idempotency-Key", "K", "X-Idempotency-Key", `""`))
	wantProblem(t, a.post("", `{}`, "Idempotency-Key", "K", "X-Idempotency-Key", "L"),
		http.StatusBadRequest, oncehttp.ProblemKeyInvalid)
	wantProblem(t, a.post("", `{}`, "Idempotency-Key", "K", "X-Idempotency-Key", `"L`),
		http.StatusBadRequest, oncehttp.ProblemKeyInvalid)
	a.wantRan(1)
}

func TestH02QuotedAndBareAreOneKeyAndNothingElsePasses(t *testing.T) {
	a := orders(t)
	first := a.post(`"8e03978e-40d5-43dd-bc93-6894a57f9324"`, `{}`)
	wantReplay(t, first, a.post("8e03978e-40d5-43dd-bc93-6894a57f9324", `{}`))
	escaped := a.post(`"esc\"a\\ped"`, `{}`)
	wantReplay(t, escaped, a.post(`"esc\"a\\ped"`, `{}`))
	a.wantRan(2)
	for _, key := range []string{
		`"`, `"unterminated`, `"a"b`, `"a";x=1`, `"a" ;x`, `"a\b"`, `"a\`, `"a\"`, `a"b`, `a"`, `a;x=1`,
		`a b`, `a\b`, "\"t\tb\"", "\"\xe9\"", "\xe9", "\"\xff\xfe\"", `:YQ==:"`, `"a""b"`,
	} {
		wantProblem(t, a.raw("Idempotency-Key: "+key), http.StatusBadRequest,
			oncehttp.ProblemKeyInvalid)
	}
	a.wantRan(2)
}

func TestH03AKeysLengthIsBoundedBeforeTheStore(t *testing.T) {
	a := orders(t)
	letters := make([]byte, 8192)
	for i := range letters {
		letters[i] = byte('a' + rand.N(26))
	}
	for _, key := range []string{
		strings.Repeat("k", 256), `"` + strings.Repeat("k", 256) + `"`, string(letters),
		strings.Repeat("k", 8192),
	} {
		g := a.post(key, `{}`)
		wantProblem(t, g, http.StatusBadRequest, oncehttp.ProblemKeyInvalid)
		if !strings.Contains(g.body, `"limit":255`) || !strings.Contains(g.body, "at most 255") {
			t.Errorf("the limit isn't named: %s", g.body)
		}
		if strings.Contains(g.body, key[1:20]) {
			t.Error("the answer repeats the key")
		}
	}
	if len(a.store.claims()) != 0 {
		t.Errorf("the store was asked %d times", len(a.store.claims()))
	}
	longest := strings.Repeat("k", 255)
	first := a.post(longest, `{}`)
	wantReplay(t, first, a.post(`"`+longest+`"`, `{}`))
	// Quotes and escapes don't count.
	if g := a.post(`"`+strings.Repeat(`\\`, 255)+`"`, `{}`); g.status != http.StatusCreated {
		t.Errorf("255 escaped characters: %d %s", g.status, g.body)
	}
	a.wantRan(2)
}

func TestH04AnEmptyKeyIsAbsentAndNeverShared(t *testing.T) {
	empty := []string{"", "   ", "\t", `""`, `"   "`, ` "" `}
	t.Run("optional", func(t *testing.T) {
		a := orders(t)
		n := 0
		for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
			for _, key := range empty {
				for i := range 4 {
					n++
					g := a.post("", fmt.Sprintf(`{"n":%d}`, i), name, key)
					if g.status != http.StatusCreated || g.replayed() {
						t.Errorf("%s %q: %d, replayed %v", name, key, g.status, g.replayed())
					}
				}
			}
		}
		a.wantRan(int64(n))
		if len(a.store.claims()) != 0 {
			t.Errorf("%d claims, want none", len(a.store.claims()))
		}
	})
	t.Run("required", func(t *testing.T) {
		a := orders(t, func(c *oncehttp.Config) { c.Key = oncehttp.KeyRequired })
		for _, key := range empty {
			wantProblem(t, a.post("", `{}`, "Idempotency-Key", key), http.StatusBadRequest,
				oncehttp.ProblemKeyMissing)
		}
		wantProblem(t, a.post("", `{}`), http.StatusBadRequest, oncehttp.ProblemKeyMissing)
		if g := a.post("K", `{}`); g.status != http.StatusCreated {
			t.Errorf("with a key: %d", g.status)
		}
		a.wantRan(1)
	})
	t.Run("entries without a value", func(t *testing.T) {
		a := &api{t: t, store: newStore(t)}
		h := a.guard(func(http.ResponseWriter, *http.Request) {})
		for _, values := range [][]string{nil, {}} {
			r, _ := http.NewRequest(http.MethodPost, "http://api.test/", nil)
			r.Header["Idempotency-Key"] = values
			h.ServeHTTP(&discard{http.Header{}}, r)
		}
		a.wantRan(2)
	})
}

func TestH06CaseAndTrailingSpacesMakeOtherKeys(t *testing.T) {
	a := orders(t)
	for _, key := range []string{`Order-A`, `order-a`, `"Order-A "`, `" Order-A"`, `"Order-A  "`} {
		if g := a.post(key, `{}`); g.status != http.StatusCreated || g.replayed() {
			t.Errorf("%s: %d, replayed %v", key, g.status, g.replayed())
		}
	}
	a.wantRan(5)
	g := a.raw("Content-Type: application/json", "Idempotency-Key: \t Order-A \t")
	if !g.replayed() {
		t.Error("blanks around a bare key make another one")
	}
}

func TestH10AKeyOnASafeMethodIsIgnored(t *testing.T) {
	a := orders(t)
	methods := []string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"}
	for _, method := range methods {
		for range 2 {
			g := a.do(method, "/orders/1", "K", nil)
			if g.status != http.StatusCreated || g.replayed() {
				t.Errorf("%s: %d, replayed %v", method, g.status, g.replayed())
			}
		}
	}
	a.wantRan(int64(2 * len(methods)))
	if len(a.store.claims()) != 0 {
		t.Errorf("%d claims, want none", len(a.store.claims()))
	}
	// A malformed one as well: only PUT and DELETE could ask for more, by configuration.
	if g := a.do("GET", "/orders/1", `"unterminated`, nil); g.status != http.StatusCreated {
		t.Errorf("GET with a malformed key: %d", g.status)
	}
}

func TestWhichMethodsAreGuardedIsAChoice(t *testing.T) {
	a := orders(t, func(c *oncehttp.Config) { c.Methods = []string{"PUT", "DELETE"} })
	for _, method := range []string{"PUT", "DELETE"} {
		first := a.do(method, "/orders/"+method, method, nil)
		wantReplay(t, first, a.do(method, "/orders/"+method, method, nil))
	}
	a.wantRan(2)
	a.post("K", `{}`)
	a.post("K", `{}`)
	a.wantRan(4)
}

func TestH09APreflightPassesAndAnOriginIsNotToldAnothers(t *testing.T) {
	cors := func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Add("Vary", "Origin")
		w.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
		w.Header().Set("Access-Control-Allow-Credentials", "true")
		if r.Method == http.MethodOptions {
			w.Header().Set("Access-Control-Allow-Headers", "Idempotency-Key")
			w.WriteHeader(http.StatusNoContent)
			return true
		}
		return false
	}
	t.Run("inside", func(t *testing.T) { // the handler's own headers are what is kept
		a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
			if !cors(w, r) {
				w.WriteHeader(http.StatusCreated)
			}
		})
		for range 2 {
			g := a.do("OPTIONS", "/orders", "K", nil, "Origin", "https://a.test",
				"Access-Control-Request-Method", "POST",
				"Access-Control-Request-Headers", "idempotency-key")
			if g.status != http.StatusNoContent || g.replayed() {
				t.Errorf("preflight: %d", g.status)
			}
		}
		first := a.post("K", `{}`, "Origin", "https://a.test")
		same := a.post("K", `{}`, "Origin", "https://a.test")
		wantReplay(t, first, same)
		if o := same.header.Get("Access-Control-Allow-Origin"); o != "https://a.test" {
			t.Errorf("the same origin is allowed %q", o)
		}
		other := a.post("K", `{}`, "Origin", "https://b.test")
		if o := other.header["Access-Control-Allow-Origin"]; len(o) > 0 || !other.replayed() {
			t.Errorf("another origin is told %q", o)
		}
		if len(other.header["Access-Control-Allow-Credentials"]) > 0 {
			t.Error("another origin is told of credentials")
		}
		a.wantRan(3)
	})
	t.Run("outside", func(t *testing.T) { // each exchange has its own
		a := &api{t: t, store: newStore(t)}
		guarded := a.guard(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Etag", `"1"`)
		})
		serve(t, a, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !cors(w, r) {
				guarded.ServeHTTP(w, r)
			}
		}))
		for i, origin := range []string{"https://a.test", "https://b.test"} {
			g := a.post("K", `{}`, "Origin", origin)
			if o := g.header.Get("Access-Control-Allow-Origin"); o != origin ||
				g.replayed() != (i == 1) || len(g.header.Values("Vary")) != 1 {
				t.Errorf("%s is allowed %q, replayed %v, Vary %q", origin, o, g.replayed(),
					g.header.Values("Vary"))
			}
		}
	})
}

func TestProblemsNameTheirPageAndAreStable(t *testing.T) {
	a := orders(t, func(c *oncehttp.Config) {
		c.Key, c.Docs = oncehttp.KeyRequired, "https://docs.test/keys"
	})
	g := a.post("", `{}`)
	wantProblem(t, g, http.StatusBadRequest, "key-missing")
	if l := g.header.Get("Link"); l != `<https://docs.test/keys>; rel="describedby"` {
		t.Errorf("Link is %q", l)
	}
	want := `{"type":"urn:once:problem:key-missing","title":"An idempotency key is missing",` +
		`"status":400,"detail":"Send Idempotency-Key: \"KEY\" with a key that no other request of ` +
		`yours has, such as a random UUID, and the same key when you send this request again."}`
	if g.body != want {
		t.Errorf("body is %s", g.body)
	}
	if g := orders(t).post(`"`, `{}`); g.header.Get("Link") != "" {
		t.Error("there is a link without a page")
	}
}

func TestObserveIsToldOnceOfEachRequest(t *testing.T) {
	a := orders(t)
	a.post("", `{}`)
	a.post("K", `{}`)
	a.post("K", `{}`)
	a.post("K", `{"other":1}`)
	a.post(`"`, `{}`)
	a.do("GET", "/orders", "K", nil)
	want := "unguarded first replay mismatch key-invalid"
	if s := a.observed(); s != want {
		t.Errorf("told %q, want %q", s, want)
	}
}
