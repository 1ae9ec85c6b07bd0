package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// composed is what compose.yaml may say, of the Compose specification.
type composed struct {
	Services map[string]struct {
		Profiles    []string
		Build       *struct{ Context, Dockerfile string }
		Image       string
		Command     []string
		Environment map[string]string
		ExtraHosts  []string `yaml:"extra_hosts"`
		Ports       []string
		Volumes     []string
		Tmpfs       []string
		DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
		Healthcheck struct {
			Test              []string
			Interval, Timeout string
			Retries           int
			StartPeriod       string `yaml:"start_period"`
		}
		Restart         string
		StopGracePeriod string   `yaml:"stop_grace_period"`
		ReadOnly        bool     `yaml:"read_only"`
		CapDrop         []string `yaml:"cap_drop"`
		SecurityOpt     []string `yaml:"security_opt"`
		MemLimit        string   `yaml:"mem_limit"`
	}
	Volumes map[string]struct{}
}

func compose(t *testing.T) (c composed) {
	t.Helper()
	strict(t, "compose.yaml", file(t, "deploy/compose.yaml"), &c)
	return c
}

func TestComposeGivesTheProgramWhatItsConfigurationNames(t *testing.T) {
	t.Parallel()
	all, known := compose(t), variables(t)
	for name, config := range map[string]string{"once": inboxFile, "gateway": gatewayFile} {
		c, s := all.Services[name], configured(t, config)
		targets := []string{}
		for _, p := range c.Ports {
			targets = append(targets, port(p))
			if port(p) == s.admin && !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s shows the operator's port to everybody: %s", name, p)
			}
		}
		if want := []string{s.listen, s.admin}; !slices.Equal(targets, want) {
			t.Errorf("%s: the ports are %v, want %v", name, targets, want)
		}
		for v := range c.Environment {
			if !known[v] && !slices.Contains(s.env, v) {
				t.Errorf("%s: nobody reads %s", name, v)
			}
		}
		for _, v := range s.env {
			if _, ok := c.Environment[v]; !ok {
				t.Errorf("%s: the configuration takes %s, which is not given", name, v)
			}
		}
		limit, err := time.ParseDuration(c.StopGracePeriod)
		if err != nil || limit < s.drain+afterDrain {
			t.Errorf("%s has %s for an end of up to %v", name, c.StopGracePeriod,
				s.drain+afterDrain)
		}
		if !slices.Contains(c.Volumes, "./"+strings.TrimPrefix(config, "deploy/")+
			":/etc/once/once.yaml:ro") {
			t.Errorf("%s: the configuration is not among %v", name, c.Volumes)
		}
		if !c.ReadOnly || !slices.Equal(c.CapDrop, []string{"ALL"}) ||
			!slices.Equal(c.SecurityOpt, []string{"no-new-privileges:true"}) ||
			!slices.Equal(c.Tmpfs, []string{"/tmp:mode=1777"}) {
			t.Errorf("%s has more rights than it needs: %+v", name, c)
		}
		by := filepath.Join(root, "deploy", c.Build.Context, c.Build.Dockerfile)
		if !exists(by) {
			t.Errorf("%s is built by %s, which is not there", name, by)
		}
	}
}

func TestComposesVolumesAreDeclaredAndItsFilesExist(t *testing.T) {
	t.Parallel()
	all := compose(t)
	used := map[string]bool{}
	for name, c := range all.Services {
		for _, v := range c.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(from, ".") {
				if !exists(filepath.Join(root, "deploy", from)) {
					t.Errorf("%s: there is no %s", name, from)
				}
				continue
			}
			used[from] = true
			if _, ok := all.Volumes[from]; !ok {
				t.Errorf("%s: there is no volume %s", name, from)
			}
		}
		for other := range c.DependsOn {
			if _, ok := all.Services[other]; !ok {
				t.Errorf("%s waits for %s, which is not there", name, other)
			}
		}
	}
	if len(used) != len(all.Volumes) {
		t.Errorf("declared are %v, used %v", all.Volumes, used)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// The health check is a command of the image's program: there is no shell and no curl in it.
func TestComposesHealthCheckAsksTheServer(t *testing.T) {
	t.Parallel()
	d := deployments(t)[0]
	p := served(t, d.container(t), d.config())
	for name, c := range compose(t).Services {
		if c.Build == nil {
			continue
		}
		test := c.Healthcheck.Test
		if len(test) < 2 || test[0] != "CMD" || test[1] != lastStage(t).entry[0] {
			t.Fatalf("%s: the image has no %v", name, test)
		}
		// In the container the server is where the command looks by itself.
		env := []string{"ONCE_TOKEN=" + token, "ONCE_SERVER=" + p.admin}
		if status, out := run(t, env, test[2:]...); status != 0 {
			t.Errorf("of a good server %v says %d: %s", test, status, out)
		}
		if status, _ := run(t, []string{"ONCE_SERVER=" + p.admin}, test[2:]...); status == 0 {
			t.Errorf("%v needs no token", test)
		}
		if _, ok := c.Environment["ONCE_TOKEN"]; !ok {
			t.Errorf("%s: the health check has no token", name)
		}
		env[1] = "ONCE_SERVER=http://127.0.0.1:1"
		if status, _ := run(t, env, test[2:]...); status != 5 {
			t.Errorf("of no server %v says %d, want 5", test, status)
		}
	}
}

// What Redis is asked for is what the gateway wants of it.
func TestComposesRedisKeepsWhatItAcknowledges(t *testing.T) {
	t.Parallel()
	args := strings.Join(compose(t).Services["redis"].Command, " ")
	for _, want := range []string{"--appendonly yes", "--maxmemory-policy noeviction"} {
		if !strings.Contains(args, want) {
			t.Errorf("redis is not started with %s: %s", want, args)
		}
	}
}

// A token that is missing ends `up` with a message, not with a server that nobody may ask.
func TestComposeWantsAToken(t *testing.T) {
	t.Parallel()
	must := regexp.MustCompile(`^\$\{ONCE_ADMIN_TOKEN:\?.+\}$`)
	for name, c := range compose(t).Services {
		if c.Build != nil && !must.MatchString(c.Environment["ONCE_ADMIN_TOKEN"]) {
			t.Errorf("%s: the token is %s", name, c.Environment["ONCE_ADMIN_TOKEN"])
		}
	}
}
