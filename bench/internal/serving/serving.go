package serving

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/oncekit/once/bench/internal/load"
	"github.com/oncekit/once/bench/internal/proc"
)

//go:embed robots.yaml
var config []byte

// Programs are the paths of the programs of a benchmark.
type Programs struct {
	// Once is the program that is measured, Self the benchmark, River the peer of that name.
	Once, Self, River string
}

// Server is a server that was started. Close it.
type Server struct {
	*proc.Process
	// Kind is "once", "river" or one of peer.Kinds.
	Kind string
	// Addr is where callbacks go, Admin where metrics and the API are.
	Addr, Admin string
	// Ready is how long it took from its start until it was ready.
	Ready time.Duration
}

// startTime is how long a server may take until it serves.
const startTime = 5 * time.Minute

// Serve starts `once serve` on the store in dir, which is made if there is none. sink is the
// address of the destination; empty: it is down.
func (p Programs) Serve(ctx context.Context, dir, sink string) (*Server, error) {
	return p.ServeOn(ctx, dir, "sqlite:"+StorePath(dir), sink)
}

// ServeOn is Serve on a store that is named as in a configuration. In dir is the configuration.
func (p Programs) ServeOn(ctx context.Context, dir, store, sink string) (*Server, error) {
	var addrs [3]string
	for i := range addrs {
		var err error
		if addrs[i], err = proc.FreeAddr(); err != nil {
			return nil, err
		}
	}
	dead := addrs[2]
	if sink == "" {
		sink = dead
	}
	file := filepath.Join(dir, "robots.yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	env := []string{"BENCH_SINK=http://" + sink + "/", "BENCH_DEAD=http://" + dead + "/"}
	s := &Server{Kind: "once", Addr: addrs[0], Admin: addrs[1]}
	return s.start(ctx, env, s.ready, p.Once, "serve", "--config", file, "--listen", s.Addr,
		"--admin", s.Admin, "--store", store)
}

// StorePath returns the store of once in a folder.
func StorePath(dir string) string { return filepath.Join(dir, "once.db") }

// Peer starts one of the peers. Its files are in dir.
func (p Programs) Peer(ctx context.Context, kind, dir string) (*Server, error) {
	return p.peer(ctx, kind, "-dir", dir)
}

// PeerOn starts one of the peers that keep what they store in a database, at a URL. That of kind
// "river" also works what it stores, that of kind "river-insert" does not.
func (p Programs) PeerOn(ctx context.Context, kind, url string) (*Server, error) {
	return p.peer(ctx, kind, "-to", url)
}

func (p Programs) peer(ctx context.Context, kind string, where ...string) (*Server, error) {
	addr, err := proc.FreeAddr()
	if err != nil {
		return nil, err
	}
	s := &Server{Kind: kind, Addr: addr, Admin: addr}
	listens := func() bool { return proc.Listens(addr) }
	args := append([]string{"-addr", addr}, where...)
	switch kind {
	case "river":
		return s.start(ctx, nil, listens, p.River, args...)
	case "river-insert":
		return s.start(ctx, nil, listens, p.River, append(args, "-work=false")...)
	}
	return s.start(ctx, nil, listens, p.Self, append([]string{"serve", "-kind", kind}, args...)...)
}

func (s *Server) start(ctx context.Context, env []string, ready func() bool, name string,
	args ...string) (_ *Server, err error) {
	begun := time.Now()
	if s.Process, err = proc.Start(env, name, args...); err != nil {
		return nil, err
	}
	const pause = 2 * time.Millisecond
	if err := s.Until(ctx, startTime, pause, ready); err != nil {
		s.Kill()
		return nil, err
	}
	s.Ready = time.Since(begun)
	return s, nil
}

// ready reports whether the operator's side says that the store can be written.
func (s *Server) ready() bool {
	client := http.Client{Timeout: time.Second}
	r, err := client.Get("http://" + s.Admin + "/readyz")
	if err != nil {
		return false
	}
	return r.Body.Close() == nil && r.StatusCode == http.StatusOK
}

// Load runs the load generator in a process of its own. Wrong replies are an error.
func (p Programs) Load(ctx context.Context, plan load.Plan) (load.Result, error) {
	result, err := p.TryLoad(ctx, plan)
	if err == nil && result.Errors > 0 {
		err = fmt.Errorf("load: %d of %d requests to %s went wrong: %s", result.Errors,
			result.Sent, plan.Path, result.FirstError)
	}
	return result, err
}

// TryLoad is Load where wrong replies are expected: they are told in the result.
func (p Programs) TryLoad(ctx context.Context, plan load.Plan) (load.Result, error) {
	var result load.Result
	cmd := exec.CommandContext(ctx, p.Self, append([]string{"load"}, plan.Args()...)...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return result, fmt.Errorf("run load: %w", err)
	}
	if err := json.Unmarshal(out, &result); err != nil {
		return result, fmt.Errorf("read result of load: %w", err)
	}
	return result, nil
}
