package serving

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/oncekit/once/bench/internal/proc"
)

//go:embed gateway.yaml
var gatewayConfig string

// Gateway starts `once serve` as a gateway before an origin, HOST:PORT, on a store in dir. redis is
// the address of the Redis that keeps the records; empty: the store does.
func (p Programs) Gateway(ctx context.Context, dir, origin, redis string) (*Server, error) {
	s := &Server{Kind: "gateway"}
	var err error
	for _, addr := range []*string{&s.Addr, &s.Admin} {
		if *addr, err = proc.FreeAddr(); err != nil {
			return nil, err
		}
	}
	text := gatewayConfig
	if redis != "" {
		text = strings.Replace(text, "  routes:", "  records: redis://"+redis+"\n  routes:", 1)
	}
	file := filepath.Join(dir, "gateway.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	return s.start(ctx, []string{"BENCH_ORIGIN=http://" + origin}, s.ready, p.Once, "serve",
		"--config", file, "--listen", s.Addr, "--admin", s.Admin, "--store",
		"sqlite:"+StorePath(dir))
}

// Proxy starts the standard library's reverse proxy before an origin.
func (p Programs) Proxy(ctx context.Context, origin string) (*Server, error) {
	addr, err := proc.FreeAddr()
	if err != nil {
		return nil, err
	}
	s := &Server{Kind: "proxy", Addr: addr}
	return s.start(ctx, nil, func() bool { return proc.Listens(addr) }, p.Self, "serve", "-kind",
		s.Kind, "-addr", addr, "-to", "http://"+origin)
}
