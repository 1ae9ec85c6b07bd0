package figure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oncekit/once/bench/internal/load"
	"github.com/oncekit/once/bench/internal/serving"
)

const (
	// generators is how many load generators there are, however many nodes.
	generators = 2
	// generatorConns is how many connections each has.
	generatorConns = 128
)

// pgNodes measures one pair: one node, and two nodes on one database, under the same load by the
// same two generators: either both on the one node, or one on each. Every other pair begins with the
// two nodes.
func pgNodes(ctx context.Context, b *Bench) error {
	order := [2]int{1, 2}
	if b.pairs%2 == 1 {
		order = [2]int{2, 1}
	}
	b.pairs++
	return b.withPG(ctx, func(p *pgServer) error {
		var intake, worked [3]float64
		var err error
		for _, n := range order {
			if intake[n], err = p.nodeIntake(ctx, n); err != nil {
				return err
			}
		}
		for _, n := range order {
			if worked[n], err = p.nodeWork(ctx, n); err != nil {
				return err
			}
		}
		b.add("pg-nodes.intake", intake[2]/intake[1])
		b.add("pg-nodes.worked", worked[2]/worked[1])
		b.add("pg-nodes.intake-two", intake[2])
		b.add("pg-nodes.intake-one", intake[1])
		b.add("pg-nodes.worked-two", worked[2])
		b.add("pg-nodes.worked-one", worked[1])
		return nil
	})
}

// nodeIntake measures how many callbacks a second n nodes store that nobody works yet.
func (p *pgServer) nodeIntake(ctx context.Context, n int) (rate float64, err error) {
	const path = "/in/stored"
	err = p.database(ctx, func(d *database) error {
		var all split
		err := d.nodes(ctx, n, "", nil, func(nodes []*serving.Server) (err error) {
			all, err = p.b.loadAll(ctx, nodes, path, p.b.Warm)
			return err
		})
		if err != nil {
			return err
		}
		rate = all.rate
		p.b.logf("%d of once %-10s %6.0f/s, p99 %v", n, path, rate, short(all.p99))
		return d.holds(ctx, storedBy("once", path), all.answered)
	})
	return rate, err
}

// nodeWork measures how many callbacks a second n nodes accept and work to the end, their effects
// included: load comes for a phase, then the rest of it is worked.
func (p *pgServer) nodeWork(ctx context.Context, n int) (rate float64, err error) {
	const path = "/in/rcs"
	b, w := p.b, robots(false)
	err = b.withSink(ctx, func(sink *serving.Server) error {
		return p.database(ctx, func(d *database) error {
			return d.nodes(ctx, n, sink.Addr, nil, func(nodes []*serving.Server) error {
				begun := time.Now()
				all, err := b.loadAll(ctx, nodes, path, 0)
				if err != nil {
					return err
				}
				if err := b.allWorked(ctx, w, nodes[0], sink); err != nil {
					return err
				}
				took := time.Since(begun)
				rate = float64(all.answered) / took.Seconds()
				b.logf("%d of once %-10s %6.0f/s accepted and worked: %d in %v", n, path, rate,
					all.answered, short(took))
				from := storedBy("once", path)
				return errors.Join(d.holds(ctx, from, all.answered),
					d.allDone(ctx, from, all.answered))
			})
		})
	})
	return rate, err
}

// nodes runs fn with n nodes more than there are.
func (d *database) nodes(ctx context.Context, n int, sink string, nodes []*serving.Server,
	fn func([]*serving.Server) error) error {
	if n == 0 {
		return fn(nodes)
	}
	return d.serve(ctx, "once", 0, sink, func(s *serving.Server) error {
		return d.nodes(ctx, n-1, sink, append(nodes, s), fn)
	})
}

// split is what came of a load by several generators.
type split struct {
	rate     float64
	answered int64
	p99      time.Duration
}

// loadAll sends by all generators at the same time, to the nodes in turn.
func (b *Bench) loadAll(ctx context.Context, nodes []*serving.Server, path string,
	warm time.Duration) (all split, err error) {
	var wg sync.WaitGroup
	var results [generators]load.Result
	var errs [generators]error
	for i := range generators {
		plan := b.plan(nodes[i%len(nodes)], generatorConns)
		plan.Path, plan.Warm = path, warm
		wg.Go(func() { results[i], errs[i] = b.Load(ctx, plan) })
	}
	wg.Wait()
	for i := range results {
		r := &results[i]
		all.rate += r.Rate
		all.answered += r.Answered
		all.p99 = max(all.p99, r.P99)
		if errs[i] == nil && r.Answered == 0 {
			errs[i] = fmt.Errorf("generator %d got no answer", i+1)
		}
	}
	return all, errors.Join(errs[:]...)
}
