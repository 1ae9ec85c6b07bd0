package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// background turns each line of a block into a process of its own, as a page's terminals do.
func background(block string) string {
	var script strings.Builder
	for i, line := range strings.Split(strings.TrimSpace(block), "\n") {
		command, _, _ := strings.Cut(line, " #")
		fmt.Fprintf(&script, "%s >> %d.log 2>&1 &\n", command, i)
	}
	return script.String()
}

// keysScript is the script of the page about keys, on free ports, in a folder that has the files of
// its example. Its processes end with it.
func keysScript(t *testing.T) (dir, script string) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Fatalf("the example of a gateway needs node: %v", err)
	}
	shell := blocks(t, keysPage, "sh")
	if len(shell) != 7 {
		t.Fatalf("the page has %d shell blocks; this test knows 7", len(shell))
	}
	dir = t.TempDir()
	example := filepath.Join("examples", "gateway")
	if err := os.MkdirAll(filepath.Join(dir, example), 0o700); err != nil {
		t.Fatal(err)
	}
	at := addresses(t, 3)
	local := strings.NewReplacer("127.0.0.1:8080", at[0], "127.0.0.1:8081", at[1],
		"127.0.0.1:3000", at[2],
		"service.js 3000", "service.js "+at[2][strings.Index(at[2], ":")+1:],
		"once proxy ", "once proxy --listen "+at[0]+" --admin "+at[1]+" ",
		"once serve", "export ONCE_SERVER=http://"+at[1]+"; once serve")
	for _, name := range []string{"service.js", "gateway.yaml"} {
		file := filepath.Join(example, name)
		write(t, dir, file, local.Replace(source(t, file)))
	}
	const ready = "for i in {1..300}; do curl -s -o /dev/null http://127.0.0.1:3000/ &&" +
		" curl -s -o /dev/null http://127.0.0.1:8080/ && break; sleep 0.1; done\n" +
		"[ $i -lt 300 ] || { cat *.log; exit 1; }\n"
	const mark = "echo =====\n"
	// Refusals are what the page shows, so that a status of 400 and more ends nothing.
	script = "set +eo pipefail; unset -f curl; trap 'kill -9 $(jobs -p) 2> /dev/null' EXIT\n" +
		background(shell[0]) + ready + shell[1] + "kill $(jobs -p); wait\n" +
		background(shell[2]) + ready + shell[3] + mark +
		strings.Join(shell[4:], mark)
	return dir, local.Replace(script)
}

func TestTheCommandsOfThePageAboutKeysRun(t *testing.T) {
	t.Parallel()
	dir, script := keysScript(t)
	// A token that changed is the same account; one that is not known gets no kept answer.
	told := bash(t, dir, script+`echo =====
for token in next-token-of-acct-1 withdrawn; do
  curl() { command curl -i "${@/token-of-acct-1/$token}" --retry 0; }
  pay order-1 '{"card":"card-late","cents":1250}'
done
`)
	parts := strings.Split(told, "=====\n")
	if len(parts) != 5 {
		t.Fatalf("the commands tell\n%s", told)
	}
	for _, c := range []struct {
		part  int
		want  string
		times int
	}{
		{0, "HTTP/1.1 201 Created", 5},
		{0, "Idempotent-Replayed: true", 4},
		{0, "HTTP/1.1 422 Unprocessable Entity", 1},
		{0, "urn:once:problem:mismatch", 1},
		{0, "ch_1 acct-1 card-1 1250\n", 1},
		{1, `{"id":"ch_2","card":"card-late","cents":1250}`, 1},
		{1, "ch_2 acct-1 card-late 1250\n", 1},
		{2, "urn:once:problem:upstream-lost", 1},
		{2, "urn:once:problem:held", 1},
		{2, "ch_3 acct-1 card-lost 900\n", 1},
		{3, `{"id":"ch_3","card":"card-lost","cents":900}`, 1},
		{4, "Idempotent-Replayed: true", 1},
		{4, "HTTP/1.1 401 Unauthorized", 1},
	} {
		if n := strings.Count(parts[c.part], c.want); n < c.times || n > c.times && c.part != 2 {
			t.Errorf("part %d has %q %d times, want %d:\n%s", c.part, c.want, n, c.times,
				parts[c.part])
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "charges.txt"))
	want := "ch_1 acct-1 card-1 1250\nch_2 acct-1 card-late 1250\nch_3 acct-1 card-lost 900\n"
	if err != nil || string(b) != want {
		t.Errorf("the cards were charged\n%s, %v, want\n%s", b, err, want)
	}
}

func TestThePageAboutKeysShowsTheExampleAsItIs(t *testing.T) {
	t.Parallel()
	for language, file := range map[string]string{"js": "service.js", "yaml": "gateway.yaml"} {
		text := source(t, "examples", "gateway", file)
		for _, block := range blocks(t, keysPage, language) {
			if !strings.Contains(text, block) {
				t.Errorf("%s doesn't have\n%s", file, block)
			}
		}
	}
}

func TestTheCommandsOfTheGatewaysPageAreTaken(t *testing.T) {
	t.Parallel()
	tried := 0
	for _, line := range strings.Split(source(t, "docs", "gateway.md"), "\n") {
		arguments, isCommand := strings.CutPrefix(line, "once ")
		if !isCommand {
			continue
		}
		tried++
		// Its flags are read before it is asked for help.
		told, err := tryBash(t, t.TempDir(), "once "+arguments+" --help")
		if err != nil || !strings.Contains(told, "Usage:") {
			t.Errorf("once %s: %v\n%s", arguments, err, told)
		}
	}
	if tried < 6 {
		t.Errorf("only %d commands are found", tried)
	}
}
