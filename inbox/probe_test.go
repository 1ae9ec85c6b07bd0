package inbox_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/queue"
)

// probed is the source of the robots with two probes.
func probed() *inbox.Source {
	s := rcs()
	said := func(status int, body string) inbox.Reply {
		return inbox.Reply{Status: status, Body: text(func(*inbox.Message) (string, error) {
			return body, nil
		})}
	}
	s.Probes = []inbox.Probe{
		{When: func(m *inbox.Message) (bool, error) {
			v, err := bodyField(m, "type")
			if err == nil && v == nil {
				err = errors.New("no type")
			}
			return v == "ping", err
		}, Reply: said(202, "pong")},
		{Text: []byte("test\n"), Reply: said(0, "alive")},
		{Text: []byte("hello")},
	}
	return s
}

func TestAProbeIsAnsweredAndNotStored(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		header []string
		status int
		want   string
		probe  bool
	}{
		"text":   {"test", nil, 200, "alive", true},
		"blanks": {" test\r\n", nil, 200, "alive", true},
		"odd type": {"test", []string{"Content-Type", "text/html; charset=latin1"}, 200, "alive",
			true},
		"encoded": {packed(t, "test", asGzip), []string{"Content-Encoding", "gzip"}, 200, "alive",
			true},
		"no reply":   {"hello", nil, 200, "", true},
		"condition":  {`{"type":"ping"}`, nil, 202, "pong", true},
		"other case": {"TEST", nil, 400, `{"code":"1"`, false},
		"longer":     {"testing", nil, 400, `{"code":"1"`, false},
		"odd type, not": {`{"type":"ping"}`, []string{"Content-Type", "text/html"}, 400,
			`{"code":"1"`, false},
		"no condition": {finishFE, nil, 200, `{"code":"0"`, false},
		"no object":    {`["ping"]`, nil, 400, "not an object", false},
	} {
		t.Run(name, func(t *testing.T) {
			store, seen := newMemStore(), &counter{}
			rc := newReceiver(t, store, inbox.Config{Observer: seen}, probed())
			w := post(rc, "/in/rcs", c.body, c.header...)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("answer %d %s, want %d %s", w.Code, w.Body, c.status, c.want)
			}
			if got := seen.count("rcs/probe"); (got == 1) != c.probe {
				t.Errorf("counted %v", seen.n)
			}
			if stored := store.arrivals + len(store.ring()); (stored == 0) != c.probe {
				t.Errorf("%d things are kept of it", stored)
			}
		})
	}
}

func TestAProbeOfAStrangerIsRefused(t *testing.T) {
	store, source := newMemStore(), probed()
	source.Verifier = verifyFunc(func(*inbox.Message) error { return errors.New("who is it?") })
	rc := newReceiver(t, store, inbox.Config{}, source)
	for _, body := range []string{"test", `{"type":"ping"}`} {
		if w := post(rc, "/in/rcs", body); w.Code != 401 {
			t.Errorf("%s: answer %d %s", body, w.Code, w.Body)
		}
	}
}

func TestAProbeIsNoEventInTheLog(t *testing.T) {
	var log bytes.Buffer
	rc := newReceiver(t, newMemStore(), inbox.Config{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}, probed())
	post(rc, "/in/rcs", "test")
	if log.Len() != 0 {
		t.Errorf("logged %s", &log)
	}
}

func TestAConditionThatPanicsStoresNothing(t *testing.T) {
	store, source := newMemStore(), probed()
	source.Probes[0].When = func(*inbox.Message) (bool, error) { panic("no") }
	w := post(newReceiver(t, store, inbox.Config{}, source), "/in/rcs", finishFE)
	if w.Code != 503 || store.arrivals != 0 {
		t.Errorf("answer %d %s", w.Code, w.Body)
	}
}

func TestWrongSources_OfElementsProbesAndTimes(t *testing.T) {
	for want, change := range map[string]func(*inbox.Source){
		"probe 1: it needs either a text": func(s *inbox.Source) {
			s.Probes = []inbox.Probe{{Text: []byte(" \n")}}
		},
		"probe 2: it needs either a text": func(s *inbox.Source) {
			s.Probes = []inbox.Probe{{Text: []byte("a")}, {Text: []byte("b"),
				When: func(*inbox.Message) (bool, error) { return true, nil }}}
		},
		"probe 1: status 99 is not": func(s *inbox.Source) {
			s.Probes = []inbox.Probe{{Text: []byte("a"), Reply: inbox.Reply{Status: 99}}}
		},
		`probe 1: header "X" has no value`: func(s *inbox.Source) {
			s.Probes = []inbox.Probe{{Text: []byte("a"), Reply: inbox.Reply{
				Header: map[string]func(*inbox.Message) (string, error){"X": nil}}}}
		},
		"33 probes, at most 32": func(s *inbox.Source) {
			for range 33 {
				s.Probes = append(s.Probes, inbox.Probe{Text: []byte("a")})
			}
		},
		"a limit is negative": func(s *inbox.Source) { s.MaxElements = -1 },
		"a limit is neg":      func(s *inbox.Source) { s.NewAfter = -1 },
		"new after 168h0m1s, but its key is forgotten after 168h0m0s": func(s *inbox.Source) {
			s.NewAfter = 168*3600*1e9 + 1e9
		},
		`unknown outcome "probe"`: func(s *inbox.Source) {
			s.Replies = map[queue.Outcome]inbox.Reply{queue.Probe: {}}
		},
	} {
		source := rcs()
		change(source)
		_, err := inbox.New(newMemStore(), []*inbox.Source{source}, inbox.Config{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
