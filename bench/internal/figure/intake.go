package figure

import (
	"context"
	"fmt"
	"time"

	"github.com/oncekit/once/bench/internal/load"
	"github.com/oncekit/once/bench/internal/serving"
)

func intake256(ctx context.Context, b *Bench) error {
	return b.intake(ctx, "intake-256", 256, true)
}

func intake64(ctx context.Context, b *Bench) error {
	return b.intake(ctx, "intake-64", 64, false)
}

// intake measures the same load against a handler without a store, against once with the flow at
// work beside, against once with callbacks that nobody works yet, and against the naive peer.
func (b *Bench) intake(ctx context.Context, name string, conns int, naive bool) error {
	bare, err := b.closed(ctx, "bare", "/in/rcs", conns)
	if err != nil {
		return err
	}
	flow, err := b.closed(ctx, "once", "/in/rcs", conns)
	if err != nil {
		return err
	}
	stored, err := b.closed(ctx, "once", "/in/stored", conns)
	if err != nil {
		return err
	}
	if naive {
		n, err := b.closed(ctx, "naive", "/in/rcs", conns)
		if err != nil {
			return err
		}
		b.add(name+".naive", n.Rate/bare.Rate)
		b.add(name+".naive-rate", n.Rate)
		b.add(name+".load-cpu", float64(bare.CPU)/float64(time.Microsecond))
	}
	b.add(name+".ratio", flow.Rate/bare.Rate)
	b.add(name+".stored", stored.Rate/bare.Rate)
	b.add(name+".rate", flow.Rate)
	b.add(name+".stored-rate", stored.Rate)
	b.add(name+".bare-rate", bare.Rate)
	return nil
}

// closed measures unique callbacks in a closed loop, on an empty store.
func (b *Bench) closed(ctx context.Context, kind, path string, conns int) (r load.Result,
	err error) {
	run := func(sink string) error {
		return b.with(ctx, kind, "", sink, func(s *serving.Server) error {
			p := b.plan(s, conns)
			p.Path = path
			if r, err = b.Load(ctx, p); err != nil {
				return err
			}
			b.logf("%-5s %-10s %3d connections: %6.0f/s  p50 %v  p99 %v  max %v", kind, path,
				conns, r.Rate, short(r.P50), short(r.P99), short(r.Max))
			if kind != "once" {
				return nil
			}
			return receipts(ctx, s, path, map[string]int64{"accepted": r.Answered})
		})
	}
	if kind != "once" {
		return r, run("")
	}
	err = b.withSink(ctx, func(sink *serving.Server) error { return run(sink.Addr) })
	return r, err
}

func short(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// receipts checks that the server counted as many receipts of each outcome as there were answers,
// and none of another.
func receipts(ctx context.Context, s *serving.Server, path string, want map[string]int64) error {
	m, err := s.Metrics(ctx)
	if err != nil {
		return err
	}
	source := path[len("/in/"):]
	for _, outcome := range []string{"accepted", "duplicate", "conflict", "invalid",
		"unauthorized", "unavailable"} {
		name := fmt.Sprintf("once_receipts_total{outcome=%q,source=%q}", outcome, source)
		if got := int64(m[name]); got != want[outcome] {
			return fmt.Errorf("%s: the server counted %d, the load generator %d", name, got,
				want[outcome])
		}
	}
	return nil
}

// duplicateCount is how many different callbacks are repeated.
const duplicateCount = 20_000

// duplicates repeats callbacks that were accepted and worked before.
func duplicates(ctx context.Context, b *Bench) error {
	const conns = 256
	bare, err := b.closed(ctx, "bare", "/in/rcs", conns)
	if err != nil {
		return err
	}
	return b.withSink(ctx, func(sink *serving.Server) error {
		return b.with(ctx, "once", "", sink.Addr, func(s *serving.Server) error {
			p := b.plan(s, conns)
			p.Warm, p.Measure, p.Count = 0, 0, duplicateCount
			if _, err := b.Load(ctx, p); err != nil {
				return err
			}
			if err := b.worked(ctx, s, "rcs"); err != nil {
				return err
			}
			p.Count, p.Distinct, p.Warm, p.Measure = 0, duplicateCount, b.Warm, b.Phase
			r, err := b.Load(ctx, p)
			if err != nil {
				return err
			}
			b.logf("once  %d connections: %.0f duplicates/s  p50 %v  p99 %v", conns, r.Rate,
				short(r.P50), short(r.P99))
			b.add("duplicates.ratio", r.Rate/bare.Rate)
			b.add("duplicates.rate", r.Rate)
			return receipts(ctx, s, p.Path,
				map[string]int64{"accepted": duplicateCount, "duplicate": r.Answered})
		})
	})
}

// workedTime is how long a backlog may take that a phase left.
const workedTime = 5 * time.Minute

// worked waits until no callback of a source waits, and checks that all of them are done.
func (b *Bench) worked(ctx context.Context, s *serving.Server, source string) error {
	var m serving.Metrics
	var failed error
	err := s.Until(ctx, workedTime, 50*time.Millisecond, func() bool {
		m, failed = s.Metrics(ctx)
		return failed != nil || backlog(m, source) == 0
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	if bad := m.Callbacks(source, "dead", "stale", "held", "unrouted", "discarded"); bad > 0 {
		return fmt.Errorf("%d callbacks of %s are not done but dead, stale, held or unrouted", bad,
			source)
	}
	return nil
}

// backlog is what was accepted and is not worked yet.
func backlog(m serving.Metrics, source string) int64 {
	return m.Callbacks(source, "pending", "running", "parked")
}
