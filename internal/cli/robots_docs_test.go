package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/testserver"
)

// fenced returns the only code block of a section in one language; empty: there is none.
func fenced(t *testing.T, section, language string) string {
	t.Helper()
	block := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$")
	all := block.FindAllStringSubmatch(section, -1)
	switch len(all) {
	case 0:
		return ""
	case 1:
		return all[0][1]
	}
	t.Fatalf("%d blocks of %s, want one", len(all), language)
	return ""
}

// Each section of the guide has a file, the commands that try it, and what they print.
func TestTheGuideToRobotControllersRunsAsItIsWritten(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "robots.md"))
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		title, _, _ := strings.Cut(section, "\n")
		yaml, script := fenced(t, section, "yaml"), fenced(t, section, "sh")
		if yaml == "" {
			continue
		}
		prints := fenced(t, section, "text")
		if (script == "") != (prints == "") {
			t.Errorf("%s: commands without what they print, or the other way round", title)
		}
		if script != "" {
			tried++
		}
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := write(t, dir, "once.yaml", yaml)
			if status, _, errs := run("config", "check", filepath.Join(dir, file)); status != 0 {
				t.Fatalf("the file is refused: %s", errs)
			}
			if script == "" {
				return
			}
			p := serve(t, dir, "--config", file)
			send, read := sendAndRead(p.on(script))
			replies, told := bash(t, dir, send), ""
			defer func() {
				if t.Failed() {
					t.Logf("it was last printed\n%s%s\nwant\n%s", replies, told, prints)
				}
			}()
			// A task moves right after the reply.
			testserver.Until(t, patience, "the commands print what the guide shows", func() bool {
				var err error
				told, err = tryBash(t, dir, read)
				return err == nil && replies+told == prints
			})
			if title == "The triple" {
				lookAround(t, p, dir, string(page))
			}
		})
	}
	if tried < 7 {
		t.Errorf("%d sections were tried", tried)
	}
}

// sendAndRead cuts the commands of a section where it begins to look at what came of its messages.
func sendAndRead(script string) (send, read string) {
	at := regexp.MustCompile("(?m)^(curl|for) ").FindStringIndex(script)
	if at == nil {
		return script, ""
	}
	return script[:at[0]], script[at[0]:]
}

// lookAround runs the commands by which the guide's reader looks at what came.
func lookAround(t *testing.T, p *process, dir, page string) {
	t.Helper()
	commands := regexp.MustCompile("(?m)^ {8}(once .*)$").FindAllStringSubmatch(page, -1)
	if len(commands) != 3 {
		t.Fatalf("%d commands to look at what came, want 3", len(commands))
	}
	for i, want := range []string{"REQ-1024", "", "TASK-001"} {
		told := bash(t, dir, commands[i][1]+" --server "+p.admin)
		if !strings.Contains(told, want) {
			t.Errorf("%s says\n%s\nwant %s in it", commands[i][1], told, want)
		}
	}
	told := bash(t, dir, "once tasks show transport/TASK-001 --server "+p.admin)
	if !strings.Contains(told, "finishFE") {
		t.Errorf("the history of the task is\n%s", told)
	}
}
