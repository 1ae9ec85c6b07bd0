package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestConfigCheckWarnsOfWhatThisProgramLacks(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"gateway.yaml":         "warning: the file has a `gateway`, which this version does not",
		"handler/handler.yaml": "warning: source payments: `to: {handler: bookings}` names a",
	} {
		file = filepath.Join(root, "examples", filepath.FromSlash(file))
		status, out, errs := run("config", "check", file)
		if status != 0 || !strings.Contains(out, " is right") || !strings.Contains(errs, want) {
			t.Errorf("%s: status %d, %s%s", file, status, out, errs)
		}
		store := filepath.Join(t.TempDir(), "once.db")
		status, _, errs = run("serve", "--config", file, "--store", "sqlite:"+store, "--listen",
			"127.0.0.1:0", "--admin", "127.0.0.1:0")
		if status != 2 || !strings.Contains(errs, strings.TrimPrefix(want, "warning: ")) {
			t.Errorf("serve %s: status %d, %s", file, status, errs)
		}
		if _, err := os.Stat(store); err == nil {
			t.Error("a store was made")
		}
	}
}

func TestConfigCheckComparesAFileWithItsStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const file = `
sources: {rcs: {key: ["body.id"], event: "body.kind", to: {flow: f}}}
flows: {f: {task: "body.task", initial: a, final: [z], events: {go: {from: [a], to: z}}}}
`
	old := filepath.Join(dir, write(t, dir, "once.yaml", file))
	next := filepath.Join(dir, write(t, dir, "next.yaml", strings.Replace(file, "rcs", "agv", 1)))
	migrated := filepath.Join(dir, write(t, dir, "migrated.yaml", strings.Replace(file, "rcs",
		"agv", 1)+"migrate: {sources: {rcs: agv, no: agv}}\n"))
	check := func(when, file string, status int, says ...string) {
		t.Helper()
		got, out, errs := run("config", "check", file)
		for _, want := range says {
			if got != status || !strings.Contains(out+errs, want) {
				t.Errorf("%s: status %d, want %d and %q:\n%s%s", when, got, status, want, out, errs)
			}
		}
	}
	check("without a store", old, 0, "0 destinations\n")
	p := serve(t, dir, "--config", "once.yaml")
	p.mustPost("rcs", `{"id":"1","task":"T","kind":"go"}`)
	for _, when := range []string{"beside a server", "afterwards"} {
		check(when, old, 0, "and fits its store ", "once.db\n")
		check(when, next, 2, "next.yaml: the source rcs is gone", "sources: {rcs: discard}")
		check(when, migrated, 0, "fits its store", "warning: migrate: there is no source no")
		p.signal(syscall.SIGTERM)
		p.status()
	}
	write(t, dir, "once.db", "this is no store, but some text that is in its place")
	check("with a file that is no store", old, 0, "warning: not compared with the store: ")
}
