package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

func TestACallbackIsListedWithTheNamesOfTheContract(t *testing.T) {
	e := newEnv(t)
	id := e.callback()
	e.get("/api/v1/callbacks").exactly(`{
  "items": [
    {
      "id": "` + id + `",
      "source": "rcs",
      "key": [
        "REQ-1",
        "TASK-001",
        "startFE"
      ],
      "event": "startFE",
      "task": "TASK-001",
      "state": "pending",
      "attempt": 0,
      "received_at": "2026-07-01T10:00:00.000000Z",
      "next_try_at": null,
      "error": "",
      "duplicates": 0,
      "conflicts": 0
    }
  ],
  "next": ""
}
`)
}

func TestADetailShowsRequestBodyReceiptsAttemptsAndAudit(t *testing.T) {
	e := newEnv(t)
	body := []byte("{\"taskCode\": \"TASK-001\",\n  \"n\": 1e2, \"ü\": \"<\\/\"}")
	id := e.callback(func(a *queue.Arrival) { a.Body = body })
	same := func(a *queue.Arrival) {
		a.Identity, a.Peer = once.Identity{0: 1, 31: 1}, "192.0.2.8:1"
	}
	e.clock.advance(time.Second)
	e.callback(same, func(a *queue.Arrival) {
		a.Fingerprint, a.Body = once.Fingerprint{2}, []byte{'{', 0xff}
	})
	e.settle("handler/h", queue.Settlement{State: queue.Dead, DeadCause: queue.CausePermanent,
		Error: "no such station"})
	e.clock.advance(time.Second)
	e.post("/api/v1/callbacks/"+id+"/retry", by).exactly(`{
  "id": "` + id + `",
  "source": "rcs",
  "key": [
    "REQ-1",
    "TASK-001",
    "startFE"
  ],
  "event": "startFE",
  "task": "TASK-001",
  "state": "pending",
  "attempt": 0,
  "received_at": "2026-07-01T10:00:00.000000Z",
  "next_try_at": null,
  "error": "no such station",
  "duplicates": 0,
  "conflicts": 1,
  "flow": "transport",
  "revision": 0,
  "revision_of": "",
  "dead_cause": "",
  "waits": [],
  "last_arrival_at": "2026-07-01T10:00:01.000000Z",
  "started_at": "2026-07-01T10:00:01.000000Z",
  "finished_at": null,
  "element": null,
  "request": {
    "method": "POST",
    "path": "/in/rcs",
    "query": "a=1",
    "host": "once.test",
    "peer": "192.0.2.7:4711"
  },
  "headers": {
    "Content-Type": [
      "application/json"
    ]
  },
  "hidden_headers": {
    "Authorization": [
      "hmac:00112233445566778899aabbccddeeff"
    ]
  },
  "body": "{\"taskCode\": \"TASK-001\",\n  \"n\": 1e2, \"ü\": \"<\\/\"}",
  "receipts": [
    {
      "n": 0,
      "at": "2026-07-01T10:00:00.000000Z",
      "outcome": "accepted",
      "peer": "192.0.2.7:4711",
      "accepted": ""
    },
    {
      "n": 1,
      "at": "2026-07-01T10:00:01.000000Z",
      "outcome": "conflict",
      "peer": "192.0.2.8:1",
      "accepted": "",
      "body": null,
      "body_base64": "e/8="
    }
  ],
  "attempts": [
    {
      "n": 1,
      "started_at": "2026-07-01T10:00:01.000000Z",
      "ended_at": "2026-07-01T10:00:02.000000Z",
      "result": "dead",
      "error": "no such station"
    }
  ],
  "audit": [
    {
      "at": "2026-07-01T10:00:03.000000Z",
      "action": "retry",
      "actor": "anna",
      "reason": "tested"
    }
  ]
}
`)
	if got := e.get("/api/v1/callbacks/" + id).ok()["body"]; got != string(body) {
		t.Errorf("body %q, want %q", got, body)
	}
}

func TestADuplicateIsAReceiptWithoutBody(t *testing.T) {
	e := newEnv(t)
	id := e.callback()
	e.callback(func(a *queue.Arrival) { a.Identity = once.Identity{0: 1, 31: 1} })
	deadline := time.Now().Add(10 * time.Second) // repeats are counted behind their answer
	for time.Now().Before(deadline) {
		e.clock.advance(time.Second)
		if err := e.store.Ping(t.Context()); err != nil { // the writer looks around
			t.Fatal(err)
		}
		got := e.get("/api/v1/callbacks/" + id).ok()
		if got["duplicates"] != 1.0 {
			continue
		}
		one := got["receipts"].([]any)[1].(map[string]any)
		_, hasBody := one["body"]
		if one["outcome"] != "duplicate" || one["n"] != 1.0 || hasBody {
			t.Fatalf("receipt %v", one)
		}
		return
	}
	t.Fatal("the duplicate is not counted")
}

