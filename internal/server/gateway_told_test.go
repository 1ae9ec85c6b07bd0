package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/wire"
)

func TestGateway_ALostAttemptIsToldWithItsRecordAndNeverWithItsKey(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/silent" {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusInternalServerError)
	})
	var log testserver.Text
	s := serve(t, t.TempDir(), gatewayTo(o.URL, byAccount,
		"{match: POST /, key: required, on_unknown: hold}"), logged(&log))
	for path, c := range map[string]struct {
		status int
		why    string
	}{
		"/broken": {500, "it was answered with 500"},
		"/silent": {502, "it was answered with 502"},
	} {
		wantStatus(t, s.pay(path, "order"+path, "{}"), c.status, "")
		record := s.recordOf("?scope=a1&key=order" + path)
		told := lines(t, &log, "msg", "an attempt was lost: nobody knows whether it had its effect")
		var found map[string]any
		for _, line := range told {
			if line["record"] == record.ID {
				found = line
			}
		}
		if found["route"] != "POST /" || found["method"] != "POST" || found["why"] != c.why {
			t.Errorf("%s is told as %v in %v", path, found, told)
		}
		var d wire.RecordDetail
		s.get("/api/v1/records/"+record.ID, &d)
		if !strings.HasPrefix(d.Means, "An attempt ended, and nobody knows whether") {
			t.Errorf("%s means %q", path, d.Means)
		}
		a := s.decide("/api/v1/records/"+record.ID+"/release", wire.RecordChange{Change: anna})
		if a.status != 200 {
			t.Fatalf("release: %d %s", a.status, a.body)
		}
		changed := lines(t, &log, "request", "POST "+path)
		if len(changed) != 1 || changed[0]["msg"] != "changed by a person" {
			t.Errorf("%s: the change is told as %v", path, changed)
		}
	}
	if n := len(lines(t, &log, "msg", "no answer of the upstream")); n != 1 {
		t.Errorf("the silence is told %d times, want once", n)
	}
	if strings.Contains(log.String(), `"order`) {
		t.Error("the log has a key")
	}
}

func TestGateway_ADecisionThatCannotBeSaysWhatStandsAgainstIt(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/lost" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	s := serve(t, t.TempDir(), gatewayTo(o.URL, byAccount,
		"{match: POST /, key: required, on_unknown: hold}"))
	wantStatus(t, s.pay("/done", "k1", "{}"), 200, "")
	wantStatus(t, s.pay("/lost", "k2", "{}"), 500, "")
	done, lost := s.recordOf("?scope=a1&key=k1"), s.recordOf("?scope=a1&key=k2")
	again := wire.ResolveChange{RecordChange: wire.RecordChange{Change: anna}, RunAgain: true}
	stale := again
	stale.Fence = new(int64)
	*stale.Fence = 7
	refused := func(id, action string, body any, want string) {
		t.Helper()
		a := s.decide("/api/v1/records/"+id+"/"+action, body)
		if a.status != 409 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s, want %q", action, a.status, a.body, want)
		}
	}
	refused(done.ID, "resolve", again, "it is completed: repeats get its answer")
	refused(lost.ID, "resolve", stale, fmt.Sprintf("its fence is now %d, and not 7", lost.Fence))
	if a := s.decide("/api/v1/records/"+done.ID+"/release", again.RecordChange); a.status != 200 {
		t.Fatalf("release: %d %s", a.status, a.body)
	}
	refused(done.ID, "release", again.RecordChange, "it is released: its key is free")
}
