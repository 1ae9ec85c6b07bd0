package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/oncekit/once/internal/testserver"
)

// succeeded is what robots.yaml answers to an accepted callback.
func succeeded(req string) string {
	return fmt.Sprintf(`{"code":"0","message":"Success","reqCode":%q}`, req)
}

func TestRobotsFiveEventsAsBareTriplesEndInFinished(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	s := serve(t, t.TempDir(), p.config(t, p.broker.Addr()))
	for i, method := range []string{"startFE", "station", "updateSeq", "finishFE", "finish"} {
		req := "REQ-" + strconv.Itoa(i)
		if a := s.post(200, "rcs", event(req, "TASK-001", method, "")); a.body != succeeded(req) {
			t.Errorf("%s was answered %s", method, a.body)
		}
	}
	got := s.awaitTask("TASK-001", "finished")
	var steps []string
	for _, h := range got.History {
		steps = append(steps, h.Event+" "+h.From+">"+h.To)
	}
	want := []string{"startFE >running", "station running>at_station",
		"updateSeq at_station>at_station", "finishFE at_station>unloaded",
		"finish unloaded>finished"}
	if !slices.Equal(steps, want) {
		t.Errorf("history %v, want %v", steps, want)
	}
	if got.Fields["finishFlag"] != true || got.Fields["jobStatus"] != "finish" {
		t.Errorf("fields %v", got.Fields)
	}
	told := p.wms.Await(t, 1, patience)
	if want := `"state":"unloaded","task":"TASK-001"}`; !strings.HasSuffix(string(told[0].Body), want) {
		t.Errorf("the warehouse was told %s, want it to end with %s", told[0].Body, want)
	}
	s.awaitEffects("state=done", 1)
	if n := len(p.heard.messages()); n != 0 {
		t.Errorf("%d unlocks of a task that owned nothing", n)
	}
}

func TestRobotsEffectsOfATaskGoOutOnceWithTheirIdAndFence(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	s := serve(t, t.TempDir(), p.config(t, p.broker.Addr()))
	// The sender's own path, as robots.yaml names it.
	own := s.url + "/agv/agvCallbackService/agvCallback"
	for i, e := range []string{
		event("R1", "T1", "startFE", roadway("17")+`,"robotCode":"AGV-3"`),
		event("R2", "T1", "station", `,"currentPositionCode":"S-9"`),
		event("R3", "T1", "updateSeq", `,"data":{"seq":"10"}`),
		event("R4", "T1", "updateSeq", `,"data":{"seq":9}`),
		event("R5", "T1", "finishFE", ""), event("R6", "T1", "finish", ""),
	} {
		for range 3 {
			a, err := s.send(http.MethodPost, own, e, "Content-Type", "application/json")
			if err != nil || a.status != 200 || a.body != succeeded("R"+strconv.Itoa(i+1)) {
				t.Fatalf("%s: %v, status %d: %s", e, err, a.status, a.body)
			}
		}
	}
	got := s.awaitTask("T1", "finished")
	wantFields := map[string]any{"roadway": "17", "robot": "AGV-3", "station": "S-9", "seq": "10",
		"finishFlag": true, "jobStatus": "finish"}
	if a, b := fmt.Sprint(got.Fields), fmt.Sprint(wantFields); a != b {
		t.Errorf("fields %s, want %s", a, b)
	}
	s.awaitEffects("state=done", 3)
	heard := map[string]heardMessage{}
	for _, m := range p.heard.await(2) {
		heard[m.topic] = m
	}
	for _, e := range s.listEffects("destination=plant") {
		topic := map[string]string{"unlock-roadway": "roadway/17/unlock",
			"release-station": "station/S-9/release"}[e.Name]
		m, ok := heard[topic]
		if !ok {
			t.Fatalf("nothing was heard on %s of %v", topic, heard)
		}
		want := map[string]any{"id": e.ID, "task": "T1", "fence": float64(1)}
		if m.key != e.ID || m.fence != "1" || m.retain ||
			fmt.Sprint(m.payload) != fmt.Sprint(want) {
			t.Errorf("on %s: %+v, want key %s and payload %v, not retained", topic, m, e.ID, want)
		}
	}
	if n := len(p.heard.messages()); n != 2 {
		t.Errorf("%d messages, want 2", n)
	}
	told := p.wms.Requests()
	e := s.listEffects("destination=wms")[0]
	var body map[string]string
	if err := json.Unmarshal(told[0].Body, &body); err != nil || body["id"] != e.ID {
		t.Errorf("the warehouse was told %s, want the id %s", told[0].Body, e.ID)
	}
	if key := told[0].Header.Get("Idempotency-Key"); len(told) != 1 || key != `"`+e.ID+`"` {
		t.Errorf("%d requests with the key %s, want 1 with the id %s", len(told), key, e.ID)
	}
}

