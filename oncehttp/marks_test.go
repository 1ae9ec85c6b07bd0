package oncehttp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once/oncehttp"
)

// R16: only the middleware says what is a replay. A service may have idempotency of its own.
func TestR16TheHandlersOwnMarksDoNotReachTheClient(t *testing.T) {
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range []string{"Idempotent-Replayed", "idempotent-replayed",
			"Idempotency-Stored", "Idempotency-Guarded"} {
			w.Header()[name] = []string{"true"}
		}
		w.WriteHeader(http.StatusCreated)
	})
	for i, want := range []string{"", "true"} {
		g := a.post("K", "{}")
		if got := g.header.Get(oncehttp.HeaderReplayed); got != want {
			t.Errorf("answer %d says replayed %q, want %q", i+1, got, want)
		}
		for _, name := range []string{oncehttp.HeaderStored, oncehttp.HeaderGuarded} {
			if got := g.header.Get(name); got != "" {
				t.Errorf("answer %d has %s: %s", i+1, name, got)
			}
		}
	}
}

// What can't be read back is not kept: the work is done all the same.
func TestAnAnswerOfTooManyHeadersLeavesATombstone(t *testing.T) {
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 10_500 {
			w.Header().Add("X", fmt.Sprint(i))
		}
		w.WriteHeader(http.StatusCreated)
	})
	if g := a.post("K", "{}"); g.status != http.StatusCreated {
		t.Fatalf("%d %s", g.status, g.body)
	}
	g := a.post("K", "{}")
	if g.status != http.StatusCreated || !strings.Contains(g.body, oncehttp.ProblemNotKept) {
		t.Errorf("the repeat got %d %s", g.status, g.body)
	}
	a.wantRan(1)
}

// A parameter of the media type can ask for something else.
func TestParametersOfTheMediaTypeBelongToTheRequest(t *testing.T) {
	const version = "application/vnd.x+json; version="
	for _, tt := range []struct {
		first, second string
		same          bool
	}{
		{version + "1", version + "2", false},
		{version + "1", `application/vnd.x+json;VERSION="1"`, true},
		{"application/json", "application/json; charset=UTF-8", true},
		{"application/json", "application/json; charset=latin1", false},
		{"application/json;", "application/json", true},
		{"text/plain; a=1; b=2", "text/plain; b=2; a=1", true},
	} {
		a := orders(t)
		a.post("K", "{}", "Content-Type", tt.first)
		g := a.post("K", "{}", "Content-Type", tt.second)
		if g.replayed() != tt.same || !tt.same && g.status != http.StatusUnprocessableEntity {
			t.Errorf("%s, %s: %d", tt.first, tt.second, g.status)
		}
	}
}

// A form of very many parts is small when it is compressed, and takes a long time to read.
func TestAFormOfTooManyPartsCountsByItsBytes(t *testing.T) {
	a := orders(t)
	form := strings.Repeat("--X\r\n\r\n\r\n", 200_000) + "--X--\r\n"
	const media = "multipart/form-data; boundary=X"
	start := time.Now()
	if g := a.post("K", form, "Content-Type", media); g.status != http.StatusCreated {
		t.Fatalf("%d %s", g.status, g.body)
	}
	if took := time.Since(start); took > patience/2 {
		t.Errorf("it took %s", took)
	}
	g := a.post("K", strings.ReplaceAll(form, "X", "Y"), "Content-Type",
		"multipart/form-data; boundary=Y")
	if g.status != http.StatusUnprocessableEntity {
		t.Errorf("another boundary: %d, want 422, since the bytes differ", g.status)
	}
}