func TestEveryFilterOfCallbacksSelects(t *testing.T) {
	e := newEnv(t)
	first := e.callback()
	e.settle("handler/h", queue.Settlement{State: queue.Dead, DeadCause: queue.CausePermanent})
	second := e.callback(func(a *queue.Arrival) {
		a.Source, a.Event, a.Task = "wms", "finish", "T/ü 2"
		a.Key = []string{"REQ-2", "a b&c"}
	})
	for query, want := range map[string]string{
		"source=rcs": first, "source=wms": second, "state=dead": first, "state=pending": second,
		"event=startFE": first, "event=finish": second, "task=TASK-001": first,
		"task=" + url.QueryEscape("T/ü 2"): second, "key=REQ-1": first,
		"key=" + url.QueryEscape("a b&c"): second, "source=rcs&state=dead&event=&limit=1": first,
		"source=rcs&event=finish": "", "key=REQ": "", "source=rcs&state=pending": "",
	} {
		items, _ := e.get("/api/v1/callbacks?" + query).items()
		got := ""
		for _, i := range items {
			got += i["id"].(string)
		}
		if got != want {
			t.Errorf("%s selects %q, want %q", query, got, want)
		}
	}
}

func TestAWrongQueryIsRefusedAndNamesWhatIsRight(t *testing.T) {
	e := newEnv(t)
	e.callback()
	for query, want := range map[string]string{
		"/callbacks?stat=dead": `no parameter "stat": want one of source, state, event, ` +
			`task, key, limit, cursor`,
		"/callbacks?state=sending": `state "sending": want one of pending, running, done, ` +
			`parked, stale, unrouted, dead, held, discarded`,
		"/effects?state=parked": `state "parked": want one of pending, sending, done, held, ` +
			`dead, expired, discarded`,
		"/effects?source=a":             `want one of state, destination, name, task, limit, cursor`,
		"/callbacks?limit=0":            `limit "0": want a number from 1 to 1000`,
		"/callbacks?limit=1001":         `limit "1001": want a number from 1 to 1000`,
		"/callbacks?limit=ten":          `want a number from 1 to 1000`,
		"/callbacks?source=a&source=b":  `"source" is given twice`,
		"/callbacks?key=%ff":            `"key" is not valid UTF-8`,
		"/callbacks?key=%zz":            "the query can't be read",
		"/callbacks?a=1;b=2":            "the query can't be read",
		"/callbacks?cursor=zz":          "the cursor was not given by a page with this filter",
		"/callbacks?cursor=AAAAAAAA":    "the cursor was not given by a page with this filter",
		"/callbacks?cursor=!":           "the cursor was not given by a page with this filter",
		"/resources?cursor=AAAAAAAA":    "the cursor was not given by a page with this filter",
		"/rejected?cursor=a":            "want one of source, limit",
		"/callbacks/0000?full=1":        "there is none here",
		"/callbacks?key=" + tooLong(16): `"key" is above 16384 bytes`,
	} {
		e.get("/api/v1"+query).problem(http.StatusBadRequest, "bad-request", want)
	}
}

func tooLong(kib int) string { return strings.Repeat("x", kib<<10+1) }

func TestPagesShowEachCallbackOnceAlsoWhileOthersArrive(t *testing.T) {
	e := newEnv(t)
	var want []string
	for i := range 250 {
		id := once.Identity{0: byte(i), 1: 1}
		want = append([]string{e.callback(func(a *queue.Arrival) { a.Identity = id })}, want...)
	}
	var got, pages []string
	for next := ""; ; {
		items, following := e.get("/api/v1/callbacks?source=rcs&cursor=" + next).items()
		for _, i := range items {
			got = append(got, i["id"].(string))
		}
		pages = append(pages, fmt.Sprint(len(items)))
		if next = following; next == "" {
			break
		}
		e.callback(func(a *queue.Arrival) { a.Identity = once.Identity{0: byte(len(pages)), 1: 2} })
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got %d callbacks, want the 250 in reverse order", len(got))
	}
	if strings.Join(pages, " ") != "100 100 50" {
		t.Errorf("pages of %v, want 100 100 50", pages)
	}
	_, next := e.get("/api/v1/callbacks?source=rcs&limit=1").items()
	e.get("/api/v1/callbacks?source=wms&cursor="+next).problem(http.StatusBadRequest, "bad-request",
		"the cursor was not given by a page with this filter")
	e.get("/api/v1/effects?cursor="+next).problem(http.StatusBadRequest, "bad-request", "cursor")
	if items, _ := e.get("/api/v1/callbacks?limit=1000").items(); len(items) != 252 {
		t.Errorf("a page of 1000 holds %d, want 252", len(items))
	}
}

