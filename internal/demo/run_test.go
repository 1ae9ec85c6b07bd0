package demo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oncekit/once/internal/demo/model"
)

// patience bounds what a test waits for.
const patience = 3 * time.Minute

// folder is where the program is built.
var folder = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "once-built-") })

// program builds the program, once. Without the race detector: under it the server is many times
// slower, and it is not the server's data races that are looked for here.
var program = sync.OnceValues(func() (string, error) {
	tool := os.Getenv("GO")
	if tool == "" {
		tool = "go"
	}
	dir, err := folder()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "once")
	cmd := exec.Command(tool, "build", "-race=false", "-o", path, "../../cmd/once")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return path, nil
})

func build(t *testing.T) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatalf("build once: %v", err)
	}
	return path
}

func TestMain(m *testing.M) {
	dir, err := folder() // before a test has a place of its own for such folders
	if err != nil {
		panic(err)
	}
	status := m.Run()
	_ = os.RemoveAll(dir) // it was for this run alone
	os.Exit(status)
}

// folders are those of demos that run or were left behind.
func folders(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// The real server comes out right, and the same evidence, tampered with, comes out wrong: whoever
// loses, doubles, or mixes up is named.
func TestARealRunComesOutRightAndTamperedOnesDoNot(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // its folder can be looked for
	var out bytes.Buffer
	var real *model.Evidence
	cfg := Config{Robots: 6, Duration: 5 * time.Second, Seed: 11, Rate: 60, Program: build(t),
		Out: &out, Tamper: func(e *model.Evidence) { real = e }}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	res, err := Run(ctx, cfg)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !res.OK() || res.kills < 2 || res.shift < 3*time.Hour {
		t.Fatalf("%d kills, clock %v ahead:\n%s", res.kills, res.shift, out.String())
	}
	checkReport(t, out.String())
	if left := folders(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	for name, c := range map[string]struct {
		tamper func(*model.Evidence)
		kind   string
	}{
		"a destination counts twice": {doubleCount, model.Doubled},
		"a callback is lost":         {loseCallback, model.Lost},
		"two owners":                 {secondOwner, model.TwoOwners},
		"order":                      {swapUnlocks, model.Order},
		"order of a task's effects":  {swapProgress, model.Order},
		"no alarm":                   {loseAlarms, model.Lost},
		"a wrong reply":              {wrongReply, model.WrongReply},
	} {
		t.Run(name, func(t *testing.T) {
			e := *real
			e.Sightings = slices.Clone(real.Sightings)
			e.Store.Callbacks = slices.Clone(real.Store.Callbacks)
			c.tamper(&e)
			r := model.Judge(&e)
			named := func(f model.Fault) bool { return f.Kind == c.kind }
			if !slices.ContainsFunc(r.Faults, named) {
				t.Errorf("no fault of kind %s: %+v", c.kind, r.Faults)
			}
		})
	}
}

func doubleCount(e *model.Evidence) {
	again := e.Sightings[len(e.Sightings)-1]
	again.ID += "x"
	e.Sightings = append(e.Sightings, again)
}

func loseCallback(e *model.Evidence) { e.Store.Callbacks = e.Store.Callbacks[1:] }

// secondOwner gives a roadway's next turn the fence of the one before.
func secondOwner(e *model.Evidence) {
	i, k := turns(e)
	e.Sightings[k].Fence = e.Sightings[i].Fence
}

func swapUnlocks(e *model.Evidence) {
	i, k := turns(e)
	e.Sightings[i], e.Sightings[k] = e.Sightings[k], e.Sightings[i]
}

// swapProgress lets the first effect of a task arrive as its second, and that one first.
func swapProgress(e *model.Evidence) {
	first := map[string]int{}
	for i, s := range e.Sightings {
		if s.Name != model.Progress {
			continue
		}
		k, ok := first[s.Task]
		if ok && e.Sightings[k].ID != s.ID {
			e.Sightings[i], e.Sightings[k] = e.Sightings[k], e.Sightings[i]
			return
		}
		if !ok {
			first[s.Task] = i
		}
	}
	panic("no task told of its progress twice")
}

// loseAlarms is a server that sends none, and that knows of none. A short run may have had none
// that was due, so the clock is put forward over the stay of a task in its first state.
func loseAlarms(e *model.Evidence) {
	e.Sightings = slices.DeleteFunc(e.Sightings, func(s model.Sighting) bool {
		return s.Name == model.Alarm
	})
	e.Store.Effects = slices.DeleteFunc(slices.Clone(e.Store.Effects),
		func(s model.StoredEffect) bool { return s.Name == model.Alarm })
	for _, task := range e.Store.Tasks {
		left := slices.IndexFunc(task.History, func(l model.Change) bool {
			return l.To != "running"
		})
		if left < 1 {
			continue
		}
		soon := task.History[0].At.Add(time.Microsecond)
		if task.History[left].At.After(soon) {
			e.Jumps = []model.Jump{{From: soon, To: soon.Add(time.Hour), Settled: soon}}
			return
		}
	}
	panic("no task was in its first state for a while")
}

func wrongReply(e *model.Evidence) {
	c := *e.Callbacks[0]
	c.Sends = slices.Clone(c.Sends)
	c.Sends[0].Wrong = "its body"
	e.Callbacks = append([]*model.Callback{&c}, e.Callbacks[1:]...)
}

// turns are the arrivals that end two turns at one roadway.
func turns(e *model.Evidence) (first, second int) {
	for i, a := range e.Sightings {
		for k, b := range e.Sightings[:i] {
			if a.Resource != "" && a.Resource == b.Resource && a.Task != b.Task &&
				a.Fence == b.Fence+1 {
				return k, i
			}
		}
	}
	panic("no resource had two turns")
}

// checkReport looks for what the numbers of a short run have to be like.
func checkReport(t *testing.T, text string) {
	t.Helper()
	for _, want := range []string{
		`(?m)^once demo: 6 robots, 5s, 60 requests a second, seed 11$`,
		`(?m)^ +\d\.\d s  server   SIGKILL, and started again, its clock \d+ h ahead$`,
		`(?m)^ +\d\.\d s  server   ready after \d\.\d s$`,
		`(?m)^ +\d\.\d s  senders  repeat \d+ callbacks, \d+ h late$`,
		`(?m)^ +\d\.\d s  (wms     |plant   ) (answers 503|hangs|is down) for \d\.\d s$`,
		`(?m)^ +\d\.\d s  sent \d+, accepted \d+, duplicates \d+, conflicts \d+, no answer \d+; `,
		`(?m)^  accepted +[1-9]\d*   different callbacks$`,
		`(?m)^  duplicates +[1-9]\d*   repeats, [1-9]\d* of them hours late$`,
		`(?m)^  expected +[1-9]\d*   by a model`,
		`(?m)^  lost +0$`, `(?m)^  doubled +0$`, `(?m)^order kept   yes$`,
		`(?m)^one owner    yes`, `(?m)^as expected  yes$`,
		`(?m)^replies      all as the file says$`,
		`(?m)^✓ Nothing was lost and nothing was done twice, in spite of \d SIGKILLs`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("it lacks %s:\n%s", want, text)
		}
	}
	_, sums, _ := strings.Cut(text, "\ncallbacks\n")
	for _, l := range strings.Split(sums, "\n") {
		if len([]rune(l)) > 80 {
			t.Errorf("wider than 80 columns: %s", l)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Error("lines hold escape sequences")
	}
}

func TestATamperedRunNamesTheFaultAndKeepsWhatAPersonNeeds(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	res, err := Run(ctx, Config{Robots: 3, Duration: 2 * time.Second, Seed: 5, Rate: 30,
		Program: build(t), Out: &out, Tamper: loseCallback})
	if err != nil {
		t.Fatal(err)
	}
	if res.OK() {
		t.Error("it came out right")
	}
	for _, want := range []string{"It came out wrong: ", "lost",
		"was acknowledged and is not in the store", "sent, and the answer:",
		"the server's log and its store are kept in " + res.Kept,
		"The same again: once demo --robots 3 --duration 2s --rate 30 --seed 5"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, out.String())
		}
	}
	for _, name := range []string{"once.db", "once.yaml", "server.log", "faults.txt"} {
		if _, err := os.Stat(filepath.Join(res.Kept, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestAServerThatDoesNotStartIsToldWithItsReason(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for name, c := range map[string]struct{ program, says string }{
		"no program": {filepath.Join(t.TempDir(), "missing"), "no such file"},
		"another":    {"/bin/false", "it ended by itself: exit status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Run(t.Context(), Config{Robots: 1, Duration: 2 * time.Second, Rate: 1,
				Program: c.program, Out: &bytes.Buffer{}})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %q", err, c.says)
			}
			if left := folders(t); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestAServerThatEndsByItselfIsToldAndWhatItLeavesIsKept(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	_, err := Run(t.Context(), Config{Robots: 1, Duration: 2 * time.Second, Seed: 4, Rate: 5,
		Program: build(t), Out: &bytes.Buffer{}, Tamper: func(*model.Evidence) {
			all, err := filepath.Glob("/proc/[0-9]*/cmdline")
			if err != nil {
				t.Error(err)
			}
			for _, file := range all {
				b, err := os.ReadFile(file)
				if err != nil || !bytes.Contains(b, []byte("\x00serve\x00--config\x00"+dir)) {
					continue
				}
				pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
				if err != nil {
					t.Error(err)
				}
				if err := syscall.Kill(pid, syscall.SIGABRT); err != nil {
					t.Error(err)
				}
				for syscall.Kill(pid, 0) == nil && pause(t.Context(), time.Millisecond) {
					continue
				}
			}
		}})
	left := folders(t)
	told := err != nil && (strings.Contains(err.Error(), "the server ended by itself: ") ||
		strings.Contains(err.Error(), "it did not end in order: ")) // just when it is to stop
	if !told || len(left) != 1 || !strings.HasSuffix(err.Error(),
		"(seed 4; the server's log and its store are kept in "+left[0]+")") {
		t.Errorf("kept %v, error %v", left, err)
	}
}

func TestWrongSettingsAreRefusedInWords(t *testing.T) {
	t.Parallel()
	taken := filepath.Join(t.TempDir(), "once.db")
	if err := os.WriteFile(taken, []byte("somebody's"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := Config{Robots: 1, Duration: time.Minute, Rate: 10}
	for want, change := range map[string]func(*Config){
		"--robots 0: expected 1 to 2000":       func(c *Config) { c.Robots = 0 },
		"--robots 2001":                        func(c *Config) { c.Robots = 2001 },
		"--duration 1s: expected 2s to 1h0m0s": func(c *Config) { c.Duration = time.Second },
		"--duration 2h0m0s":                    func(c *Config) { c.Duration = 2 * time.Hour },
		"--rate 0: expected 1 to 5000":         func(c *Config) { c.Rate = 0 },
		"expected at most 1000000 requests in all": func(c *Config) {
			c.Rate, c.Duration = 5000, time.Hour
		},
		"--store postgres://x: expected sqlite:PATH": func(c *Config) {
			c.Store = "postgres://x"
		},
		"it exists already; the demo shifts the clock": func(c *Config) {
			c.Store = "sqlite:" + taken
		},
	} {
		c := good
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
}

func TestTheJanitorRemovesAFolderOfADemoAndNoOther(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for name, c := range map[string]struct {
		orders string
		stays  bool
	}{
		folderPrefix + "1": {"kill 0\n", false},
		folderPrefix + "2": {"kill 0\nkeep\n", true},
		folderPrefix + "3": {"", false},
		"somebody-else":    {"kill 0\n", true},
	} {
		dir := filepath.Join(os.TempDir(), name)
		if err := os.MkdirAll(filepath.Join(dir, "deep"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := Janitor(strings.NewReader(c.orders), dir); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) == c.stays {
			t.Errorf("%s: %v, want it to stay: %v", name, err, c.stays)
		}
	}
}

// The demo's flow is that of the example: only what its comment says is different.
func TestTheDemosFlowIsThatOfTheExample(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../examples/robots.yaml")
	if err != nil {
		t.Fatal(err)
	}
	part := func(text string) string {
		_, text, _ = strings.Cut(text, "sources:\n")
		text, _, _ = strings.Cut(text, "destinations:\n")
		return text
	}
	const most = `        max: {seq: "${body.?data.?seq}"}` + "\n"
	want := strings.NewReplacer(most, most+"        effects:\n"+
		`          - {name: tell-progress, to: wms, payload: {id: "${effect.id}", `+
		`task: "${task.id}", seq: "${task.seq}"}}`+"\n",
		"early: {park: 24h} ", "early: {park: 6d}  ",
		"busy: {wait: 10m} ", "busy: {wait: 6d}  ", `topic: "roadway/`, `path: "/roadway/`,
		`topic: "station/`, `path: "/station/`).Replace(part(string(b)))
	if got := part(plantFile); got != want || want == "" {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
