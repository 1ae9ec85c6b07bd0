package figure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/oncekit/once"
	"github.com/oncekit/once/bench/internal/fill"
	"github.com/oncekit/once/bench/internal/serving"
	"github.com/oncekit/once/oncepg"
	"github.com/oncekit/once/queue"
)

const (
	// leaseLane is where the rows are that are leased: no node works it.
	leaseLane = "bench"
	// leaseRows is how many rows are stored, leased and settled in turn, leaseMax how many a lease
	// takes.
	leaseRows, leaseMax = 2048, 256
)

// pgFilled measures intake, leases and pages of the API on tables with many rows, beside those on an
// empty database of the same server.
func pgFilled(ctx context.Context, b *Bench) error {
	stamp, err := fill.PostgresStamp()
	if err != nil {
		return err
	}
	const name = "filled"
	dir, err := b.kept("pg-remembered", b.Remembered, stamp, func(dir string) error {
		return b.withPGIn(ctx, dir, func(p *pgServer) error {
			if err := p.server.CreateDatabase(ctx, name); err != nil {
				return fmt.Errorf("create database: %w", err)
			}
			return fill.Postgres(ctx, p.server.URL(name), b.Remembered)
		})
	})
	if err != nil {
		return err
	}
	return b.withPGIn(ctx, dir, func(p *pgServer) error {
		full := &database{p, name}
		if err := full.askPages(ctx); err != nil {
			return err
		}
		var intake, leases [2]float64
		err := p.database(ctx, func(empty *database) (err error) {
			for i, d := range []*database{empty, full} {
				if leases[i], err = d.leases(ctx); err != nil {
					return err
				}
				if intake[i], err = d.intake(ctx); err != nil {
					return err
				}
				b.logf("%-8s intake %6.0f/s, leases %6.0f/s", d.name, intake[i], leases[i])
			}
			return nil
		})
		if err != nil {
			return err
		}
		b.add("pg-filled.intake", intake[1]/intake[0])
		b.add("pg-filled.lease", leases[1]/leases[0])
		b.add("pg-filled.rate", intake[1])
		b.add("pg-filled.empty-rate", intake[0])
		b.add("pg-filled.lease-rate", leases[1])
		b.add("pg-filled.empty-lease-rate", leases[0])
		return nil
	})
}

// askPages checks that a node takes the rows for its own, and asks it for lists.
func (d *database) askPages(ctx context.Context) error {
	return d.serve(ctx, "once", 0, "", func(s *serving.Server) error {
		if err := d.b.knows(ctx, s); err != nil {
			return err
		}
		slowest, median, err := d.b.askPages(ctx, s)
		if err == nil {
			d.b.add("pg-filled.slowest", slowest)
			d.b.add("pg-filled.median", median)
		}
		return err
	})
}

// intake measures callbacks that nobody works yet, and checks that they are stored beside those that
// are there.
func (d *database) intake(ctx context.Context) (rate float64, err error) {
	const path = "/in/stored"
	var before, answered int64
	from := storedBy("once", path)
	err = d.serve(ctx, "once", 0, "", func(s *serving.Server) error {
		if before, err = d.number(ctx, "SELECT count(*) FROM "+from); err != nil {
			return err
		}
		plan := d.b.plan(s, 256)
		plan.Path = path
		r, err := d.b.Load(ctx, plan)
		rate, answered = r.Rate, r.Answered
		return err
	})
	if err != nil {
		return 0, err
	}
	return rate, d.holds(ctx, from, before+answered)
}

// leases measures how many rows a second one worker leases, by a store in this process. That rows
// are stored and settled beside is not counted.
func (d *database) leases(ctx context.Context) (rate float64, err error) {
	pool, err := pgxpool.New(ctx, d.url(8))
	if err != nil {
		return 0, fmt.Errorf("open database: %w", err)
	}
	defer pool.Close()
	s, err := oncepg.NewStore(pool, oncepg.StoreConfig{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Open(ctx); err != nil {
		return 0, err
	}
	from := storedBy("once", "/in/"+leaseLane) + " AND phase = 'done'"
	before, err := d.number(ctx, "SELECT count(*) FROM "+from)
	if err != nil {
		return 0, err
	}
	first := time.Now().UnixNano() // no earlier row has come so far
	rows, spent := int64(0), time.Duration(0)
	for begun := time.Now(); time.Since(begun) < d.b.Warm+d.b.Phase; {
		if err := storeRows(ctx, s, first+rows); err != nil {
			return 0, err
		}
		took, err := leaseAll(ctx, s)
		if err != nil {
			return 0, err
		}
		spent += took
		rows += leaseRows
	}
	return float64(rows) / spent.Seconds(), d.holds(ctx, from, before+rows)
}

// storeRows stores rows to be leased, with the numbers from first on.
func storeRows(ctx context.Context, s queue.Appender, first int64) error {
	scope, err := once.NewScope("bench", leaseLane)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for from := first; from < first+leaseRows; from += leaseMax {
		g.Go(func() error {
			list := make([]queue.Arrival, leaseMax)
			for i := range list {
				key, err := once.KeyOf(fmt.Sprint(from + int64(i)))
				if err != nil {
					return err
				}
				id, err := once.Identify(scope, key)
				if err != nil {
					return err
				}
				list[i] = queue.Arrival{Identity: id, Kind: queue.Callback, State: queue.Pending,
					Lane: leaseLane, Source: leaseLane, Event: "lease", Key: key.Strings(),
					Body: []byte(`{"n":1}`), Meta: []byte("{}"), Retention: 24 * time.Hour}
			}
			_, err := s.Append(ctx, list)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("store rows: %w", err)
	}
	return nil
}

// leaseAll leases all rows there are and returns how long that took. Then it settles them.
func leaseAll(ctx context.Context, s queue.Leaser) (time.Duration, error) {
	var all []queue.Settlement
	begun := time.Now()
	for len(all) < leaseRows {
		got, err := s.Lease(ctx, queue.LeaseRequest{Lane: leaseLane, Max: leaseMax,
			For: 5 * time.Minute})
		if err != nil {
			return 0, fmt.Errorf("lease: %w", err)
		}
		if len(got.Rows) == 0 {
			return 0, fmt.Errorf("lease: %d of %d rows were due", len(all), leaseRows)
		}
		for i := range got.Rows {
			all = append(all, queue.Settlement{Grant: got.Rows[i].Grant(), State: queue.Done})
		}
	}
	took := time.Since(begun)
	if err := errors.Join(s.Settle(ctx, all)...); err != nil {
		return 0, fmt.Errorf("settle: %w", err)
	}
	return took, nil
}
