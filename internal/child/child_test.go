package child_test

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncekit/once/internal/child"
)

func TestAChildIsEndedAndTellsHow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		script string
		end    func(*child.Process)
		state  string
	}{
		{"by itself", "exit 3", func(p *child.Process) { <-p.Done() }, "exit status 3"},
		{"killed", "sleep 60", (*child.Process).Kill, "signal: killed"},
		{"killed twice", "sleep 60", func(p *child.Process) { p.Kill(); p.Kill() },
			"signal: killed"},
		{"killed while it stands still", "sleep 60", func(p *child.Process) {
			p.Signal(syscall.SIGSTOP)
			p.Kill()
		}, "signal: killed"},
		{"in order", "trap 'exit 0' TERM; echo; while :; do sleep 0.01; done",
			func(p *child.Process) { p.End(syscall.SIGTERM, time.Minute) }, "exit status 0"},
		{"in order, which it ignores", "trap '' TERM; echo; while :; do sleep 0.01; done",
			func(p *child.Process) { p.End(syscall.SIGTERM, 50*time.Millisecond) },
			"signal: killed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("sh", "-c", c.script)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			p, err := child.Start(cmd)
			if err != nil {
				t.Fatal(err)
			}
			if p.State() != nil && !strings.HasPrefix(c.script, "exit") {
				t.Errorf("it ended: %v", p.State())
			}
			if strings.HasPrefix(c.script, "trap") { // it has set its trap when it speaks
				if _, err := out.Read(make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
			}
			c.end(p)
			if !p.Ended() || p.State().String() != c.state {
				t.Errorf("ended %v: %v, want %s", p.Ended(), p.State(), c.state)
			}
		})
	}
}

func TestAProgramThatIsMissingIsTold(t *testing.T) {
	t.Parallel()
	_, err := child.Start(exec.Command("/does/not/exist"))
	if err == nil || !strings.Contains(err.Error(), "start /does/not/exist: ") {
		t.Errorf("error %v", err)
	}
}
