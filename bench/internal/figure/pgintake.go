package figure

import (
	"context"

	"github.com/oncekit/once/bench/internal/load"
	"github.com/oncekit/once/bench/internal/serving"
)

// insertPools are the sizes of the pools of which the best counts.
func insertPools() []int { return []int{8, 16, 32, 64} }

// riverPool is how many connections river has: with 16 and 64 it was no faster.
const riverPool = 32

// pgIntake measures the same load against a handler without a store, and against once, an INSERT
// and COMMIT a request, and river's insert, each on an empty database of one PostgreSQL.
func pgIntake(ctx context.Context, b *Bench) error {
	const conns = 256
	return b.withPG(ctx, func(p *pgServer) error {
		bare, err := b.closed(ctx, "bare", "/in/rcs", conns)
		if err != nil {
			return err
		}
		stored, err := p.closed(ctx, "once", "/in/stored", 0, conns)
		if err != nil {
			return err
		}
		best := load.Result{}
		for _, pool := range insertPools() {
			r, err := p.closed(ctx, "insert", "/in/rcs", pool, conns)
			if err != nil {
				return err
			}
			if r.Rate > best.Rate {
				best = r
			}
		}
		flow, err := p.closed(ctx, "once", "/in/rcs", 0, conns)
		if err != nil {
			return err
		}
		river, err := p.closed(ctx, "river-insert", "/in/rcs", riverPool, conns)
		if err != nil {
			return err
		}
		b.add("pg-intake.insert", stored.Rate/best.Rate)
		b.add("pg-intake.bare", stored.Rate/bare.Rate)
		b.add("pg-intake.river", stored.Rate/river.Rate)
		b.add("pg-intake.flow-insert", flow.Rate/best.Rate)
		b.add("pg-intake.flow-bare", flow.Rate/bare.Rate)
		b.add("pg-intake.flow-river", flow.Rate/river.Rate)
		b.add("pg-intake.rate", stored.Rate)
		b.add("pg-intake.flow-rate", flow.Rate)
		b.add("pg-intake.insert-rate", best.Rate)
		b.add("pg-intake.river-rate", river.Rate)
		b.add("pg-intake.bare-rate", bare.Rate)
		return nil
	})
}

// closed measures unique callbacks in a closed loop, on an empty database. Then it kills the server
// and looks whether what was answered is in the database.
func (p *pgServer) closed(ctx context.Context, kind, path string, pool, conns int) (
	r load.Result, err error) {
	b := p.b
	run := func(sink string) error {
		return p.database(ctx, func(d *database) error {
			err := d.serve(ctx, kind, pool, sink, func(s *serving.Server) error {
				plan := b.plan(s, conns)
				plan.Path = path
				if r, err = b.Load(ctx, plan); err != nil {
					return err
				}
				b.logf("%-12s %-10s pool %2d, %3d connections: %6.0f/s  p50 %v  p99 %v  max %v",
					kind, path, pool, conns, r.Rate, short(r.P50), short(r.P99), short(r.Max))
				if kind != "once" {
					return nil
				}
				return receipts(ctx, s, path, map[string]int64{"accepted": r.Answered})
			})
			if err != nil {
				return err
			}
			return d.holds(ctx, storedBy(kind, path), r.Answered)
		})
	}
	if kind != "once" {
		return r, run("")
	}
	err = b.withSink(ctx, func(sink *serving.Server) error { return run(sink.Addr) })
	return r, err
}
