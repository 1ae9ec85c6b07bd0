package figure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekit/once/bench/internal/load"
	"github.com/oncekit/once/bench/internal/serving"
)

// gatewayConns is how many clients a gateway has.
const gatewayConns = 256

// front starts what stands before an origin, on an empty store, and runs fn with it.
type front func(ctx context.Context, origin string, fn func(*serving.Server) error) error

// traffic is a kind of requests.
type traffic string

const (
	unguarded traffic = "no key"
	firsts    traffic = "first requests"
	replays   traffic = "replays"
)

func gatewaySQLite(ctx context.Context, b *Bench) error {
	plain, err := b.through(ctx, "proxy", b.proxyFront, unguarded)
	if err != nil {
		return err
	}
	b.add("gateway-sqlite.proxy-rate", plain.Rate)
	b.add("gateway-sqlite.load-cpu", micros(plain.CPU))
	open, err := b.gateway(ctx, "gateway-sqlite.", b.sqliteFront)
	if err != nil {
		return err
	}
	b.add("gateway-sqlite.proxy", open/plain.Rate)
	return nil
}

func gatewayRedis(ctx context.Context, b *Bench) error {
	_, err := b.gateway(ctx, "gateway-redis.", b.redisFront(serving.FsyncSecond))
	if err == nil {
		_, err = b.gateway(ctx, "gateway-redis.always-", b.redisFront(serving.FsyncAlways))
	}
	return err
}

// gateway measures a gateway with requests that bear no key, with first requests and with replays,
// and returns the rate of the first kind. The rows begin with a prefix.
func (b *Bench) gateway(ctx context.Context, rows string, f front) (float64, error) {
	var rates [3]float64
	var cpu [3]time.Duration
	for i, kind := range []traffic{unguarded, firsts, replays} {
		r, err := b.through(ctx, strings.TrimRight(rows, ".-"), f, kind)
		if err != nil {
			return 0, err
		}
		rates[i], cpu[i] = r.Rate, r.serverCPU
	}
	b.add(rows+"first", rates[1]/rates[0])
	b.add(rows+"replay", rates[2]/rates[0])
	b.add(rows+"rate", rates[0])
	b.add(rows+"first-rate", rates[1])
	b.add(rows+"replay-rate", rates[2])
	b.add(rows+"cpu", micros(cpu[0]))
	b.add(rows+"first-cpu", micros(cpu[1]))
	b.add(rows+"replay-cpu", micros(cpu[2]))
	return rates[0], nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// passed is what came of requests through a front, and what they took of its processor time, each.
type passed struct {
	load.Result
	serverCPU time.Duration
}

func (b *Bench) proxyFront(ctx context.Context, origin string,
	fn func(*serving.Server) error) error {
	s, err := b.Proxy(ctx, origin)
	if err != nil {
		return err
	}
	defer s.Kill()
	return fn(s)
}

func (b *Bench) sqliteFront(ctx context.Context, origin string,
	fn func(*serving.Server) error) error {
	return b.gatewayOn(ctx, origin, "", fn)
}

func (b *Bench) redisFront(f serving.Fsync) front {
	return func(ctx context.Context, origin string, fn func(*serving.Server) error) (err error) {
		dir, done, err := b.fresh()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, done()) }()
		return b.withRedis(ctx, dir, f, func(redis *serving.Server, _ *redis.Client) error {
			return b.gatewayOn(ctx, origin, redis.Addr, fn)
		})
	}
}

func (b *Bench) gatewayOn(ctx context.Context, origin, redis string,
	fn func(*serving.Server) error) (err error) {
	dir, done, err := b.fresh()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	s, err := b.Gateway(ctx, dir, origin, redis)
	if err != nil {
		return err
	}
	defer s.Kill()
	return fn(s)
}

// through sends requests of a kind through a front to an origin of their own.
func (b *Bench) through(ctx context.Context, name string, f front, kind traffic) (r passed,
	err error) {
	err = b.with(ctx, "origin", "", "", func(origin *serving.Server) error {
		return f(ctx, origin.Addr, func(s *serving.Server) error {
			r, err = b.send(ctx, s, origin, kind)
			if err == nil {
				b.logf("%-20s %-14s %6.0f/s  p50 %v  p99 %v, %.0f µs of CPU each", name, kind,
					r.Rate, short(r.P50), short(r.P99), micros(r.serverCPU))
			}
			return err
		})
	})
	return r, err
}

// send sends requests of a kind, and checks that the origin ran as often as it should have.
func (b *Bench) send(ctx context.Context, s, origin *serving.Server, kind traffic) (passed,
	error) {
	p := b.plan(s, gatewayConns)
	p.Path, p.Want, p.Status, p.Header = "/orders", `{"id":`, http.StatusCreated, "X-Account: 17"
	p.Events, p.Keyed = []string{"finish"}, kind != unguarded
	before := int64(0)
	if kind == replays {
		known := p
		known.Warm, known.Measure, known.Count = 0, 0, duplicateCount
		r, err := b.Load(ctx, known)
		if err != nil {
			return passed{}, err
		}
		before, p.Distinct = r.Answered, duplicateCount
	}
	r, err := b.loadOf(ctx, s, p)
	if err != nil {
		return r, err
	}
	runs, replayed := r.Answered, int64(0)
	if kind == replays {
		runs, replayed = before, r.Answered
	}
	m, err := origin.Metrics(ctx)
	if err != nil {
		return r, err
	}
	if got := int64(m["origin_orders_total"]); got != runs || r.Replayed != replayed {
		return r, fmt.Errorf("%s: of %d answers %d were replays, want %d; the origin ran %d "+
			"times, want %d", kind, r.Answered, r.Replayed, replayed, got, runs)
	}
	if s.Kind == "proxy" {
		return r, nil
	}
	want := map[string]int64{"unguarded": runs}
	if kind != unguarded {
		want = map[string]int64{"first": runs, "replay": replayed}
	}
	return r, outcomes(ctx, s, want)
}

// loadOf carries a plan out and looks at the processor time of the server.
func (b *Bench) loadOf(ctx context.Context, s *serving.Server, p load.Plan) (r passed, err error) {
	before, err := s.CPU()
	if err != nil {
		return r, err
	}
	if r.Result, err = b.Load(ctx, p); err != nil {
		return r, err
	}
	after, err := s.CPU()
	r.serverCPU = (after - before) / time.Duration(max(r.Answered, 1))
	return r, err
}

// outcomes checks that the gateway counted as many requests of each outcome as there were, and none
// of another.
func outcomes(ctx context.Context, s *serving.Server, want map[string]int64) error {
	m, err := s.Metrics(ctx)
	if err != nil {
		return err
	}
	for _, outcome := range []string{"first", "replay", "unguarded", "fail-open", "held",
		"mismatch", "in-flight", "store-unavailable"} {
		name := fmt.Sprintf("once_requests_total{outcome=%q,route=\"POST /\"}", outcome)
		if got := int64(m[name]); got != want[outcome] {
			return fmt.Errorf("%s: the gateway counted %d, the load generator %d", name, got,
				want[outcome])
		}
	}
	return nil
}
