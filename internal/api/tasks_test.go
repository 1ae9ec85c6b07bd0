package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestATaskIsShownWithItsLegalEventsAndItsHistory(t *testing.T) {
	e := newEnv(t)
	id := e.event("startFE", "TASK-001", `{"roadway":"","seq":9007199254740993}`)
	e.get("/api/v1/tasks/transport/TASK-001").exactly(`{
  "id": "TASK-001",
  "flow": "transport",
  "state": "running",
  "version": 1,
  "fields": {
    "seq": 9007199254740993
  },
  "next": [
    "finish"
  ],
  "final": false,
  "gone": false,
  "created_at": "2026-07-01T10:00:00.000000Z",
  "since_at": "2026-07-01T10:00:00.000000Z",
  "updated_at": "2026-07-01T10:00:00.000000Z",
  "overdue_at": null,
  "history": [
    {
      "version": 1,
      "at": "2026-07-01T10:00:00.000000Z",
      "event": "startFE",
      "from": "",
      "to": "running",
      "note": "acquire[0]: the name of the roadway is empty, nothing to acquire",
      "actor": "",
      "reason": "",
      "callback": "` + id + `"
    }
  ]
}
`)
}

func TestAPersonMovesATask(t *testing.T) {
	e := newEnv(t)
	e.event("startFE", "T", `{"roadway":"R1"}`)
	move := `{"actor":"anna","reason":"it stands at the dock","to":"finished"}`
	got := e.post("/api/v1/tasks/transport/T/move", move).ok()
	last := got["history"].([]any)[1].(map[string]any)
	if got["state"] != "finished" || got["final"] != true || len(got["next"].([]any)) != 0 {
		t.Errorf("task %v", got)
	}
	if last["event"] != "move" || last["from"] != "running" || last["actor"] != "anna" ||
		last["reason"] != "it stands at the dock" {
		t.Errorf("history %v", last)
	}
	before := e.get("/api/v1/tasks/transport/T").Body.String()
	e.post("/api/v1/tasks/transport/T/move", move).
		problem(http.StatusConflict, "state", "it is in state finished already")
	e.post("/api/v1/tasks/transport/T/move", strings.Replace(move, "finished", "flying", 1)).
		problem(http.StatusConflict, "state", `flow transport has no state "flying"`)
	e.post("/api/v1/tasks/transport/T/move", by).
		problem(http.StatusBadRequest, "bad-request", "to is required")
	if after := e.get("/api/v1/tasks/transport/T").Body.String(); after != before {
		t.Errorf("the refused moves changed the task:\n%s", after)
	}
}

