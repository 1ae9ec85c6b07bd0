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
	astray := filepath.Join(dir, write(t, dir, "astray.yaml", "store: sqlite:none/once.db\n"+file))
	check("with a store in a folder that is missing", astray, 0, "warning: not compared with the "+
		"store: read store ", "none does not exist; create it, or name another path")
}

// dangling has an effect that frees a resource and expires, on its seventh line.
const dangling = `
sources: {rcs: {key: ["body.id"], event: "body.kind", to: {flow: f}}}
flows: {f: {task: "body.task", initial: a, final: [z], events: {go: {from: [a], to: z}}}}
resources:
  roadway:
    on_release:
      - {name: unlock, to: board, expires: 30m}
      - {name: told, to: board}
  lift:
    free: at_once
    on_release: [{name: unlock, to: board, expires: 30m}]
destinations: {board: {log: {}}}
`

func TestAnEffectThatFreesAResourceAndExpiresIsWarnedOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, write(t, dir, "once.yaml", dangling))
	status, out, errs := run("config", "check", file)
	if status != 0 || !strings.Contains(out, " is right") {
		t.Errorf("status %d: %s", status, out)
	}
	const says = "an effect that expires is never acknowledged, so its resource stays `freeing`" +
		" until a person acts; better no expires here, or free: at_once"
	want := "warning: " + file + ":7:44: " + says + `
     7 |       - {name: unlock, to: board, expires: 30m}
       |                                            ^
`
	if errs != want {
		t.Errorf("got\n%swant\n%s", errs, want)
	}
	p := serve(t, dir, "--config", "once.yaml")
	if log := p.err.String(); strings.Count(log, "level=WARN msg=\"configuration: "+says) != 1 ||
		!strings.Contains(log, "line=7 column=44") {
		t.Errorf("the log lacks the warning:\n%s", log)
	}
}

func TestABrokerThatDoesNotSayItsLimitIsWarnedOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const yaml = `sources: {rcs: {key: ["body.id"], to: {http: "http://127.0.0.1:1/x"}}}
destinations: {plant: {mqtt: {url: "mqtt://127.0.0.1", version: "3.1.1"}}}
`
	file := filepath.Join(dir, write(t, dir, "once.yaml", yaml))
	if status, _, errs := run("config", "check", file); status != 0 ||
		!strings.Contains(errs, "warning: "+file+":2:30: a broker of MQTT 3.1.1 doesn't say") {
		t.Errorf("status %d: %s", status, errs)
	}
	file = filepath.Join(dir, write(t, dir, "limit.yaml", strings.Replace(yaml, `"3.1.1"`,
		`"3.1.1", max_packet: 1MiB`, 1)))
	if status, _, errs := run("config", "check", file); status != 0 || errs != "" {
		t.Errorf("status %d: %s", status, errs)
	}
}
