package api_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/api"
	"github.com/oncekit/once/queue"
)

func TestAChangeSaysWhoAndWhy(t *testing.T) {
	e := newEnv(t)
	id := e.callback()
	for body, want := range map[string]string{
		"":                                       "the body is empty",
		"{":                                      "unexpected EOF",
		"[]":                                     "the body has the wrong type",
		`null`:                                   "actor is required",
		`{}`:                                     "actor is required",
		`{"actor":"a"}`:                          "reason is required",
		`{"reason":"b"}`:                         "actor is required",
		`{"actor":" ","reason":"b"}`:             "actor is required",
		`{"actor":"a","reason":"\n"}`:            "reason is required",
		`{"actor":1,"reason":"b"}`:               "/actor has the wrong type",
		`{"Actor":"a","reason":"b"}`:             "unknown member /Actor",
		`{"actor":"a","reason":"b"}{}`:           "after top-level value",
		`{"actor":"a\n","reason":"b"}`:           "actor holds a control character",
		`{"actor":"a","reason":"b\u0000"}`:       "reason holds a control character",
		`{"actor":"a","actor":"b","reason":"c"}`: "duplicate",
		`{"reason":"b","actor":"` + strings.Repeat("a", 201) + `"}`:  "actor is longer than 200 bytes",
		`{"actor":"a","reason":"` + strings.Repeat("b", 2001) + `"}`: "is longer than 2000 bytes",
		`{"actor":"a","reason":"b","to":"x"}`:                        "unknown member /to",
		"{\"actor\":\"a\",\"reason\":\"\xff\"}":                      "invalid UTF-8",
	} {
		json := func(r *http.Request) { r.Header.Set("Content-Type", "application/json") }
		e.raw(http.MethodPost, "/api/v1/callbacks/"+id+"/discard", body, json).
			problem(http.StatusBadRequest, "bad-request", want)
	}
	if got := e.get("/api/v1/callbacks/" + id).ok(); got["state"] != "pending" {
		t.Errorf("callback %v", got)
	}
	whole := `{"actor":"` + strings.Repeat("a", 200) + `","reason":"one\ntwo"}`
	e.post("/api/v1/callbacks/"+id+"/discard", whole).ok()
}

func TestAChangeIsJSONThatNoFormCanSend(t *testing.T) {
	e := newEnv(t)
	id := e.callback()
	target := "/api/v1/callbacks/" + id + "/discard"
	for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded",
		"multipart/form-data", "application/json; charset=latin1", "application/jsonp", "a;;"} {
		e.raw(http.MethodPost, target, by, func(r *http.Request) {
			r.Header.Del("Content-Type")
			if contentType != "" {
				r.Header.Set("Content-Type", contentType)
			}
		}).problem(http.StatusUnsupportedMediaType, "media-type", "want Content-Type")
	}
	e.raw(http.MethodPost, target, by, func(r *http.Request) {
		r.Header["Content-Type"] = []string{"application/json", "text/plain"}
	}).problem(http.StatusUnsupportedMediaType, "media-type", "")
	e.raw(http.MethodPost, target, by, func(r *http.Request) {
		r.Header.Set("Content-Encoding", "gzip")
	}).problem(http.StatusUnsupportedMediaType, "media-type", "Content-Encoding")
	e.raw(http.MethodPost, target, by, func(r *http.Request) {
		r.Header.Set("Content-Type", "Application/JSON; charset=UTF-8")
	}).ok()
}

func TestABodyAboveTheLimitIsTooLarge(t *testing.T) {
	e := newEnv(t)
	id := e.callback()
	big := by + strings.Repeat(" ", 64<<10)
	e.post("/api/v1/callbacks/"+id+"/discard", big).
		problem(http.StatusRequestEntityTooLarge, "too-large", "65536 bytes")
	e.post("/api/v1/callbacks/"+id+"/discard", big[:64<<10]).ok()
}

func TestARouteThatFailsIsARefusalThatSaysWhy(t *testing.T) {
	e := newEnv(t, func(c *api.Config) {
		c.Route = func(queue.Row) (queue.Arrival, error) {
			return queue.Arrival{}, errors.New("source rcs is gone from the configuration")
		}
	})
	id := e.callback(func(a *queue.Arrival) { a.State = queue.Unrouted })
	e.post("/api/v1/callbacks/"+id+"/retry", by).
		problem(http.StatusConflict, "state", "source rcs is gone from the configuration")
	if got := e.get("/api/v1/callbacks/" + id).ok(); got["state"] != "unrouted" {
		t.Errorf("callback %v", got)
	}
}

func TestARefusalByTheStateSaysItOnce(t *testing.T) {
	e := newEnv(t)
	path := "/api/v1/callbacks/" + e.callback() + "/discard"
	e.post(path, by).ok()
	a := e.post(path, by)
	a.problem(http.StatusConflict, "state", "it is discarded")
	if strings.Contains(a.Body.String(), "not possible in this state") {
		t.Errorf("the title says it too: %s", a.Body)
	}
}
