package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestEachCommandHasAManualPage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	status, out, errs := run("man", dir)
	if status != 0 || !regexp.MustCompile(`^wrote \d+ pages to `).MatchString(out) {
		t.Fatalf("status %d, %s%s", status, out, errs)
	}
	for _, name := range []string{"once", "once-serve", "once-callbacks", "once-callbacks-retry",
		"once-effects-done", "once-tasks-move", "once-resources-transfer", "once-status"} {
		b, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		page := string(b)
		for _, want := range []string{`.TH "` + strings.ReplaceAll(strings.ToUpper(name), "-", `\-`) +
			`" "1"`, ".SH NAME\n" + strings.ReplaceAll(name, "-", `\-`) + ` \- `, ".SH SYNOPSIS\n",
			".SH DESCRIPTION\n", ".SH EXIT STATUS\n", ".B 4\nits state doesn't allow it"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") &&
				!regexp.MustCompile(`^\.(TH|SH|PP|TP|B|BR|RS|RE|nf|fi)\b`).MatchString(line) {
				t.Errorf("%s: a line that is taken for a request: %s", name, line)
			}
			if strings.Contains(strings.ReplaceAll(line, `\-`, ""), "--") {
				t.Errorf("%s: hyphens that can't be copied: %s", name, line)
			}
		}
	}
	retry, err := os.ReadFile(filepath.Join(dir, "once-callbacks-retry.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`\fB\-\-reason\fR`, `\fB\-\-token\-file\fR \fIFILE\fR`,
		".SH ENVIRONMENT\n", ".B ONCE_TOKEN\n", ".BR once\\-callbacks (1)", `once callbacks retry ID\[u2026] |`,
		`\fB\-\-source\fR \fISOURCE\fR`} {
		if !strings.Contains(string(retry), want) {
			t.Errorf("the page of retry lacks %q", want)
		}
	}
	if status, _, errs := run("man", filepath.Join(dir, "none")); status != 1 || errs == "" {
		t.Errorf("into a folder that is not there: status %d, %s", status, errs)
	}
}

func TestTheHelpNamesTheStatuses(t *testing.T) {
	t.Parallel()
	status, out, _ := run("help", "exit-status")
	const want = "    4  its state doesn't allow it; nothing was changed\n"
	if status != 0 || !strings.Contains(out, want) {
		t.Errorf("status %d:\n%s", status, out)
	}
}

func TestAShellIsOfferedWhatTheServerHas(t *testing.T) {
	t.Parallel()
	p := plant(t)
	early, other := p.one("key=early"), p.one("key=other")
	for _, c := range []struct {
		args string
		want []string
	}{
		{"callbacks list --source", []string{"rcs"}},
		{"callbacks list --state", []string{"pending", "running", "done", "parked", "stale",
			"unrouted", "dead", "held", "discarded"}},
		{"effects list --destination", []string{"plant", "wms"}},
		{"tasks list --flow", []string{"transport"}},
		{"tasks list --state", []string{"running", "unloaded"}},
		{"callbacks retry", []string{other + "\trcs finishFE", early + "\trcs finish"}},
		{"resources release", []string{"roadway/R7", "roadway/R9"}},
		{"status --output", []string{"table", "json"}},
	} {
		args := append([]string{"__complete"}, strings.Fields(c.args)[:2]...)
		args = append(append(args, "--server", p.admin), strings.Fields(c.args)[2:]...)
		if strings.HasPrefix(c.args, "status") {
			args = []string{"__complete", "status", "--output"}
		}
		_, out, _ := run(append(args, "")...)
		got := strings.Split(strings.TrimSpace(out), "\n")
		if !slices.Equal(got[:len(got)-1], c.want) || !strings.HasPrefix(got[len(got)-1], ":4") {
			t.Errorf("%s: offered %q, want %q", c.args, got, c.want)
		}
	}
	_, out, _ := run("__complete", "callbacks", "list", "--server", "http://127.0.0.1:1",
		"--source", "")
	if strings.TrimSpace(out) != ":4" {
		t.Errorf("without a server: %q", out)
	}
}
