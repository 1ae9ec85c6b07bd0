// Package figure measures: one file a figure, or a few that belong together. Each figure starts
// what it needs as processes of their own, checks that what was answered is right, and gives
// samples for the table.
package figure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/oncekit/once/bench/internal/load"
	"github.com/oncekit/once/bench/internal/serving"
	"github.com/oncekit/once/bench/internal/table"
)

// Bench is what figures measure with.
type Bench struct {
	serving.Programs
	// Dir is where stores are made. It should be on the disk that is to be measured.
	Dir string
	// Phase is how long one measurement takes, Long how long one does that shows whether
	// something grows, Warm how long load runs before each.
	Phase, Long, Warm time.Duration
	// Rows of the stores that are filled.
	Pending, Remembered, Parked int64
	// Probes is how often the sustained rate is halved in on.
	Probes int
	// Log gets progress.
	Log io.Writer

	samples []table.Sample
	serial  int64
	pairs   int // how many pairs of nodes were measured
}

// Figure is one thing that can be measured by its name.
type Figure struct {
	Name string
	// About says what is measured.
	About string
	// Measure carries out one run.
	Measure func(context.Context, *Bench) error
	// River is true for a figure that needs the peer of that name.
	River bool
}

// Figures are all figures, in the order of the table.
func Figures() []Figure {
	return []Figure{
		{Name: "intake-256", About: "durable intake on 256 connections", Measure: intake256},
		{Name: "intake-64", About: "durable intake on 64 connections", Measure: intake64},
		{Name: "duplicates", About: "answers to what is known", Measure: duplicates},
		{Name: "end-to-end", About: "the rate that is worked as it comes in, and river's",
			Measure: endToEnd, River: true},
		{Name: "end-to-end-dead", About: "the same with a destination that is down",
			Measure: endToEndDead},
		{Name: "end-to-end-effects", About: "the same with an effect of each callback",
			Measure: endToEndEffects},
		{Name: "latency", About: "acknowledgements beside a million rows that wait",
			Measure: latency},
		{Name: "remembered", About: "intake beside ten million identities", Measure: remembered},
		{Name: "restart", About: "ready after SIGKILL", Measure: restart},
		{Name: "parked", About: "what waits costs nothing, and is woken at once", Measure: parked},
		{Name: "pages", About: "pages of the API over ten million rows", Measure: pages},
		{Name: "pg-intake", About: "durable intake into PostgreSQL, and river's",
			Measure: pgIntake, River: true},
		{Name: "pg-end-to-end", About: "the rate that is worked as it comes in on PostgreSQL, and " +
			"river's", Measure: pgEndToEnd, River: true},
		{Name: "pg-nodes", About: "two nodes on one PostgreSQL beside one", Measure: pgNodes},
		{Name: "pg-filled", About: "intake, leases and pages beside ten million rows in PostgreSQL",
			Measure: pgFilled},
		{Name: "middleware", About: "what idempotency keys add to a handler, in process",
			Measure: middleware},
		{Name: "gateway-sqlite", About: "idempotency keys in a gateway over SQLite",
			Measure: gatewaySQLite},
		{Name: "gateway-redis", About: "idempotency keys in a gateway over Redis",
			Measure: gatewayRedis},
		{Name: "gateway-large", About: "memory of a gateway while a gigabyte goes through it",
			Measure: gatewayLarge},
		{Name: "records", About: "claims of new keys beside ten million records",
			Measure: records},
		{Name: "writes", About: "idempotent writes beside unprotected ones, and their sum over " +
			"cut connections and killed processes", Measure: writes},
	}
}

// add keeps one measured value.
func (b *Bench) add(row string, v float64) {
	b.samples = append(b.samples, table.Sample{Row: row, Value: v, At: time.Now()})
}

// Take returns the samples since the last call.
func (b *Bench) Take() []table.Sample {
	out := b.samples
	b.samples = nil
	return out
}

func (b *Bench) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(b.Log, "    "+format+"\n", args...) // progress is not worth failing for
}

// fresh makes an empty folder; done removes it.
func (b *Bench) fresh() (dir string, done func() error, err error) {
	if err := os.MkdirAll(b.Dir, 0o755); err != nil {
		return "", nil, fmt.Errorf("make folder: %w", err)
	}
	dir, err = os.MkdirTemp(b.Dir, "run-")
	if err != nil {
		return "", nil, fmt.Errorf("make folder: %w", err)
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

// numbers returns the first of many numbers that no callback had yet: not in this run, not in an
// earlier one, not in a filled store.
func (b *Bench) numbers(p *load.Plan) int64 {
	const perSecond = 100_000 // more than any server here accepts
	if b.serial == 0 {
		b.serial = time.Now().Unix() * perSecond
	}
	first := p.Align(b.serial)
	b.serial = max(first+100_000_000, time.Now().Unix()*perSecond)
	return first
}

// plan is the load that most figures use: the robot example, five events a task.
func (b *Bench) plan(s *serving.Server, conns int) load.Plan {
	p := load.Plan{
		Addr: s.Addr, Path: "/in/rcs", Conns: conns, Warm: b.Warm, Measure: b.Phase,
		Events: load.RobotEvents(), Wave: 1024, Want: `{"code":"0"`, Status: http.StatusOK,
	}
	p.First = b.numbers(&p)
	return p
}

// with runs fn with a server on a fresh folder, or on a folder that is given.
func (b *Bench) with(ctx context.Context, kind, dir, sink string,
	fn func(*serving.Server) error) error {
	return b.during(dir, func(dir string) (*serving.Server, error) {
		if kind == "once" {
			return b.Serve(ctx, dir, sink)
		}
		return b.Peer(ctx, kind, dir)
	}, fn)
}

// during runs fn with a server that start starts on a fresh folder, or on a folder that is given.
func (b *Bench) during(dir string, start func(dir string) (*serving.Server, error),
	fn func(*serving.Server) error) (err error) {
	if dir == "" {
		var done func() error
		if dir, done, err = b.fresh(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, done()) }()
	}
	s, err := start(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.end(s, dir)) }()
	return fn(s)
}

// end stops a server. One on a folder that is removed next is not asked to drain.
func (b *Bench) end(s *serving.Server, dir string) error {
	if filepath.Dir(dir) == filepath.Clean(b.Dir) && filepath.Base(dir)[:4] == "run-" {
		s.Kill()
		return nil
	}
	return s.Stop()
}

// withSink runs fn with a destination that counts.
func (b *Bench) withSink(ctx context.Context, fn func(sink *serving.Server) error) error {
	return b.with(ctx, "sink", "", "", fn)
}
