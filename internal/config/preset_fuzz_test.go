package config

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/value"
)

// Whatever a sender sends, a preset makes a callback or an error of it, and a reply.
func FuzzPresets(f *testing.F) {
	files, err := filepath.Glob("../server/testdata/dialects/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatalf("no dialects: %v", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if strings.HasPrefix(line, "{") {
				f.Add([]byte(strings.TrimSpace(line)))
			}
		}
	}
	f.Add([]byte(`{"extra":"[]","request":{"body":{"tasks":[{}]}},"data:":[null,[],1]}`))
	var sources []*inbox.Source
	for _, name := range []string{"robot-triple", "hik-rcs-v3", "hik-rcs-v3-warnings", "hik-rcs-v4",
		"geekplus-rms", "kuka-amr"} {
		text := []byte(withPreset(name, "repeats: duplicate"))
		c, err := Parse("once.yaml", text, Env{})
		if err != nil {
			f.Fatal(err)
		}
		sources = append(sources, c.Sources[0])
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		body, err := value.Decode(raw, value.Limits{})
		if err != nil {
			return
		}
		for _, s := range sources {
			m := &inbox.Message{Source: s.Name, Raw: raw, Body: body, Header: http.Header{
				"X-Lr-Request-Id": {"1"}}}
			items := []any{nil}
			if s.Each != nil {
				if items, err = s.Each(m); err != nil {
					items = nil
				}
			}
			for _, m.Item = range items {
				read(t, s, m)
			}
			m.Item = nil
			for outcome, reply := range s.Replies {
				if b, _, err := reply.Body(m); err != nil {
					t.Errorf("%s has no reply: %s, %v", outcome, b, err)
				} else if _, err := value.Decode(b, value.Limits{}); err != nil {
					t.Errorf("%s has the reply %s: %v", outcome, b, err)
				}
			}
		}
	})
}

// read asks a source for all that it makes of a callback.
func read(t *testing.T, s *inbox.Source, m *inbox.Message) {
	event, err := s.Event(m)
	if err != nil {
		event = ""
	}
	if _, err := s.Key(m); err != nil && err.Error() == "" {
		t.Error("a key can't be made for no reason")
	}
	if _, err := s.Fingerprint(m); err != nil {
		t.Errorf("no fingerprint: %v", err)
	}
	if _, err := s.Route(m, event); err != nil && err.Error() == "" {
		t.Error("a route can't be made for no reason")
	}
}
