package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestResourcesAreListedWithOwnerFenceAndWaiters(t *testing.T) {
	e := newEnv(t)
	e.event("startFE", "A", `{"roadway":"R/1"}`)
	e.event("startFE", "B", `{"roadway":"R/1"}`)
	e.event("startFE", "C", `{"roadway":"R/1"}`)
	e.get("/api/v1/resources").exactly(`{
  "items": [
    {
      "kind": "roadway",
      "name": "R/1",
      "owner": {
        "flow": "transport",
        "task": "A"
      },
      "fence": 1,
      "since": "2026-07-01T10:00:00.000000Z",
      "freeing": 0,
      "waiting": 2
    }
  ],
  "next": ""
}
`)
	if items, _ := e.get("/api/v1/resources?kind=station").items(); len(items) != 0 {
		t.Errorf("stations %v", items)
	}
	parked, _ := e.get("/api/v1/callbacks?state=parked").items()
	if len(parked) != 2 || parked[0]["next_try_at"] != "2026-07-01T10:10:00.000000Z" {
		t.Errorf("parked %v", parked)
	}
}

func TestPagesOfResourcesGoOnWhereTheyEnded(t *testing.T) {
	e := newEnv(t)
	for i := range 25 {
		e.event("startFE", fmt.Sprint("T", i), fmt.Sprintf(`{"roadway":"R/%02d"}`, i))
	}
	n := 0
	for next := ""; ; {
		items, following := e.get("/api/v1/resources?limit=10&kind=roadway&cursor=" + next).items()
		for _, i := range items {
			if want := fmt.Sprintf("R/%02d", n); i["name"] != want {
				t.Fatalf("resource %v, want %s", i["name"], want)
			}
			n++
		}
		if next = following; next == "" {
			break
		}
	}
	if n != 25 {
		t.Errorf("%d resources, want 25", n)
	}
}

func TestAPersonReleasesAndTransfersAResource(t *testing.T) {
	e := newEnv(t)
	e.event("startFE", "A", `{"roadway":"R1"}`)
	e.event("startFE", "B", `{"roadway":"R2"}`)
	to := `{"actor":"anna","reason":"swapped","to":{"flow":"transport","task":"B"}}`
	e.post("/api/v1/resources/roadway/R1/transfer", to).exactly(`{
  "kind": "roadway",
  "name": "R1",
  "owner": {
    "flow": "transport",
    "task": "B"
  },
  "fence": 2,
  "since": "2026-07-01T10:00:00.000000Z",
  "freeing": 0
}
`)
	e.post("/api/v1/resources/roadway/R1/transfer", to).
		problem(http.StatusConflict, "state", "task B owns it already")
	for _, task := range []string{"A", "B"} {
		history := e.get("/api/v1/tasks/transport/" + task).ok()["history"].([]any)
		last := history[len(history)-1].(map[string]any)
		if last["event"] != "transfer" || last["actor"] != "anna" || last["reason"] != "swapped" {
			t.Errorf("history of %s: %v", task, last)
		}
	}
	fromA := strings.Replace(by, "}", `,"from":{"flow":"transport","task":"A"}}`, 1)
	e.post("/api/v1/resources/roadway/R1/release", fromA).problem(http.StatusConflict, "state",
		"resource roadway/R1: task transport/B has it, not task transport/A")
	e.post("/api/v1/resources/roadway/R1/transfer", strings.Replace(fromA, "{",
		`{"to":{"flow":"transport","task":"A"},`, 1)).problem(http.StatusConflict, "state",
		"task transport/B has it")
	fromB := strings.Replace(fromA, `"task":"A"`, `"task":"B"`, 1)
	got := e.post("/api/v1/resources/roadway/R1/release", fromB).ok()
	if got["freeing"] != 1.0 || got["owner"] == nil {
		t.Errorf("released: %v", got)
	}
	got = e.post("/api/v1/resources/roadway/R1/release", by).ok()
	if got["freeing"] != 0.0 || got["owner"] != nil {
		t.Errorf("released again: %v", got)
	}
	e.post("/api/v1/resources/roadway/R1/release", by).
		problem(http.StatusConflict, "state", "it is free already")
}

func TestATransferNamesAWholeTask(t *testing.T) {
	e := newEnv(t)
	e.event("startFE", "A", `{"roadway":"R1"}`)
	for _, to := range []string{`null`, `{}`, `{"flow":"transport"}`, `{"task":"A","flow":""}`} {
		e.post("/api/v1/resources/roadway/R1/transfer", `{"actor":"a","reason":"b","to":`+to+`}`).
			problem(http.StatusBadRequest, "bad-request", `to: {"flow": …, "task": …} is required`)
	}
	gone := `{"actor":"a","reason":"b","to":{"flow":"transport","task":"Z"}}`
	e.post("/api/v1/resources/roadway/R1/transfer", gone).
		problem(http.StatusNotFound, "not-found", "task Z")
	e.post("/api/v1/resources/roadway/R1/transfer", strings.Replace(gone, "transport", "f", 1)).
		problem(http.StatusNotFound, "not-found", `flow "f"`)
}
