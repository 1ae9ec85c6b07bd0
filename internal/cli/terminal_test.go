package cli_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal makes a terminal of 100 columns: what is typed and shown, and what a program gets.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	err = errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0),
		unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100}))
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// typed is a program that runs on a terminal.
type typed struct {
	t   *testing.T
	cmd *exec.Cmd
}

// startOn starts a program on a terminal. The terminal is the program's alone then.
func startOn(t *testing.T, slave *os.File, path string, args ...string) *typed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := slave.Close(); err != nil {
		t.Fatal(err)
	}
	return &typed{t, cmd}
}

// wait returns the status.
func (c *typed) wait() int {
	c.t.Helper()
	err := c.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	return c.cmd.ProcessState.ExitCode()
}

// onTerminal runs a command on a terminal and returns what is shown.
func (p *process) onTerminal(args ...string) string {
	p.t.Helper()
	master, slave := terminal(p.t)
	c := startOn(p.t, slave, program(p.t, "./cmd/once"), append(args, "--server", p.admin)...)
	shown := make(chan string)
	go func() {
		var b strings.Builder
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			b.Write(buf[:n])
			if err != nil { // EIO: the program is gone
				shown <- b.String()
				return
			}
		}
	}()
	if status := c.wait(); status != 0 {
		p.t.Errorf("once %s: status %d", args, status)
	}
	return strings.ReplaceAll(<-shown, "\r\n", "\n")
}

func TestOnATerminalTablesFitAndHaveColours(t *testing.T) {
	t.Parallel()
	text := plant(t).onTerminal("callbacks", "list")
	if !strings.Contains(text, "\x1b[33mparked\x1b[0m") || !strings.Contains(text, "\x1b[32mdone") {
		t.Errorf("no colours:\n%s", text)
	}
	plain := strings.NewReplacer("\x1b[0m", "", "\x1b[1m", "", "\x1b[2m", "", "\x1b[31m", "",
		"\x1b[32m", "", "\x1b[33m", "").Replace(text)
	if strings.Contains(plain, "\x1b") {
		t.Errorf("other escapes: %q", plain)
	}
	for line := range strings.Lines(plain) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 100 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	if !strings.Contains(plain, "  too early: the task is not …\n") {
		t.Errorf("the reason is not cut to its 28 columns:\n%s", plain)
	}
}

func TestOnATerminalJSONAndBodiesMoveNoCursor(t *testing.T) {
	t.Parallel()
	p := serve(t, t.TempDir())
	const body = `{"reqCode":"a\u001b[2J","taskCode":"T\x7f` + "\u009b2J\u202e" +
		`","callbackMethod":"startFE"}`
	p.mustPost("rcs", strings.ReplaceAll(body, `\x7f`, "\x7f"))
	p.awaitDone(1)
	id := p.callbacks("")[0].ID
	line := p.onTerminal("callbacks", "list", "-o", "json")
	if !strings.Contains(line, `"task":"T\u007f\u009b2J\u202e"`) {
		t.Errorf("not escaped: %q", line)
	}
	for _, text := range []string{line, p.onTerminal("callbacks", "show", id, "--body")} {
		if strings.ContainsAny(text, "\x1b\x7f\u009b\u202e") {
			t.Errorf("raw: %q", text)
		}
	}
	if got, want := p.told("callbacks", "show", id, "--body"), strings.ReplaceAll(body, `\x7f`,
		"\x7f"); got != want {
		t.Errorf("in a pipe the body is %q, want %q", got, want)
	}
}
