package deploy_test

import (
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// instruction is one of a Containerfile.
type instruction struct{ name, args string }

// containerfile reads the instructions; their long lines are joined.
func containerfile(t *testing.T) (all []instruction) {
	t.Helper()
	text := regexp.MustCompile(`\\\n`).ReplaceAllString(file(t, "deploy/Containerfile"), " ")
	known := []string{"FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "VOLUME", "EXPOSE",
		"ENTRYPOINT", "CMD"}
	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, args, _ := strings.Cut(line, " ")
		if !slices.Contains(known, name) {
			t.Fatalf("%s is no instruction that this test knows", name)
		}
		all = append(all, instruction{name, strings.TrimSpace(args)})
	}
	return all
}

// buildLine is the command that makes the program.
func buildLine(lines []instruction) string {
	for _, l := range lines {
		if l.name == "RUN" && strings.Contains(l.args, "go build") {
			return l.args
		}
	}
	return ""
}

// image is the last stage.
type image struct {
	from, user, dir string
	copies          map[string]string // from the first stage, by where to
	owners          map[string]string
	entry, cmd      []string
	env             map[string]string
	ports           []string
}

func lastStage(t *testing.T) *image {
	t.Helper()
	im := &image{copies: map[string]string{}, owners: map[string]string{},
		env: map[string]string{}}
	words := func(args string) (list []string) {
		if err := json.Unmarshal([]byte(args), &list); err != nil {
			t.Fatalf("%s: %v: a shell would be needed, and there is none", args, err)
		}
		return list
	}
	for _, l := range containerfile(t) {
		f := strings.Fields(l.args)
		switch l.name {
		case "FROM":
			*im = image{from: f[0], copies: map[string]string{}, owners: map[string]string{},
				env: map[string]string{}}
		case "COPY":
			to := f[len(f)-1]
			im.copies[to] = f[len(f)-2]
			for _, flag := range f[:len(f)-2] {
				if owner, ok := strings.CutPrefix(flag, "--chown="); ok {
					im.owners[to] = owner
				}
			}
		case "RUN":
			if im.from == "scratch" {
				t.Errorf("nothing can be run in an empty image: %s", l.args)
			}
		case "USER":
			im.user = l.args
		case "WORKDIR":
			im.dir = l.args
		case "ENV":
			name, value, _ := strings.Cut(l.args, "=")
			im.env[name] = value
		case "EXPOSE":
			im.ports = f
		case "ENTRYPOINT":
			im.entry = words(l.args)
		case "CMD":
			im.cmd = words(l.args)
		}
	}
	return im
}

func TestTheImageHoldsTheProgramAndRunsItWithoutRoot(t *testing.T) {
	t.Parallel()
	im := lastStage(t)
	if im.from != "scratch" {
		t.Errorf("the image begins with %s", im.from)
	}
	id, group, _ := strings.Cut(im.user, ":")
	if n, err := strconv.Atoi(id); err != nil || n == 0 || group != id {
		t.Errorf("the user is %q, want a number that isn't root's, and its group", im.user)
	}
	if len(im.entry) != 1 || im.copies[im.entry[0]] != "/out/once" {
		t.Errorf("the program %v is not what was built: %v", im.entry, im.copies)
	}
	if im.dir != "/var/lib/once" || im.owners[im.dir] != im.user {
		t.Errorf("the folder of the store, %s, belongs to %q", im.dir, im.owners[im.dir])
	}
	if im.env["ONCE_STORE"] != "sqlite:"+im.dir+"/once.db" {
		t.Errorf("the store is %s", im.env["ONCE_STORE"])
	}
	if im.copies["/etc/ssl/certs/ca-certificates.crt"] == "" {
		t.Error("there are no certificates of authorities: nothing is reached over TLS")
	}
	s := configured(t, inboxFile)
	if want := []string{s.listen, s.admin}; !slices.Equal(im.ports, want) {
		t.Errorf("the image exposes %v, want %v", im.ports, want)
	}
}

