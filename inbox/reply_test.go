package inbox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/queue"
)

func TestBuiltinReplies(t *testing.T) {
	store := newMemStore()
	source := rcs()
	source.Replies = nil
	rc := newReceiver(t, store, inbox.Config{}, source)
	w := post(rc, "/in/rcs", finishFE)
	id := store.accepted()[0].Identity.ID()
	accepted := `{"outcome":"accepted","id":"` + id + `"}` + "\n"
	if w.Code != 200 || w.Body.String() != accepted ||
		w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("accepted: %d %v %s", w.Code, w.Header(), w.Body)
	}
	if w = post(rc, "/in/rcs", finishFE); w.Code != 200 || w.Body.String() != accepted {
		t.Errorf("duplicate: %d %s", w.Code, w.Body)
	}
	if w = post(rc, "/in/rcs", finishFE+" "); w.Code != 200 || w.Body.String() != accepted {
		t.Errorf("conflict: %d %s", w.Code, w.Body)
	}
	w = post(rc, "/in/rcs", `{"reqCode":""}`)
	if want := `{"outcome":"invalid","error":"key part 1 is empty"}` + "\n"; w.Code != 400 ||
		w.Body.String() != want {
		t.Errorf("invalid: %d %s", w.Code, w.Body)
	}
	w = post(rc, "/in/none", finishFE)
	if want := `{"outcome":"invalid","error":"no source has this path"}` + "\n"; w.Code != 404 ||
		w.Body.String() != want {
		t.Errorf("not found: %d %s", w.Code, w.Body)
	}
}

func TestConfiguredReplies_OverrideByOutcome(t *testing.T) {
	source := rcs()
	source.Replies[queue.Conflict] = inbox.Reply{
		Status: 409,
		Header: map[string]func(*inbox.Message) (string, error){
			"x-code": func(m *inbox.Message) (string, error) { return m.ID(), nil },
			"X-Bad":  func(*inbox.Message) (string, error) { return "", errors.New("no field") },
			"X-Boom": func(*inbox.Message) (string, error) { panic("boom") },
		},
		Body: func(*inbox.Message) ([]byte, string, error) {
			return []byte("taken"), "text/plain", nil
		},
	}
	source.Replies[queue.Duplicate] = inbox.Reply{Status: 204, Body: text(
		func(*inbox.Message) (string, error) { return "unseen", nil })}
	store := newMemStore()
	rc := newReceiver(t, store, inbox.Config{}, source)
	post(rc, "/in/rcs", finishFE)
	w := post(rc, "/in/rcs", finishFE+" ")
	if w.Code != 409 || w.Body.String() != "taken" ||
		w.Header().Get("Content-Type") != "text/plain" ||
		w.Header().Get("X-Code") != store.accepted()[0].Identity.ID() {
		t.Errorf("conflict: %d %v %s", w.Code, w.Header(), w.Body)
	}
	if len(w.Header()["X-Bad"])+len(w.Header()["X-Boom"]) != 0 {
		t.Errorf("headers that could not be made: %v", w.Header())
	}
	if w := post(rc, "/in/rcs", finishFE); w.Code != 204 || w.Body.Len() != 0 {
		t.Errorf("duplicate: %d %s", w.Code, w.Body)
	}
}

func TestReplyThatFails_KeepsOutcomeAndStatus(t *testing.T) {
	for name, body := range map[string]func(*inbox.Message) ([]byte, string, error){
		"error": func(*inbox.Message) ([]byte, string, error) {
			return []byte("half"), "text/plain", errors.New("body.reqCode is missing")
		},
		"panic": func(m *inbox.Message) ([]byte, string, error) {
			return []byte(m.Body.(map[string]any)["x"].(string)), "", nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			source := rcs()
			source.Replies[queue.Accepted] = inbox.Reply{Status: 202, Body: body}
			source.Replies[queue.Invalid] = inbox.Reply{Status: 200, Body: body}
			store, seen := newMemStore(), &counter{}
			rc := newReceiver(t, store, inbox.Config{Observer: seen}, source)
			w := post(rc, "/in/rcs", finishFE)
			if w.Code != 202 || !strings.HasPrefix(w.Body.String(), `{"outcome":"accepted","id":`) {
				t.Errorf("accepted: %d %s", w.Code, w.Body)
			}
			w = post(rc, "/in/rcs", "nonsense")
			if w.Code != 200 || !strings.HasPrefix(w.Body.String(), `{"outcome":"invalid","error":`) {
				t.Errorf("invalid: %d %s", w.Code, w.Body)
			}
			if seen.count("rcs/accepted") != 1 || seen.count("rcs/invalid") != 1 {
				t.Errorf("counted %v", seen.n)
			}
		})
	}
}

func TestUnavailableReply_AlwaysHasRetryAfter(t *testing.T) {
	source := rcs()
	source.Replies[queue.Unavailable] = inbox.Reply{
		Status: 500,
		Header: map[string]func(*inbox.Message) (string, error){
			"Retry-After": func(m *inbox.Message) (string, error) {
				v, err := bodyField(m, "wait")
				s, _ := v.(string)
				if s == "" {
					err = errors.New("missing")
				}
				return s, err
			},
		},
	}
	rc := newReceiver(t, wrongStore{}, inbox.Config{}, source)
	for body, want := range map[string]string{
		finishFE: "1",
		strings.Replace(finishFE, "{", `{"wait":"30",`, 1): "30",
	} {
		if w := post(rc, "/in/rcs", body); w.Code != 500 || w.Header().Get("Retry-After") != want ||
			w.Body.Len() != 0 {
			t.Errorf("answer %d %v %s, want Retry-After %s", w.Code, w.Header(), w.Body, want)
		}
	}
}

func TestLongReply_HasALength(t *testing.T) {
	source := rcs()
	long := strings.Repeat("x", 5000)
	source.Replies[queue.Accepted] = inbox.Reply{Body: text(
		func(*inbox.Message) (string, error) { return long, nil })}
	w := post(newReceiver(t, newMemStore(), inbox.Config{}, source), "/in/rcs", finishFE)
	if w.Header().Get("Content-Length") != "5000" || w.Body.String() != long {
		t.Errorf("header %v", w.Header())
	}
}