// rounds is how often a race is run: 200 times, unless ONCE_ROUNDS says otherwise.
func rounds(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("ONCE_ROUNDS"))
	if err != nil {
		return 200
	}
	return n
}

func TestI10_FiftyEqualCallbacksAtOnceAreOneTransition(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), example(t, "robots.yaml",
		`{mqtt: {url: "mqtt://127.0.0.1:1883", qos: 1}`, `{log: {}`,
		`{http: {url: "http://127.0.0.1:9000/events", timeout: 5s}`, `{log: {}`))
	const equal = 50
	n := rounds(t)
	for round := range n {
		id := "T" + strconv.Itoa(round)
		body := event("R", id, "startFE", roadway(id))
		var wg sync.WaitGroup
		begin := make(chan struct{})
		answers := make([]answer, equal)
		errs := make([]error, equal)
		for i := range equal {
			wg.Go(func() {
				<-begin
				answers[i], errs[i] = s.send(http.MethodPost, s.url+"/in/rcs", body,
					"Content-Type", "application/json")
			})
		}
		close(begin)
		wg.Wait()
		for i, a := range answers {
			if errs[i] != nil || a.status != 200 || a.body != succeeded("R") {
				t.Fatalf("round %d, answer %d: %v, status %d: %s", round, i, errs[i], a.status,
					a.body)
			}
		}
	}
	testserver.Until(t, patience, "all callbacks are done", func() bool {
		return s.metric(`once_callbacks{source="rcs",state="done"}`) == strconv.Itoa(n)
	})
	for round := range n {
		got, _ := s.task("T" + strconv.Itoa(round))
		if got.State != "running" || got.Version != 1 || len(got.History) != 1 {
			t.Fatalf("round %d: %+v, want one transition to running", round, got)
		}
	}
	want := strconv.Itoa(n * (equal - 1))
	if d := s.metric(`once_receipts_total{outcome="duplicate",source="rcs"}`); d != want {
		t.Errorf("%s duplicates were counted, want %s", d, want)
	}
	if d := s.metric(`once_receipts_total{outcome="accepted",source="rcs"}`); d != strconv.Itoa(n) {
		t.Errorf("%s accepted were counted, want %d", d, n)
	}
}

func TestAnEarlyEventWaitsForItsPredecessor(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	s := serve(t, t.TempDir(), p.config(t, p.broker.Addr()))
	s.post(200, "rcs", event("R3", "T1", "finish", ""))
	s.post(200, "rcs", event("R2", "T1", "finishFE", ""))
	s.awaitCallback("event=finish", "parked")
	s.awaitCallback("event=finishFE", "parked")
	if _, found := s.task("T1"); found {
		t.Error("an event that may not start a task made one")
	}
	s.post(200, "rcs", event("R1", "T1", "startFE", roadway("1")))
	got := s.awaitTask("T1", "finished")
	if len(got.History) != 3 || got.History[2].Event != "finish" {
		t.Errorf("history %+v, want startFE, finishFE, finish", got.History)
	}
	s.awaitCallback("event=finish", "done")
}

func TestACircleOfTwoTasksAndTwoRoadwaysIsADeadLetterThatNamesIt(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	s := serve(t, t.TempDir(), p.config(t, p.broker.Addr(),
		`acquire: ["station/${task.?station}"]`, `acquire: ["roadway/${task.?station}"]`))
	s.post(200, "rcs", event("A1", "A", "startFE", roadway("1")))
	s.post(200, "rcs", event("B1", "B", "startFE", roadway("2")))
	s.awaitTask("A", "running")
	s.awaitTask("B", "running")
	s.post(200, "rcs", event("A2", "A", "station", `,"currentPositionCode":"2"`))
	s.awaitCallback("key=A2", "parked")
	s.post(200, "rcs", event("B2", "B", "station", `,"currentPositionCode":"1"`))
	dead := s.awaitCallback("key=B2", "dead")
	if dead.DeadCause != "circle" {
		t.Errorf("it is dead by %q: %s", dead.DeadCause, dead.Error)
	}
	for _, name := range []string{"roadway/1", "roadway/2", "A", "B"} {
		if !strings.Contains(dead.Error, name) {
			t.Errorf("the reason %q doesn't name %s", dead.Error, name)
		}
	}
	// B goes on another way, and A gets what it waits for.
	s.post(200, "rcs", event("B3", "B", "cancel", ""))
	s.awaitTask("A", "at_station")
	s.awaitCallback("key=A2", "done")
	s.change(200, "/api/v1/callbacks/"+dead.ID+"/discard", "")
}
