package demo

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once/internal/demo/model"
)

// newSink opens a destination that does not stumble.
func newSink(t *testing.T, name string) *sink {
	t.Helper()
	s, err := openSink(name, 1, &sightings{known: map[string]bool{}}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	if err := s.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// send sends an effect; the status is 0 if there is no answer.
func send(t *testing.T, url, id, fence, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url,
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", id)
	if fence != "" {
		req.Header.Set("Fence", fence)
	}
	client := &http.Client{Timeout: 300 * time.Millisecond, Transport: &http.Transport{
		DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

func TestADestinationNotesWhatArrives(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, path, id, fence, body string
		status                      int
		want                        model.Sighting
	}{
		{plant, "/roadway/R7/unlock", `"u1"`, "3", `{"fence":3,"id":"u1","task":"A"}`, 200,
			model.Sighting{ID: "u1", Name: "unlock-roadway", Task: "A", Resource: "roadway/R7",
				Fence: 3, PayloadID: "u1"}},
		{plant, "/station/S1/release", `"s1"`, "1", `{"fence":1,"id":"s2","task":"A"}`, 200,
			model.Sighting{ID: "s1", Name: "release-station", Task: "A", Resource: "station/S1",
				Fence: 1, PayloadID: "s2"}},
		{wms, "", `"w1"`, "", `{"id":"w1","task":"A","state":"unloaded"}`, 200,
			model.Sighting{ID: "w1", Name: "tell-wms", Task: "A", State: "unloaded",
				PayloadID: "w1"}},
		{wms, "", `"a1"`, "", `{"task":"A","state":"running"}`, 200,
			model.Sighting{ID: "a1", Name: model.Alarm, Task: "A", State: "running"}},
		{wms, "", `"p1"`, "", `{"id":"p1","task":"A","seq":7}`, 200,
			model.Sighting{ID: "p1", Name: model.Progress, Task: "A", Seq: 7, PayloadID: "p1"}},
		{wms, "", `"p1"`, "", `{"id":"p1","task":"A","seq":"x"}`, 400, model.Sighting{}},
		{plant, "/roadway/R7/unlock", `"u1"`, "4", `{"fence":3,"id":"u1","task":"A"}`, 400,
			model.Sighting{}},
		{wms, "", "", "", `{"task":"A","state":"running"}`, 400, model.Sighting{}},
		{wms, "", `"w"`, "", `no JSON`, 400, model.Sighting{}},
	} {
		s := newSink(t, c.name)
		if got := send(t, s.url()+c.path, c.id, c.fence, c.body); got != c.status {
			t.Errorf("%s: status %d, want %d", c.body, got, c.status)
		}
		got := s.seen.all()
		if c.status != 200 {
			if len(got) != 0 {
				t.Errorf("%s was noted: %+v", c.body, got)
			}
			continue
		}
		c.want.Destination, c.want.Payload = c.name, c.body
		if len(got) != 1 || got[0].At.IsZero() {
			t.Fatalf("%s: noted %+v", c.body, got)
		}
		if got[0].At = (time.Time{}); got[0] != c.want {
			t.Errorf("noted %+v, want %+v", got[0], c.want)
		}
	}
}

func TestADestinationFailsHangsGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	s := newSink(t, wms)
	const body = `{"task":"A","state":"running"}`
	for i, c := range []struct {
		mood   string
		status int
	}{
		{"", 200}, {failing, 503}, {hanging, 0}, {away, 0}, {away, 0}, {"", 200}, {away, 0},
		{failing, 503}, {"", 200},
	} {
		if err := s.set(t.Context(), c.mood); err != nil {
			t.Fatal(err)
		}
		if got := send(t, s.url(), `"id"`, "", body); got != c.status {
			t.Errorf("step %d: %q answers %d, want %d", i, c.mood, got, c.status)
		}
	}
	if s.seen.distinct.Load() != 1 || s.seen.repeated.Load() < 2 {
		t.Errorf("%d ids, %d repeats", s.seen.distinct.Load(), s.seen.repeated.Load())
	}
}

func TestADestinationStumblesNowAndThen(t *testing.T) {
	t.Parallel()
	s := newSink(t, wms)
	s.calm = false
	n := map[fate]int{}
	for range 5000 {
		n[s.draw()]++
	}
	for _, f := range []fate{{status: 500}, {}} {
		if n[f] < 50 || n[f] > 200 {
			t.Errorf("%+v: %d of 5000, want about 100", f, n[f])
		}
	}
	if n[fate{status: 200}] < 4600 {
		t.Errorf("%d of 5000 are answered", n[fate{status: 200}])
	}
}
