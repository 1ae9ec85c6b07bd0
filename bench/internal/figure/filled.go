package figure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/oncekit/once/bench/internal/fill"
	"github.com/oncekit/once/bench/internal/load"
	"github.com/oncekit/once/bench/internal/serving"
)

// filled returns the folder of a large store. It is made once and kept for later runs, since making
// it takes minutes.
func (b *Bench) filled(ctx context.Context, name string, rows int64,
	make func(context.Context, string, int64) error) (string, error) {
	stamp, err := fill.Stamp(ctx)
	if err != nil {
		return "", err
	}
	return b.kept(name, rows, stamp, func(dir string) error {
		return make(ctx, serving.StorePath(dir), rows)
	})
}

// kept returns a folder that make has filled under this stamp, now or before.
func (b *Bench) kept(name string, rows int64, stamp string, make func(dir string) error) (string,
	error) {
	dir := filepath.Join(b.Dir, fmt.Sprintf("%s-%d", name, rows))
	whole := filepath.Join(dir, "whole")
	if b, err := os.ReadFile(whole); err == nil && string(b) == stamp {
		return dir, nil
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	begun := time.Now()
	b.logf("filling %s with %d rows, once", dir, rows)
	if err := make(dir); err != nil {
		return "", err
	}
	b.logf("filled in %v", time.Since(begun).Round(time.Second))
	return dir, os.WriteFile(whole, []byte(stamp), 0o644)
}

// pendingStore is a store with effects that wait for a destination that is down.
func (b *Bench) pendingStore(ctx context.Context) (string, error) {
	return b.filled(ctx, "pending", b.Pending, fill.Pending)
}

// rememberedStore is a store with callbacks that are done and whose bodies were swept.
func (b *Bench) rememberedStore(ctx context.Context) (string, error) {
	return b.filled(ctx, "remembered", b.Remembered, fill.Remembered)
}

// latencyRate is the rate of the open loop, in callbacks a second.
const latencyRate = 2000

// latency measures one pair: the answers of an empty store, and those of one in which rows wait for
// a destination that is down.
func latency(ctx context.Context, b *Bench) error {
	dir, err := b.pendingStore(ctx)
	if err != nil {
		return err
	}
	var empty, pending load.Result
	err = b.withSink(ctx, func(sink *serving.Server) error {
		return b.with(ctx, "once", "", sink.Addr, func(s *serving.Server) (err error) {
			empty, err = b.answers(ctx, s, "empty store")
			return err
		})
	})
	if err != nil {
		return err
	}
	err = b.with(ctx, "once", dir, "", func(s *serving.Server) error {
		if err := enough(ctx, s, b.Pending); err != nil {
			return err
		}
		pending, err = b.answers(ctx, s, fmt.Sprintf("%d rows wait", b.Pending))
		return err
	})
	if err != nil {
		return err
	}
	b.add("latency.ratio", float64(pending.P99)/float64(empty.P99))
	b.add("latency.pending", ms(pending.P99))
	b.add("latency.empty", ms(empty.P99))
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// enough checks that the server counts the rows that wait.
func enough(ctx context.Context, s *serving.Server, want int64) error {
	m, err := s.Metrics(ctx)
	if err != nil {
		return err
	}
	if got := m.Effects("wms", "pending", "sending"); got < want {
		return fmt.Errorf("%d effects wait, want %d", got, want)
	}
	return nil
}

// answers measures the answers at a constant rate.
func (b *Bench) answers(ctx context.Context, s *serving.Server, name string) (load.Result, error) {
	p := b.plan(s, 256)
	p.Rate, p.Measure = latencyRate, b.Long
	r, err := b.Load(ctx, p)
	if err != nil {
		return r, err
	}
	b.logf("%-18s %d/s for %v: p50 %v  p99 %v  p99.9 %v  max %v", name, latencyRate, b.Long,
		short(r.P50), short(r.P99), short(r.P999), short(r.Max))
	return r, receipts(ctx, s, p.Path, map[string]int64{"accepted": r.Answered})
}

// remembered measures intake on a store that remembers many callbacks, beside an empty one, and how
// much memory the first takes.
func remembered(ctx context.Context, b *Bench) error {
	dir, err := b.rememberedStore(ctx)
	if err != nil {
		return err
	}
	empty, err := b.closed(ctx, "once", "/in/stored", 256)
	if err != nil {
		return err
	}
	return b.with(ctx, "once", dir, "", func(s *serving.Server) error {
		if err := b.knows(ctx, s); err != nil {
			return err
		}
		p := b.plan(s, 256)
		p.Path = "/in/stored"
		watch, stop := context.WithCancel(ctx)
		most := make(chan int64, 1)
		go func() { most <- highestMemory(watch, s, 250*time.Millisecond) }()
		r, err := b.Load(ctx, p)
		stop()
		memory := <-most
		if err != nil {
			return err
		}
		b.logf("once  %d remembered: %.0f/s  p99 %v  %d MB", b.Remembered, r.Rate, short(r.P99),
			memory/1e6)
		b.add("remembered.ratio", r.Rate/empty.Rate)
		b.add("remembered.memory", float64(memory)/1e6)
		b.add("remembered.rate", r.Rate)
		b.add("remembered.empty-rate", empty.Rate)
		return receipts(ctx, s, p.Path, map[string]int64{"accepted": r.Answered})
	})
}

// knows checks that the store takes what was written into it for callbacks that it accepted.
func (b *Bench) knows(ctx context.Context, s *serving.Server) error {
	const count = 1000
	p := fill.Plan()
	p.Addr, p.Path, p.Conns, p.Want, p.Count = s.Addr, "/in/rcs", 8, `{"code":"0"`, count
	p.Status = http.StatusOK
	p.First = p.Align(b.Remembered / 2)
	if _, err := b.Load(ctx, p); err != nil {
		return err
	}
	m, err := s.Metrics(ctx)
	if err != nil {
		return err
	}
	// Those of the filled store that are unrouted carry another event: five of a thousand.
	const least = count - 10
	if got := m[`once_receipts_total{outcome="duplicate",source="rcs"}`]; got < least {
		return fmt.Errorf("%.0f of %d callbacks of the filled store are known as duplicates", got,
			count)
	}
	return nil
}

// highestMemory returns the most memory that a server took until ctx ended, looking at it with a
// pause between.
func highestMemory(ctx context.Context, s *serving.Server, pause time.Duration) int64 {
	most := int64(0)
	for {
		if n, err := s.Memory(); err == nil {
			most = max(most, n)
		}
		select {
		case <-ctx.Done():
			return most
		case <-time.After(pause):
		}
	}
}

// restart kills a server under load and measures until the next one is ready.
func restart(ctx context.Context, b *Bench) error {
	dir, err := b.pendingStore(ctx)
	if err != nil {
		return err
	}
	s, err := b.Serve(ctx, dir, "")
	if err != nil {
		return err
	}
	defer s.Kill()
	p := b.plan(s, 64)
	p.Rate, p.Warm, p.Measure = latencyRate, 0, b.Phase
	killed := time.AfterFunc(b.Phase/2, s.Kill)
	defer killed.Stop()
	r, err := b.TryLoad(ctx, p)
	if err != nil {
		return err
	}
	if r.Errors == 0 {
		return errors.New("the load generator did not notice that the server was killed")
	}
	return b.with(ctx, "once", dir, "", func(s *serving.Server) error {
		again := p
		again.Addr, again.Rate, again.Conns, again.Count, again.Measure = s.Addr, 0, 1, 1, 0
		again.First = b.numbers(&again)
		begun := time.Now()
		if _, err := b.Load(ctx, again); err != nil {
			return err
		}
		accepted := s.Ready + time.Since(begun)
		b.logf("ready after %v, a callback accepted after %v", short(s.Ready), short(accepted))
		b.add("restart.ready", s.Ready.Seconds())
		b.add("restart.accepted", accepted.Seconds())
		return enough(ctx, s, b.Pending)
	})
}
