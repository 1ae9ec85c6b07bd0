package route_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/route"
)

func table(t *testing.T, strict bool, patterns ...string) *route.Table {
	t.Helper()
	var list []route.Pattern
	for _, text := range patterns {
		p, err := route.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		list = append(list, p)
	}
	tab, err := route.NewTable(list, strict)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestTheMostSpecificRouteCounts(t *testing.T) {
	t.Parallel()
	tab := table(t, true, "POST /", "POST /payments", "POST /payments/{rest...}",
		"POST /payments/{id}/refund", "POST /payments/{id}", "POST /payments/first",
		"PATCH /payments/{id}", "POST /{any}/refund", "POST /orders/{$}", "POST /orders/{id}")
	for request, want := range map[string]int{
		"POST /":                    0,
		"POST /x":                   0,
		"POST /x/y/z":               0,
		"POST /payments":            1,
		"POST /payments/":           2,
		"POST /payments/7":          4,
		"POST /payments/7/":         4,
		"POST /payments/first":      5,
		"POST /payments/7/refund":   3,
		"POST /payments/7/x":        2,
		"POST /refunds/refund":      7,
		"POST /orders/":             8,
		"POST /orders/1":            9,
		"POST /orders":              0,
		"PATCH /payments/7":         6,
		"PATCH /payments":           -1,
		"GET /payments":             -1,
		"POST //payments":           1,
		"POST /./payments":          1,
		"POST /a/../payments":       1,
		"POST /../payments":         1,
		"POST /%70ayments":          1,
		"POST /a/%2e%2e/payments":   1,
		"POST /a/%2E./payments":     1,
		"POST /Payments":            0,
		"POST /payments/a%20b":      4,
		"POST /payments//7//refund": 3,
	} {
		method, path, _ := strings.Cut(request, " ")
		if got, _, err := tab.Find(method, path); err != nil || got != want {
			t.Errorf("%s: route %d, %v, want %d", request, got, err, want)
		}
	}
}

func TestWhatIsComparedIsWhatIsSent(t *testing.T) {
	t.Parallel()
	strict, none := table(t, true, "POST /payments"), table(t, false, "POST /payments")
	for path, want := range map[string]string{
		"/payments": "/payments", "//payments": "/payments", "/a/./b/../payments": "/a/payments",
		"/%70ay%6dents": "/payments", "/a%2fb": "/a%2Fb", "/a/b/..": "/a/", "/a/b/.": "/a/b/",
		"/..": "/", "/": "/", "/a//": "/a/", "/%zz": "/%25zz", "/a%": "/a%25",
		"/a.b/...": "/a.b/...",
	} {
		if _, got, err := strict.Find("GET", path); err != nil || got != want {
			t.Errorf("%s is sent as %s, %v, want %s", path, got, err, want)
		}
		if _, got, err := none.Find("GET", path); err != nil || got != path {
			t.Errorf("%s is sent as %s, %v, though nothing is normalized", path, got, err)
		}
	}
	for path, want := range map[string]int{"/payments": 0, "/%70ayments": 0, "//payments": -1,
		"/payments/": -1, "/x/../payments": -1} {
		if got, _, _ := none.Find("POST", path); got != want {
			t.Errorf("%s, not normalized: route %d, want %d", path, got, want)
		}
	}
}

func TestAPathOfTwoRoutesIsRefused(t *testing.T) {
	t.Parallel()
	tab := table(t, true, "POST /", "POST /payments", "POST /payments/{rest...}")
	for _, path := range []string{"/payments%2F7", "/payments;a=1", `/x%2F..%2Fpayments`,
		"/payments%5C7", "/payments%3Ba"} {
		if n, _, err := tab.Find("POST", path); !errors.Is(err, route.ErrAmbiguous) {
			t.Errorf("%s: route %d, %v", path, n, err)
		}
		if n, _, err := tab.Find("GET", path); err != nil || n != -1 {
			t.Errorf("GET %s: route %d, %v", path, n, err)
		}
	}
	for path, want := range map[string]int{"/files/a%2Fb": 0, "/payments/a%2Fb": 2, "/x;a=1": 0} {
		if n, sent, err := tab.Find("POST", path); err != nil || n != want || sent != path {
			t.Errorf("%s: route %d to %s, %v, want %d", path, n, sent, err, want)
		}
	}
	if n, _, err := tab.Find("post", "/payments"); !errors.Is(err, route.ErrAmbiguous) {
		t.Errorf("post: route %d, %v", n, err)
	}
}

func TestPatternsThatNameNoRequestAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/payments":       "a method and a path",
		"POST payments":   "a method and a path",
		"":                "a method and a path",
		"post /payments":  "expected POST /payments",
		"POST //a":        "doubled slash",
		"POST /a/../b":    "never comes",
		"POST /a?b":       "without '?'",
		"POST /a/{x":      "{name} as a whole",
		"POST /a{x}":      "{name} as a whole",
		"POST /{}":        "a name in {}",
		"POST /{x...}/a":  "at the end",
		"POST /{$}/a":     "a name in {}",
		"POST /%zz":       "two hex digits",
		"POST /a b":       "without ' '",
		"PO(ST /payments": "a method and a path",
		// What other routers read as a wildcard would be a literal that never comes.
		"POST /payments/*":   "expected {id} for one segment, or {rest...}",
		"POST /payments/**":  "{rest...}",
		"POST /a*/b":         "{rest...}",
		"POST /payments/:id": "expected {id}:",
		"POST /:id":          "expected {id}:",
		"POST /:":            "expected {id}:",
		"* /payments":        "expected one method, such as POST /payments",
		"ANY /payments":      "expected one method, such as POST /payments",
		"PSOT /payments":     "PSOT is none",
	} {
		if _, err := route.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"POST /a%2Ab", "POST /%3Aid", "POST /items:batch", "QUERY /a",
		"VERSION-CONTROL /a"} {
		if _, err := route.Parse(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	a, _ := route.Parse("POST /a/")
	b, _ := route.Parse("POST /a/{rest...}")
	if _, err := route.NewTable([]route.Pattern{a, b}, true); err == nil {
		t.Error("two patterns for the same requests are accepted")
	}
}

func FuzzTheCleanFormIsCleanAndStable(f *testing.F) {
	for _, s := range []string{"/a/../b", "//", "/%2e%2E/", "/a%2f..", "/%", "/.%2e", "/a/./"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		clean := route.Clean("/" + s)
		if route.Clean(clean) != clean {
			t.Errorf("%q: %q is cleaned to %q", s, clean, route.Clean(clean))
		}
		if strings.Contains(clean, "//") || strings.Contains(clean+"/", "/../") ||
			strings.Contains(clean+"/", "/./") || clean[0] != '/' {
			t.Errorf("%q: %q is not clean", s, clean)
		}
	})
}