// Over the wire, since it is the server that decodes paths.
func TestAnyCharacterCanStandInATaskAndAResource(t *testing.T) {
	e := newEnv(t)
	server := httptest.NewServer(e.api)
	defer server.Close()
	for name, encoded := range map[string]string{
		"A/1": "A%2F1", "A/../B": "A%2f..%2FB", "..": "%2e%2e", "ü ?#%": "%C3%BC%20%3F%23%25",
		"A//": "A%2F%2F", "a+b": "a+b", "100%": "100%25", "%2F": "%252F", "x;y:z@": "x;y:z@",
		"move": "move", "\x01": "%01",
	} {
		e.event("startFE", name, `{"roadway":`+quoted(name)+`}`)
		for path, body := range map[string]string{
			"/tasks/transport/" + encoded:                  "",
			"/tasks/transport/" + encoded + "/move":        `{"to":"created","actor":"a","reason":"b"}`,
			"/resources/roadway/" + encoded + "/release":   by,
			"/resources/roadway/" + encoded + "/transfer/": by,
		} {
			method, want := http.MethodPost, http.StatusOK
			if body == "" {
				method = http.MethodGet
			}
			if strings.HasSuffix(path, "/") {
				want = http.StatusNotFound
			}
			r, err := http.NewRequest(method, server.URL+"/api/v1"+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			res, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != want {
				t.Errorf("%s %s: status %d, want %d", method, path, res.StatusCode, want)
			}
			res.Body.Close()
		}
		if got := e.get("/api/v1/tasks/transport/" + encoded).ok(); got["id"] != name ||
			got["state"] != "created" {
			t.Errorf("task %v, want %q in created", got, name)
		}
	}
}

func quoted(s string) string {
	return `"` + strings.NewReplacer(`"`, `\"`, "\x01", `\u0001`).Replace(s) + `"`
}

func TestAPathThatIsNotTheTablesIsNotFound(t *testing.T) {
	e := newEnv(t)
	e.event("startFE", "T", `{"roadway":"R1"}`)
	for _, path := range []string{"/api", "/api/v1", "/api/v1/", "/api/v1/callbacks/",
		"/metrics/",
		"/api/v1/tasks/transport/T/", "/api/v1//tasks/transport/T", "/api/v1/tasks/transport//",
		"/api/v2/callbacks", "/API/v1/callbacks", "/api/v1/tasks/transport"} {
		e.get(path).problem(http.StatusNotFound, "not-found", "there is nothing under this path")
	}
}

func TestAWrongMethodNamesTheRightOnes(t *testing.T) {
	e := newEmpty(t)
	for target, allow := range map[string]string{
		"POST /api/v1/callbacks": "GET, HEAD", "DELETE /api/v1/callbacks/x": "GET, HEAD",
		"GET /api/v1/callbacks/x/retry": "POST", "OPTIONS /api/v1/callbacks/x/retry": "POST",
		"PUT /metrics": "GET, HEAD", "POST /healthz": "GET, HEAD",
	} {
		method, path, _ := strings.Cut(target, " ")
		a := e.raw(method, path, "")
		a.problem(http.StatusMethodNotAllowed, "method-not-allowed", "method is "+method)
		if got := a.Header().Get("Allow"); got != allow {
			t.Errorf("%s: allow %q, want %q", target, got, allow)
		}
	}
	if a := e.raw(http.MethodHead, "/healthz", ""); a.Code != http.StatusOK {
		t.Errorf("HEAD /healthz: status %d", a.Code)
	}
}

func TestTasksAreListedByFlowAndState(t *testing.T) {
	e := newEnv(t)
	e.event("startFE", "A", `{"roadway":""}`)
	e.clock.advance(time.Second)
	e.event("startFE", "B/1", `{"roadway":""}`)
	e.event("finish", "B/1", `{}`)
	e.get("/api/v1/tasks?state=finished&flow=transport").exactly(`{
  "items": [
    {
      "id": "B/1",
      "flow": "transport",
      "state": "finished",
      "version": 2,
      "final": true,
      "created_at": "2026-07-01T10:00:01.000000Z",
      "since_at": "2026-07-01T10:00:01.000000Z",
      "updated_at": "2026-07-01T10:00:01.000000Z",
      "overdue_at": null
    }
  ],
  "next": ""
}
`)
	first, next := e.get("/api/v1/tasks?limit=1").items()
	if len(first) != 1 || first[0]["id"] != "B/1" || next == "" {
		t.Fatalf("the first page: %v, %q", first, next)
	}
	second, end := e.get("/api/v1/tasks?limit=1&cursor=" + next).items()
	if len(second) != 1 || second[0]["id"] != "A" || end != "" {
		t.Fatalf("the second page: %v, %q", second, end)
	}
	e.get("/api/v1/tasks?state=running&limit=1&cursor="+next).problem(http.StatusBadRequest,
		"bad-request", "was not given by a page with this filter")
	e.get("/api/v1/tasks?kind=x").problem(http.StatusBadRequest, "bad-request",
		"want one of flow, state, limit, cursor")
	if none, _ := e.get("/api/v1/tasks?state=nowhere").items(); len(none) != 0 {
		t.Errorf("in a state that there is not: %v", none)
	}
}
