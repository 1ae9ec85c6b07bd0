package server_test

import (
	"fmt"
	"strings"
	"testing"
)

// entities is a flow over things of a provider, of which the newest message says how they are. The
// expression says what is newer.
func entities(newer string) string {
	return `
sources:
  hooks:
    key: ["body.id"]
    event: "body.type == 'deleted' ? 'gone' : 'changed'"
    to: {flow: transport}
flows:
  transport:
    task: "body.thing"
    initial: unknown
    final: [deleted]
    events:
      changed:
        from: [unknown, known]
        to: known
        set: {last: "${body.type}", by: "${body.id}"}
        newer: "` + newer + `"
      gone: {from: [unknown, known], to: deleted}
`
}

func TestI20_AnOlderEventThatComesLaterIsKeptAsStaleAndChangesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		newer string
		tie   string // what becomes of a second event of the same second
		last  string
	}{
		"by its second":             {"body.created", "stale", "e2"},
		"by its second, then by id": {"string(body.created) + ' ' + body.id", "done", "e3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, t.TempDir(), entities(c.newer))
			send := func(id, kind string, created int) {
				s.post(200, "hooks", fmt.Sprintf(
					`{"id":%q,"thing":"T","type":%q,"created":%d}`, id, kind, created))
			}
			send("e2", "updated", 1_700_000_266)
			s.awaitCallback("key=e2", "done")
			send("e1", "created", 1_700_000_265)
			if old := s.awaitCallback("key=e1", "stale"); !strings.Contains(old.Error, "265") ||
				!strings.Contains(old.Error, "266") {
				t.Errorf("the older one is stale and says %q, want both times", old.Error)
			}
			send("e3", "updated", 1_700_000_266)
			tie := s.awaitCallback("key=e3", c.tie)
			if c.tie == "stale" && !strings.Contains(tie.Error, "is not above") {
				t.Errorf("the one of the same second says %q", tie.Error)
			}
			got, _ := s.task("T")
			if got.Fields["last"] != "updated" || got.Fields["by"] != c.last {
				t.Errorf("the task is as %v, want it as %s made it", got.Fields, c.last)
			}
			if n := len(s.callbacks("task=T")); n != 3 {
				t.Errorf("%d callbacks are kept, want 3", n)
			}
			send("e4", "updated", 1_700_000_267)
			s.awaitCallback("key=e4", "done")
		})
	}
}
