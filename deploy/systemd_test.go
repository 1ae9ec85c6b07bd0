package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const unitFile = "deploy/systemd/once.service"

// directives are those of systemd 252 that the unit may have: systemd.unit(5), systemd.service(5),
// systemd.exec(5), systemd.kill(5). One that systemd does not know it ignores, and with it what it
// was to forbid.
var directives = map[string][]string{
	"Unit": {"Description", "Documentation", "Wants", "After", "StartLimitIntervalSec"},
	"Service": {"Type", "ExecStart", "EnvironmentFile", "Environment", "Restart", "RestartSec",
		"RestartPreventExitStatus", "TimeoutStopSec", "LimitNOFILE", "StateDirectory",
		"StateDirectoryMode", "UMask", "DynamicUser", "ProtectSystem", "ProtectHome", "PrivateTmp",
		"PrivateDevices", "ProtectClock", "ProtectControlGroups", "ProtectHostname",
		"ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "ProtectProc",
		"AmbientCapabilities", "CapabilityBoundingSet", "NoNewPrivileges", "LockPersonality",
		"MemoryDenyWriteExecute", "RemoveIPC", "RestrictAddressFamilies", "RestrictNamespaces",
		"RestrictRealtime", "RestrictSUIDSGID", "SystemCallArchitectures", "SystemCallFilter",
		"SystemCallErrorNumber", "MemoryMax"},
	"Install": {"WantedBy"},
}

// unit reads the values of each directive.
func unit(t *testing.T) map[string][]string {
	t.Helper()
	values, section := map[string][]string{}, ""
	for i, line := range strings.Split(file(t, unitFile), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '[' {
			section = strings.Trim(line, "[]")
			continue
		}
		name, value, found := strings.Cut(line, "=")
		if !found || !slices.Contains(directives[section], name) {
			t.Errorf("line %d: [%s] has no %s", i+1, section, name)
		}
		values[name] = append(values[name], value)
	}
	return values
}

func TestTheUnitSaysWhatTheProgramUnderstands(t *testing.T) {
	t.Parallel()
	u := unit(t)
	if len(u["ExecStart"]) != 1 {
		t.Fatalf("ExecStart is %v", u["ExecStart"])
	}
	args := strings.Fields(u["ExecStart"][0])[1:]
	_, help := run(t, nil, args[0], "--help")
	for _, a := range args[1:] {
		if strings.HasPrefix(a, "--") &&
			!regexp.MustCompile(`(?m)^ .*`+regexp.QuoteMeta(a)+` `).MatchString(help) {
			t.Errorf("once %s has no %s", args[0], a)
		}
	}
	store := args[slices.Index(args, "--store")+1]
	if want := "sqlite:/var/lib/" + u["StateDirectory"][0] + "/"; !strings.HasPrefix(store, want) {
		t.Errorf("the store is %s, want it in %s", store, want)
	}
	limit, err := strconv.Atoi(u["TimeoutStopSec"][0])
	if err != nil {
		t.Fatal(err)
	}
	drain := configured(t, "internal/config/builtin.yaml").drain // the default
	if got := time.Duration(limit) * time.Second; got < drain+afterDrain {
		t.Errorf("TimeoutStopSec is %v, a drain takes up to %v", got, drain+afterDrain)
	}
}

func TestTheUnitLeavesTheProgramNothingThatItDoesNotNeed(t *testing.T) {
	t.Parallel()
	u := unit(t)
	for name, want := range map[string]string{
		"DynamicUser": "yes", "ProtectSystem": "strict", "ProtectHome": "yes",
		"NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "AmbientCapabilities": "",
		"MemoryDenyWriteExecute": "yes", "PrivateDevices": "yes", "PrivateTmp": "yes",
		"UMask": "0077", "StateDirectoryMode": "0700", "SystemCallErrorNumber": "EPERM",
	} {
		if got := u[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// A wrong file is told by status 2, after which the unit does not try again.
func TestTheUnitDoesNotTryAWrongFileAgain(t *testing.T) {
	t.Parallel()
	wrong := filepath.Join(t.TempDir(), "once.yaml")
	must(t, os.WriteFile(wrong, []byte("sources: 7\n"), 0o600))
	status, out := run(t, nil, "serve", "--config", wrong)
	if u := unit(t); !slices.Equal(u["RestartPreventExitStatus"], []string{strconv.Itoa(status)}) {
		t.Errorf("a wrong file ends with %d, the unit stops at %v:\n%s", status,
			u["RestartPreventExitStatus"], out)
	}
}

// Where systemd is installed its own word counts too. No service of it has to run.
func TestSystemdFindsNothingWrongWithTheUnit(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("there is no systemd-analyze: the other tests hold the unit alone")
		return
	}
	path := filepath.Join(t.TempDir(), "once.service")
	text := strings.ReplaceAll(file(t, unitFile), "/usr/local/bin/once", program(t))
	must(t, os.WriteFile(path, []byte(text), 0o600))
	out, err := exec.Command(analyze, "verify", path).CombinedOutput()
	if strings.Contains(string(out), "once.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	} else if err != nil { // of this machine, not of the unit
		t.Logf("systemd-analyze verify: %v\n%s", err, out)
	}
}
