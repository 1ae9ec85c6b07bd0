package fill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/bench/internal/load"
	"github.com/oncekit/once/oncesqlite"
	"github.com/oncekit/once/queue"
)

// part is what is handed over together.
type part struct {
	rows []row
	err  error
}

// partRows is the size of a part.
const partRows = 4096

// Pending makes a store with n effects that wait for their destination.
func Pending(ctx context.Context, path string, n int64) error {
	return fill(ctx, path, func(p *producer) error {
		for i := range n {
			cause, err := callback(&p.plan, p.scope, i)
			if err != nil {
				return err
			}
			if err := p.add(ctx, effect(&cause)); err != nil {
				return err
			}
		}
		return nil
	})
}

// effectEvery is how many callbacks there are for each effect among the remembered.
const effectEvery = 20

// Remembered makes a store with n callbacks that are done, as the load generator sends them from
// number 0 on, and a twentieth as many effects that are done. Their bodies were swept.
func Remembered(ctx context.Context, path string, n int64) error {
	return fill(ctx, path, func(p *producer) error { return remembered(ctx, p, n) })
}

func remembered(ctx context.Context, p *producer, n int64) error {
	for i := range n {
		r, err := callback(&p.plan, p.scope, i)
		if err != nil {
			return err
		}
		if err := p.add(ctx, r); err != nil {
			return err
		}
		if i%effectEvery != 0 {
			continue
		}
		e := effect(&r)
		e.phase, e.State, e.sweep, e.completed = phaseDone, queue.Done, true, true
		e.swept, e.Meta, e.Body = true, nil, nil
		if err := p.add(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// Plan is how the load generator makes the callbacks of a filled store.
func Plan() load.Plan {
	return load.Plan{Events: load.RobotEvents(), Wave: 1024}
}

// producer makes rows while others are written.
type producer struct {
	plan  load.Plan
	scope once.Scope
	seq   int64
	rows  []row
	out   chan part
}

func (p *producer) add(ctx context.Context, r row) error {
	p.seq++
	r.Seq = p.seq
	p.rows = append(p.rows, r)
	if len(p.rows) < partRows {
		return nil
	}
	return p.flush(ctx)
}

func (p *producer) flush(ctx context.Context) error {
	rows := p.rows
	p.rows = make([]row, 0, partRows)
	select {
	case p.out <- part{rows: rows}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fill makes a store and writes what produce makes. A file that is not whole is removed.
func fill(ctx context.Context, path string, produce func(*producer) error) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("fill store: %w", err), remove(path))
		}
	}()
	s, err := oncesqlite.Open(ctx, oncesqlite.Config{Path: path})
	if err != nil {
		return err
	}
	created := s.Created()
	if err := s.Close(); err != nil {
		return err
	}
	if !created {
		return fmt.Errorf("%s is there already", path)
	}
	scope, err := scopeOf()
	if err != nil {
		return err
	}
	w, err := open(path, time.Now().Add(-24*time.Hour))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &producer{plan: Plan(), scope: scope, out: make(chan part, 4)}
	go func() {
		defer close(p.out)
		err := produce(p)
		if err == nil {
			err = p.flush(ctx)
		}
		if err != nil {
			p.out <- part{err: err} // the reader is there until this channel is closed
		}
	}()
	for part := range p.out {
		if err == nil {
			err = part.err
		}
		for i := 0; i < len(part.rows) && err == nil; i++ {
			err = w.writeRow(&part.rows[i])
		}
		if err != nil {
			cancel()
		}
	}
	if err != nil {
		return errors.Join(err, w.release())
	}
	if err := w.close(); err != nil {
		return err
	}
	return index(ctx, path)
}

// scopeOf is the scope of the keys of the source.
func scopeOf() (once.Scope, error) { return once.NewScope("source", source) }

func remove(path string) error {
	var errs []error
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
