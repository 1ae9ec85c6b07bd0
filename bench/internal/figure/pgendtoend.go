package figure

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncekit/once/bench/internal/serving"
)

// pgEndToEnd finds the highest rates at which once and river keep up on one PostgreSQL: once with
// a transition and an effect of each callback, and with the robot example; river with its insert
// and a worker that does nothing.
func pgEndToEnd(ctx context.Context, b *Bench) error {
	return b.withPG(ctx, func(p *pgServer) error {
		highest, err := p.closed(ctx, "once", "/in/stored", 0, 256)
		if err != nil {
			return err
		}
		effects, err := b.sustained(ctx, p.work(single(), 0), highest.Rate)
		if err != nil {
			return err
		}
		flow, err := b.sustained(ctx, p.work(robots(false), 0), highest.Rate)
		if err != nil {
			return err
		}
		highest, err = p.closed(ctx, "river-insert", "/in/rcs", riverPool, 256)
		if err != nil {
			return err
		}
		peer, err := b.sustained(ctx, p.work(river(), riverPool), highest.Rate)
		if err != nil {
			return err
		}
		b.add("pg-end-to-end.river", effects/peer)
		b.add("pg-end-to-end.robots-river", flow/peer)
		b.add("pg-end-to-end.rate", effects)
		b.add("pg-end-to-end.robots-rate", flow)
		b.add("pg-end-to-end.river-rate", peer)
		return nil
	})
}

// work is a kind of load on databases of the server, whose rows are counted.
func (p *pgServer) work(w work, pool int) work {
	var in *database
	w.serve = func(ctx context.Context, sink string, fn func(*serving.Server) error) error {
		return p.database(ctx, func(d *database) error {
			in = d
			return d.serve(ctx, w.kind, pool, sink, fn)
		})
	}
	w.kept = func(ctx context.Context, answered int64, done bool) error {
		from := storedBy(w.kind, w.path)
		err := in.holds(ctx, from, answered)
		switch {
		case err != nil || !done:
			return err
		case w.kind == "river": // it writes in the background that jobs are done
			return in.untilHolds(ctx, from+" WHERE state = 'completed'", answered)
		}
		return in.allDone(ctx, from, answered)
	}
	return w
}

// allDone checks that all callbacks are done, and with them their effects, of which there are some.
func (d *database) allDone(ctx context.Context, from string, answered int64) error {
	const effects = "once.queue_rows WHERE kind = 2"
	all, err := d.number(ctx, "SELECT count(*) FROM "+effects)
	if err == nil && all == 0 {
		err = fmt.Errorf("no effect was stored of %d callbacks", answered)
	}
	return errors.Join(err, d.holds(ctx, from+" AND phase = 'done'", answered),
		d.holds(ctx, effects+" AND phase = 'done'", all))
}
