package flow

import (
	"testing"

	"github.com/oncekit/once/queue"
)

func TestResourceTextIsSplitAtItsFirstSlash(t *testing.T) {
	for text, want := range map[string]ref{
		"roadway/A": {"roadway", "A"}, "roadway/A/b": {"roadway", "A/b"},
		"roadway/":  {"roadway", ""},
		"roadway//": {"roadway", "/"},
	} {
		if got, err := parseRef(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "roadway", "/A", "/"} {
		if got, err := parseRef(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func FuzzResourceText(f *testing.F) {
	for _, s := range []string{"roadway/A", "a/b/c", "/", "", "x/", "task/transport/T1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseRef(s)
		if err != nil {
			return
		}
		if r.String() != s || r.kind == "" {
			t.Fatalf("%q became %q", s, r)
		}
		if back, ok := waitedRef(queue.WaitResource(r.kind, r.name)); !ok || back != r {
			t.Fatalf("the wait for %q is for %q", r, back)
		}
		if _, ok := waitedRef(queue.WaitTask(r.kind, r.name)); ok {
			t.Fatalf("the wait for task %q is one for a resource", s)
		}
	})
}