// The compiler of the image is at least what the module asks for.
func TestTheImagesCompilerIsNewEnough(t *testing.T) {
	t.Parallel()
	want := regexp.MustCompile(`(?m)^go 1\.(\d+)`).FindStringSubmatch(file(t, "go.mod"))
	got := regexp.MustCompile(`golang:1\.(\d+)-`).FindStringSubmatch(containerfile(t)[0].args)
	if want == nil || got == nil || got[1] != want[1] {
		t.Errorf("the image is built with %v, the module wants %v", got, want)
	}
}

func TestTheImagesProgramIsStatic(t *testing.T) {
	t.Parallel()
	path := program(t)
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the program needs a dynamic linker")
		}
	}
	if libs, err := f.ImportedLibraries(); err != nil || len(libs) > 0 {
		t.Errorf("the program needs %v, %v", libs, err)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range info.Settings {
		if s.Key == "CGO_ENABLED" && s.Value != "0" {
			t.Error("the program was built with cgo")
		}
	}
	if status, out := run(t, nil, "--version"); status != 0 ||
		!strings.HasPrefix(out, "once version ") {
		t.Errorf("once --version: status %d: %s", status, out)
	}
}

// The program in a folder that has what the image has, seen as the root of the file system. It can
// write its state and /tmp there, and nothing else. Only root may change the root: others run it as
// it is.
func TestTheImagesProgramServesWithNothingElseAroundItAndAReadOnlyRoot(t *testing.T) {
	t.Parallel()
	im := lastStage(t)
	dir := filepath.Join(t.TempDir(), "root")
	id, err := strconv.Atoi(strings.Split(im.user, ":")[0])
	if err != nil {
		t.Fatal(err)
	}
	asRoot := os.Geteuid() == 0
	inside := map[string]string{im.entry[0]: program(t),
		"/etc/once/once.yaml": filepath.Join(root, inboxFile)}
	for to, from := range inside {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, to), b, 0o755))
	}
	for _, to := range []string{im.dir, "/tmp"} {
		must(t, os.MkdirAll(filepath.Join(dir, to), 0o755))
		if asRoot {
			must(t, os.Chown(filepath.Join(dir, to), id, id))
		}
	}
	before := tree(t, dir, im.dir)

	args := append(slices.Clone(im.cmd), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	cmd := exec.Command(im.entry[0], args...)
	cmd.Env = []string{"ONCE_ADMIN_TOKEN=" + token}
	for name, value := range im.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if asRoot {
		cmd.Dir = im.dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir,
			Credential: &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}}
	} else {
		t.Log("not root: the program sees the whole file system")
		cmd.Path, cmd.Dir = program(t), filepath.Join(dir, im.dir)
		for i, a := range cmd.Args {
			cmd.Args[i] = strings.Replace(a, "/etc/once", filepath.Join(dir, "/etc/once"), 1)
		}
		cmd.Env = append(cmd.Env, "ONCE_STORE=sqlite:once.db")
	}
	p := serve(t, cmd)
	if status, body := ask(t, "POST", p.senders+"/in/rcs", callback); status != 200 {
		t.Errorf("a callback is answered %d: %s", status, body)
	}
	p.end()
	if after := tree(t, dir, im.dir); !slices.Equal(before, after) {
		t.Errorf("beside its state it has written: before %v, after %v", before, after)
	}
	if _, err := os.Stat(filepath.Join(dir, im.dir, "once.db")); err != nil {
		t.Error(err)
	}
}

// callback is one for the source of the inbox's configuration.
const callback = `{"reqCode":"R-1","taskCode":"T-1","callbackMethod":"startFE",` +
	`"data":{"roadway":"R7"}}`

// tree lists all files below a folder but those of its state.
func tree(t *testing.T, dir, state string) (names []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		name := strings.TrimPrefix(path, dir)
		if !strings.HasPrefix(name, state+"/") {
			names = append(names, name)
		}
		return err
	}))
	return names
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
