package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheCommandLineSaysWhatIsWrongWithIt(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	for _, c := range []struct {
		args   string
		status int
		out    string // in the standard output
		errs   string // in the standard error
	}{
		{"", 0, "serve        Receive callbacks", ""},
		{"help", 0, "backup       Copy the store", ""},
		{"--help", 0, "version      Print the version", ""},
		{"help serve", 0, "SIGTERM or Ctrl-C ends it in order", ""},
		{"version", 0, "once version ", ""},
		{"--version", 0, "once version ", ""},
		{"config", 0, "check       Say whether", ""},
		{"serv", 2, "", `once: "serv" is no command of once; is it "serve"?`},
		{"frobnicate", 2, "", `"frobnicate" is no command of once`},
		{"--frobnicate", 2, "", "unknown flag: --frobnicate"},
		{"serve now", 2, "", `serve: "now" is one argument too many`},
		{"serve --frobnicate", 2, "", "`once serve --help` says more"},
		{"config frobnicate", 2, "", `"frobnicate" is no command of once config`},
		{"config check", 2, "", "config check: FILE is missing"},
		{"config check a b", 2, "", `"b" is one argument too many`},
		{"config check " + missing, 2, "", "no such file"},
		{"config print " + missing, 2, "", "no such file"},
		{"config print a -c b", 2, "", "two files are named"},
		{"serve --config " + missing, 2, "", "no such file"},
		{"serve --store postgres://x", 2, "", "expected sqlite:PATH"},
		{"serve --store mongodb://h", 2, "", "expected " +
			"sqlite:PATH, postgres://HOST/DATABASE or mongodb://HOST/DATABASE"},
		{"serve --store mongodb://h/shop?w=%zz", 2, "", "store mongodb://h/shop can't be used"},
		{"backup copy.db --store mongodb://u:secretword@h/shop", 2, "", "such as mongodump"},
		{"serve --store postgres://h/shop?port=none", 2, "", "store postgres://h/shop can't be " +
			"used"},
		{"backup copy.db --store postgres://u:secretword@h/shop", 2, "", "such as pg_basebackup"},
		{"serve --listen nowhere", 2, "", "expected an address"},
		{"serve --admin 0.0.0.0:0", 2, "", "expected admin.token"},
		{"init a b", 2, "", `"b" is one argument too many`},
		{"serve --clock-offset -1h", 1, "", "the store's clock never runs backwards"},
		{"callbacks discard --state parked --source= --yes --reason x", 2, "",
			"once: --source is given, and empty (a variable that isn't set?)"},
		{"callbacks list --server=", 2, "", "--server is given, and empty"},
		{"effects retry --state dead --destination= --yes --reason x", 2, "",
			"--destination is given, and empty"},
		{"tasks list --config= --flow f", 2, "", "--config is given, and empty"},
		{"serve --config=", 2, "", "--config is given, and empty"},
		{"demo now", 2, "", `"now" is no command of once demo`},
		{"demo --robots 0", 2, "", "demo: --robots 0: expected 1 to 2000\n`once demo --help` says"},
		{"demo --duration 1s", 2, "", "expected 2s to 1h0m0s"},
		{"help demo", 0, "Watch a simulated plant", ""},
		{"backup", 2, "", "backup: FILE is missing"},
		{"backup copy.db --store sqlite:" + missing, 1, "", "no such file"},
	} {
		status, out, errs := run(strings.Fields(c.args)...)
		if status != c.status || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) ||
			(c.errs == "") != (errs == "") {
			t.Errorf("once %s: status %d, want %d\nstandard output, want %q:\n%s\nstandard error, "+
				"want %q:\n%s", c.args, status, c.status, c.out, out, c.errs, errs)
		}
	}
}

func TestInitWritesAFileThatIsRightAndOverwritesNone(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "my.yaml")
	status, out, errs := run("init", file)
	if status != 0 || !strings.Contains(out, "once config check "+file) || errs != "" {
		t.Fatalf("init: status %d, %q, %q", status, out, errs)
	}
	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	status, out, errs = run("config", "check", file)
	if want := file + " is right: 1 source, 1 flow, 2 destinations\n"; status != 0 || out != want {
		t.Errorf("config check: status %d, %q, want %q, %q", status, out, want, errs)
	}
	if err := os.WriteFile(file, append(first, "# mine\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	status, _, errs = run("init", file)
	if status != 1 || !strings.Contains(errs, "exists already") {
		t.Errorf("a second init: status %d, %q", status, errs)
	}
	if b, err := os.ReadFile(file); err != nil || !strings.HasSuffix(string(b), "# mine\n") {
		t.Errorf("the file was overwritten: %v", err)
	}
}

func TestConfigCheckShowsThePlaceOfAMistake(t *testing.T) {
	t.Parallel()
	const wrong = `sources:
  rcs:
    key: ["body.id"]
    event: "body.kind +"
    to: {flow: transprt}
flows:
  transport: {task: "body.task", initial: a, final: [z], events: {go: {from: [a], to: z}}}
`
	dir := t.TempDir()
	file := filepath.Join(dir, write(t, dir, "wrong.yaml", wrong))
	status, out, errs := run("config", "check", file)
	if status != 2 || out != "" {
		t.Errorf("status %d, %q", status, out)
	}
	for _, want := range []string{
		file + ":4:", "     4 |     event: \"body.kind +\"\n",
		file + ":5:16: flow names the flow \"transprt\"", "\"transport\"",
		"     5 |     to: {flow: transprt}\n       |                ^\n",
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("it lacks %q:\n%s", want, errs)
		}
	}
}

func TestConfigPrintFillsInDefaultsAndHidesSecrets(t *testing.T) {
	t.Parallel()
	const secrets = `admin: {token: the-operators-secret}
sources:
  pay: {key: ["body.id"], auth: {bearer: the-senders-secret}, to: {http: "http://127.0.0.1:9", bearer: the-services-secret}}
destinations:
  plant: {mqtt: {url: "mqtt://127.0.0.1", username: once, password: the-brokers-secret}}
  wms: {http: {url: "http://127.0.0.1:9", headers: {X-Path: "${env:PATH}"}}}
`
	dir := t.TempDir()
	file := filepath.Join(dir, write(t, dir, "once.yaml", secrets))
	for _, args := range [][]string{
		{"config", "print", file}, {"config", "print", "--config", file},
	} {
		status, out, errs := run(args...)
		if status != 0 || errs != "" {
			t.Fatalf("status %d: %s", status, errs)
		}
		if strings.Contains(out, "-secret") || strings.Contains(out, os.Getenv("PATH")) {
			t.Errorf("it holds a secret:\n%s", out)
		}
		for _, want := range []string{`token: "***"`, `bearer: "***"`, `password: "***"`,
			`"${env:PATH}"`, "retention: 7d", "drain: 30s", "on_unknown: retry"} {
			if !strings.Contains(out, want) {
				t.Errorf("it lacks %q:\n%s", want, out)
			}
		}
	}
}

func TestTheExamplesAreRight(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "examples", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := filepath.Glob(filepath.Join(root, "examples", "*", "*.yaml"))
	if err != nil || len(files) < 2 || len(deeper) < 1 {
		t.Fatalf("examples: %v %v, %v", files, deeper, err)
	}
	for _, file := range append(files, deeper...) {
		if status, _, errs := run("config", "check", file); status != 0 {
			t.Errorf("%s: status %d: %s", file, status, errs)
		}
	}
}
