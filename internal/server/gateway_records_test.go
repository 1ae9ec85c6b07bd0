package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncekit/once/internal/wire"
)

func (s *service) decide(path string, body any) answer {
	s.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	a, err := s.send(http.MethodPost, s.admin+path, string(b), "Content-Type", "application/json")
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func (s *service) recordOf(query string) wire.Record {
	s.t.Helper()
	var page wire.RecordPage
	s.get("/api/v1/records"+query, &page)
	if len(page.Items) != 1 {
		s.t.Fatalf("%s: %d records, want 1", query, len(page.Items))
	}
	return page.Items[0]
}

var anna = wire.Change{Actor: "anna", Reason: "looked into the ledger"}

func TestGateway_AHeldRequestIsFoundByItsKeyAndDecidedByAPerson(t *testing.T) {
	t.Parallel()
	var fail atomic.Bool
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if fail.Load() {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("X-Origin", "yes")
		_, _ = io.WriteString(w, "ran")
	})
	s := serve(t, t.TempDir(), gatewayTo(o.URL, byAccount,
		"{match: POST /, key: required, on_unknown: hold}"))
	fail.Store(true)
	wantStatus(t, s.pay("/p", "order-one", "{}"), 502, "")
	wantStatus(t, s.pay("/p", "order-two", "{}"), 502, "")
	fail.Store(false)
	wantStatus(t, s.pay("/p", "order-one", "{}"), 409, "held")
	first := s.recordOf("?scope=a1&key=order-one")
	if first.State != "held" || first.Request != "POST /p" || first.Key != "or" {
		t.Errorf("record %+v", first)
	}
	if again := s.recordOf(`?scope=a1&key=%22order-one%22`); again.ID != first.ID {
		t.Errorf("the quoted key is %s", again.ID)
	}
	var none wire.RecordPage
	if s.get("/api/v1/records?scope=a2&key=order-one", &none); len(none.Items) != 0 {
		t.Errorf("another scope has %+v", none.Items)
	}
	if a := s.get("/api/v1/records?key=order-one", nil); a.status != 400 {
		t.Errorf("without a scope: %d %s", a.status, a.body)
	}
	second := s.recordOf("?state=held&scope=a1&key=order-two")
	stale := int64(1)
	if a := s.decide("/api/v1/records/"+first.ID+"/resolve", wire.ResolveChange{
		RecordChange: wire.RecordChange{Change: anna, Fence: &stale}, RunAgain: true,
	}); a.status != 409 {
		t.Errorf("with another fence: %d %s", a.status, a.body)
	}
	if a := s.decide("/api/v1/records/"+first.ID+"/resolve", wire.ResolveChange{
		RecordChange: wire.RecordChange{Change: anna, Fence: &first.Fence}, RunAgain: true,
	}); a.status != 200 || !strings.Contains(a.body, `"released"`) {
		t.Errorf("run again: %d %s", a.status, a.body)
	}
	if a := s.pay("/p", "order-one", "{}"); a.body != "ran" || o.ran.Load() != 3 {
		t.Errorf("got %s after %d runs", a.body, o.ran.Load())
	}
	a := s.decide("/api/v1/records/"+second.ID+"/resolve", wire.ResolveChange{
		RecordChange: wire.RecordChange{Change: anna}, Answer: &wire.ResolveAnswer{Status: 201,
			Header: []wire.HeaderField{{Name: "Content-Type", Value: "application/json"}},
			Body:   `{"id":7}`}})
	if a.status != 200 || !strings.Contains(a.body, `"completed"`) {
		t.Fatalf("answer with: %d %s", a.status, a.body)
	}
	got := s.pay("/p", "order-two", "{}")
	if got.status != 201 || got.body != `{"id":7}` || o.ran.Load() != 3 ||
		got.header.Get("Content-Type") != "application/json" {
		t.Errorf("got %d %s %v after %d runs", got.status, got.body, got.header, o.ran.Load())
	}
	var d wire.RecordDetail
	s.get("/api/v1/records/"+first.ID, &d)
	if d.Answer == nil || d.Answer.Status != 200 || *d.Answer.Body != "ran" || d.Means == "" {
		t.Errorf("detail %+v", d)
	}
	if a := s.decide("/api/v1/records/"+first.ID+"/release", wire.RecordChange{Change: anna}); a.
		status != 200 {
		t.Errorf("release: %d %s", a.status, a.body)
	}
	s.pay("/p", "order-one", "{}")
	if n := o.ran.Load(); n != 4 {
		t.Errorf("the origin ran %d times, want 4: the key was released", n)
	}
	for _, c := range []struct {
		path string
		body any
		want int
	}{
		{first.ID + "/resolve", wire.ResolveChange{RecordChange: wire.RecordChange{Change: anna},
			RunAgain: true}, 409},
		{first.ID + "/resolve", wire.ResolveChange{RecordChange: wire.RecordChange{Change: anna}},
			400},
		{first.ID[:20] + "/release", wire.RecordChange{Change: anna}, 404},
		{strings.Repeat("0", 64) + "/release", wire.RecordChange{Change: anna}, 404},
		{first.ID + "/release", wire.RecordChange{}, 400},
	} {
		if a := s.decide("/api/v1/records/"+c.path, c.body); a.status != c.want {
			t.Errorf("%s %+v: %d %s, want %d", c.path, c.body, a.status, a.body, c.want)
		}
	}
	log := s.log.String()
	if !strings.Contains(log, "actor=anna") || strings.Contains(log, "order-one") ||
		strings.Contains(log, "order-two") {
		t.Error("the log has a key, or doesn't say who decided")
	}
	s.awaitMetrics(`once_records{state="completed"} 2`)
}

func TestGateway_SealedAnswersAreReadByTheirOperatorAndByNobodyElse(t *testing.T) {
	t.Parallel()
	const secret = "card-4000-0000-0000-0002"
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, secret)
	})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "seal.key"),
		[]byte(strings.Repeat("ab", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Read it as the program does: relative to the file.
	cfg := gatewayTo(o.URL, byAccount+"  seal: {keys: [\""+strings.Repeat("ab", 32)+"\"]}\n",
		"{match: POST /}")
	s := serve(t, dir, cfg)
	first := s.pay("/p", "k", "{}", "Authorization", "Bearer test-token", "Cookie", "sid=1")
	wantReplayOf(t, s.pay("/p", "k", "{}"), first)
	var d wire.RecordDetail
	s.get("/api/v1/records/"+s.recordOf("?scope=a1&key=k").ID, &d)
	if d.Answer == nil || *d.Answer.Body != secret {
		t.Errorf("the operator sees %+v", d)
	}
	s.end()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{secret, "test-token", "sid=1"} { // S09
			if strings.Contains(string(b), text) {
				t.Errorf("%s holds %q", f.Name(), text)
			}
		}
	}
}