func TestAnActionThatTheStateDoesNotAllowChangesNothing(t *testing.T) {
	e := newEnv(t)
	id := e.callback()
	e.settle("handler/h", queue.Settlement{State: queue.Done})
	before := e.get("/api/v1/callbacks/" + id).Body.String()
	for _, do := range []string{"retry", "discard"} {
		e.post("/api/v1/callbacks/"+id+"/"+do, by).
			problem(http.StatusConflict, "state", "it is done")
	}
	e.post("/api/v1/callbacks/"+id+"/accept", `{"actor":"a","reason":"b","receipt":0}`).
		problem(http.StatusNotFound, "not-found", "arrival 0")
	if after := e.get("/api/v1/callbacks/" + id).Body.String(); after != before {
		t.Errorf("the refused actions changed the callback:\n%s", after)
	}
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	e := newEnv(t)
	callback, effect := e.callback(), e.effect()
	nobody := once.Identity{9}.ID()
	for _, path := range []string{"/callbacks/" + nobody, "/callbacks/x", "/callbacks/" + effect,
		"/effects/" + nobody, "/effects/" + callback, "/tasks/transport/T", "/tasks/f/T"} {
		e.get("/api/v1"+path).problem(http.StatusNotFound, "not-found", "not found")
	}
	to := `{"actor":"a","reason":"b","to":"running"}`
	owner := `{"actor":"a","reason":"b","to":{"flow":"transport","task":"T"}}`
	for path, body := range map[string]string{
		"/callbacks/" + nobody + "/retry": by, "/callbacks/" + nobody + "/discard": by,
		"/callbacks/" + nobody + "/accept": `{"actor":"a","reason":"b","receipt":1}`,
		"/callbacks/" + effect + "/retry":  by, "/effects/" + callback + "/done": by,
		"/effects/" + nobody + "/retry": by, "/effects/" + nobody + "/discard": by,
		"/tasks/transport/T/move": to, "/tasks/f/T/move": to,
		"/resources/roadway/R/release": by, "/resources/roadway/R/transfer": owner,
	} {
		e.post("/api/v1"+path, body).problem(http.StatusNotFound, "not-found", "not found")
	}
}

func TestDiscardGivesUpACallback(t *testing.T) {
	e := newEnv(t)
	id := e.callback()
	got := e.post("/api/v1/callbacks/"+id+"/discard", by).ok()
	if got["state"] != "discarded" || got["error"] != "discarded by anna: tested" {
		t.Errorf("callback %v", got)
	}
}

func TestAnUnroutedCallbackIsRoutedByTodaysConfiguration(t *testing.T) {
	e := newEnv(t)
	unrouted := func(a *queue.Arrival) {
		a.State, a.Lane, a.Flow, a.Task = queue.Unrouted, "x", "", ""
	}
	id := e.callback(unrouted)
	got := e.post("/api/v1/callbacks/"+id+"/retry", by).ok()
	if got["state"] != "pending" || got["flow"] != "transport" {
		t.Errorf("callback %v", got)
	}
}

func TestAnAcceptedConflictIsARevision(t *testing.T) {
	e := newEnv(t)
	id := e.callback()
	e.callback(func(a *queue.Arrival) {
		a.Identity, a.Fingerprint = once.Identity{0: 1, 31: 1}, once.Fingerprint{2}
		a.Body = []byte(`{"taskCode":"other"}`)
	})
	accept := `{"actor":"anna","reason":"it was corrected","receipt":1}`
	a := e.post("/api/v1/callbacks/"+id+"/accept", accept)
	one := a.ok()["receipts"].([]any)[1].(map[string]any)
	revision, _ := one["accepted"].(string)
	if a.Header().Get("Location") != "/api/v1/callbacks/"+revision || revision == "" {
		t.Fatalf("location %q, receipt %v", a.Header().Get("Location"), one)
	}
	got := e.get("/api/v1/callbacks/" + revision).ok()
	if got["body"] != `{"taskCode":"other"}` || got["revision"] != 1.0 || got["revision_of"] != id {
		t.Errorf("revision %v", got)
	}
	e.post("/api/v1/callbacks/"+id+"/accept", accept).
		problem(http.StatusConflict, "state", "arrival 1 is no conflict that can be accepted")
	e.post("/api/v1/callbacks/"+id+"/accept", by).
		problem(http.StatusBadRequest, "bad-request", "receipt is required")
}
