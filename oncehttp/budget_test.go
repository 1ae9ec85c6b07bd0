package oncehttp_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/oncekit/once/oncehttp"
)

// What the bodies of all requests take together is bounded, also where each of them is allowed.
func TestBodiesThatAreHeldAtOneTimeAreBounded(t *testing.T) {
	begun, end := make(chan struct{}, 8), make(chan struct{})
	budget := oncehttp.NewBudget(1000)
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || len(body) != 600 {
			t.Errorf("%d bytes, %v", len(body), err)
		}
		begun <- struct{}{}
		<-end
		w.WriteHeader(http.StatusCreated)
	}, func(c *oncehttp.Config) {
		c.Bodies = budget
		c.SpoolFrom = 100 // those in files count too
	})
	body := strings.Repeat("x", 600)
	first := make(chan got, 1)
	go func() { first <- a.post("K", body) }()
	<-begun
	g := a.post("L", body)
	wantProblem(t, g, http.StatusServiceUnavailable, oncehttp.ProblemNotProcessed)
	if g.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q", g.header.Get("Retry-After"))
	}
	a.wantRan(1)
	close(end)
	if g := <-first; g.status != http.StatusCreated {
		t.Errorf("the first one got %d", g.status)
	}
	for _, key := range []string{"L", "M", "N"} { // nothing of it stays taken
		if g := a.post(key, body); g.status != http.StatusCreated {
			t.Errorf("%s: %d %s", key, g.status, g.body)
		}
	}
}
