package deploy_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncekit/once/internal/testserver"
)

// served serves a configuration as a pod does, but on free ports and with a store of its own.
func served(t *testing.T, c container, config string, env ...string) *process {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, config))
	must(t, err)
	args := slices.Clone(c.Args)
	for i, a := range args {
		args[i] = strings.Replace(a, "/etc/once/once.yaml", path, 1)
	}
	args = append(args, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store",
		"sqlite:once.db")
	cmd := exec.Command(program(t), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "ONCE_ADMIN_TOKEN="+token)
	for _, e := range c.Env {
		if e.Value != "" {
			cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	return serve(t, cmd)
}

func TestTheInboxesConfigurationServesAndItsProbesAreAnswered(t *testing.T) {
	t.Parallel()
	d := deployments(t)[0]
	p := served(t, d.container(t), d.config())
	p.probes(d.container(t))
	for range 2 {
		if status, body := ask(t, "POST", p.senders+"/in/rcs", callback); status != 200 {
			t.Errorf("a callback is answered %d: %s", status, body)
		}
	}
	bearer := []string{"Authorization", "Bearer " + token}
	testserver.Until(t, patience, "the callback is done", func() bool {
		_, text := ask(t, "GET", p.admin+"/metrics", "", bearer...)
		return strings.Contains(text, `once_callbacks{source="rcs",state="done"} 1`+"\n") &&
			strings.Contains(text, `once_receipts_total{outcome="duplicate",source="rcs"} 1`+"\n")
	})
	// The names by which the services lead to it are accepted; others are not.
	for host, want := range map[string]int{"once-admin:8081": 200, "other:8081": 403} {
		status, _ := ask(t, "GET", p.admin+"/metrics", "", append(bearer, "Host", host)...)
		if status != want {
			t.Errorf("as %s the metrics are answered %d, want %d", host, status, want)
		}
	}
	p.end()
}

// probes asks what the kubelet asks: without the token.
func (p *process) probes(c container) {
	p.t.Helper()
	for name, probe := range map[string]probe{"startup": c.StartupProbe,
		"liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
		path := map[string]string{"readiness": "/readyz"}[name]
		if path == "" {
			path = "/healthz"
		}
		if probe.HTTPGet.Path != path || probe.HTTPGet.Port != "admin" {
			p.t.Errorf("the %s probe asks %+v", name, probe.HTTPGet)
		}
		if status, body := ask(p.t, "GET", p.admin+probe.HTTPGet.Path, ""); status != 200 {
			p.t.Errorf("the %s probe is answered %d: %s", name, status, body)
		}
	}
}

func TestGatewaysOverOneRedisRunAKeyOnceWhicheverIsAsked(t *testing.T) {
	t.Parallel()
	var ran atomic.Int64
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		ran.Add(1)
		w.WriteHeader(http.StatusCreated)
	}))
	defer api.Close()
	redis := testserver.Redis(t, "appendonly yes")
	d := deployments(t)[1]
	env := []string{"ONCE_UPSTREAM=" + api.URL, "ONCE_RECORDS=redis://" + redis.Addr() + "/0"}
	first, second := served(t, d.container(t), d.config(), env...),
		served(t, d.container(t), d.config(), env...)
	for _, p := range []*process{first, second, first} {
		p.probes(d.container(t))
		// The host is part of what was asked: clients know all pods by one name.
		if status, body := ask(t, "POST", p.senders+"/payments", `{"amount":1}`, "Host",
			"pay.example", "Idempotency-Key", "order-1", "X-Account-Id",
			"a1"); status != http.StatusCreated {
			t.Errorf("the request is answered %d: %s", status, body)
		}
	}
	if n := ran.Load(); n != 1 {
		t.Errorf("the API was asked %d times", n)
	}
	// Without its records a gateway is taken out of the balancers, and is not started again.
	redis.Kill()
	testserver.Until(t, patience, "the gateway is not ready", func() bool {
		status, _ := ask(t, "GET", first.admin+"/readyz", "")
		return status == http.StatusServiceUnavailable
	})
	if status, _ := ask(t, "GET", first.admin+"/healthz", ""); status != http.StatusOK {
		t.Errorf("a Redis that is away would restart the pod: %d", status)
	}
	first.end()
	second.end()
}
