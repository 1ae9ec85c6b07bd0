package figure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekit/once"
	"github.com/oncekit/once/bench/internal/fill"
	"github.com/oncekit/once/bench/internal/proc"
	"github.com/oncekit/once/bench/internal/serving"
	"github.com/oncekit/once/onceredis"
	"github.com/oncekit/once/oncesqlite"
)

const (
	// fewRecords is the size of the small store.
	fewRecords = 10_000
	// claimants is how many claims are on their way at once.
	claimants = 64
)

// records measures claims of new identities on a store with many records and on one with few.
func records(ctx context.Context, b *Bench) error {
	if err := b.claimCost(ctx, "records.sqlite", b.sqliteClaims); err != nil {
		return err
	}
	return b.claimCost(ctx, "records.redis", b.redisClaims)
}

// claimCost measures the small store, the large one, and the small one again, since both ends of a
// run may differ.
func (b *Bench) claimCost(ctx context.Context, name string,
	measure func(context.Context, int64) (claimed, error)) error {
	var all [3]claimed
	for i, n := range []int64{fewRecords, b.Remembered, fewRecords} {
		var err error
		if all[i], err = measure(ctx, n); err != nil {
			return err
		}
		b.logf("%s: %d records: %.0f claims/s, %.1f µs of CPU each", name, n, all[i].rate,
			all[i].cpu)
	}
	few, fewCPU := (all[0].rate+all[2].rate)/2, (all[0].cpu+all[2].cpu)/2
	b.add(name, few/all[1].rate)
	b.add(name+"-rate", all[1].rate)
	b.add(name+"-few-rate", few)
	b.add(name+"-cpu", all[1].cpu)
	b.add(name+"-few-cpu", fewCPU)
	return nil
}

// claimed is what came of claims: how many a second, and the processor time of each in µs, with
// that of a server.
type claimed struct{ rate, cpu float64 }

// sqliteClaims claims on a SQLite store with n records; one with few records is made anew.
func (b *Bench) sqliteClaims(ctx context.Context, n int64) (c claimed, err error) {
	dir, done, err := b.recordFolder(ctx, n)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, done()) }()
	s, err := oncesqlite.Open(ctx, oncesqlite.Config{Path: serving.StorePath(dir), NoCreate: true})
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return b.claims(ctx, s.Records(), n, proc.OwnCPU)
}

func (b *Bench) recordFolder(ctx context.Context, n int64) (dir string, done func() error,
	err error) {
	if n != fewRecords {
		dir, err = b.filled(ctx, "records", n, fill.Records)
		return dir, func() error { return nil }, err
	}
	if dir, done, err = b.fresh(); err != nil {
		return "", nil, err
	}
	if err := fill.Records(ctx, serving.StorePath(dir), n); err != nil {
		return "", nil, errors.Join(err, done())
	}
	return dir, done, nil
}

// redisClaims is sqliteClaims for Redis, with an append-only file that is flushed once a second.
func (b *Bench) redisClaims(ctx context.Context, n int64) (c claimed, err error) {
	dir, done, err := b.redisFolder(ctx, n)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, done()) }()
	err = b.withRedis(ctx, dir, serving.FsyncSecond, func(server *serving.Server,
		client *redis.Client) error {
		s, err := onceredis.New(client, onceredis.Config{})
		if err == nil {
			err = s.Open(ctx)
		}
		if err != nil {
			return err
		}
		c, err = b.claims(ctx, s, n, func() (time.Duration, error) {
			own, err1 := proc.OwnCPU()
			its, err2 := server.CPU()
			return own + its, errors.Join(err1, err2)
		})
		return err
	})
	return c, err
}

// redisFolder returns the folder of a Redis with n records: a large one is kept.
func (b *Bench) redisFolder(ctx context.Context, n int64) (dir string, done func() error,
	err error) {
	fillRedis := func(ctx context.Context, store string, n int64) error {
		return b.withRedis(ctx, filepath.Dir(store), serving.FsyncNone,
			func(_ *serving.Server, client *redis.Client) error {
				return fill.RedisRecords(ctx, client, n)
			})
	}
	if n != fewRecords {
		dir, err = b.filled(ctx, "records-redis", n, fillRedis)
		if err == nil {
			err = b.checkRedis(ctx, dir, n)
		}
		if errors.Is(err, errLayout) { // the stamp of a SQLite store doesn't tell
			b.logf("%v: it is filled anew", err)
			if err = os.RemoveAll(dir); err == nil {
				dir, err = b.filled(ctx, "records-redis", n, fillRedis)
			}
		}
		return dir, func() error { return nil }, err
	}
	if dir, done, err = b.fresh(); err != nil {
		return "", nil, err
	}
	if err := fillRedis(ctx, serving.StorePath(dir), n); err != nil {
		return "", nil, errors.Join(err, done())
	}
	return dir, done, nil
}

// errLayout: a filled store is not what the present code writes.
var errLayout = errors.New("records were written by other code")

// checkRedis checks that the records of a kept folder are such as are written now.
func (b *Bench) checkRedis(ctx context.Context, dir string, n int64) error {
	return b.withRedis(ctx, dir, serving.FsyncSecond, func(_ *serving.Server,
		client *redis.Client) error {
		s, err := onceredis.New(client, onceredis.Config{})
		if err != nil {
			return err
		}
		if err := fill.Known(ctx, s, n); err != nil {
			return fmt.Errorf("%w: %w", errLayout, err)
		}
		return nil
	})
}

// withRedis runs fn with a Redis on a folder, and ends it in order.
func (b *Bench) withRedis(ctx context.Context, dir string, f serving.Fsync,
	fn func(*serving.Server, *redis.Client) error) (err error) {
	s, err := b.Redis(ctx, dir, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	client := redis.NewClient(&redis.Options{Addr: s.Addr, PoolSize: claimants,
		ContextTimeoutEnabled: true, ReadTimeout: time.Minute})
	defer func() { err = errors.Join(err, client.Close()) }()
	return fn(s, client)
}

// claims checks that the records of a store are its own, and claims new identities. cpu tells the
// processor time that was used so far.
func (b *Bench) claims(ctx context.Context, s once.Store, n int64,
	cpu func() (time.Duration, error)) (claimed, error) {
	if err := fill.Known(ctx, s, n); err != nil {
		return claimed{}, err
	}
	before, err := cpu()
	if err != nil {
		return claimed{}, err
	}
	var next, measured, made atomic.Int64
	next.Store(time.Now().UnixNano()) // no filled record and no earlier run has come so far
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	from := time.Now().Add(b.Warm)
	to := from.Add(b.Phase)
	var all sync.WaitGroup
	for range claimants {
		all.Go(func() {
			for ctx.Err() == nil && time.Now().Before(to) {
				grant, err := s.Claim(ctx, fill.Claim(next.Add(1)))
				if err == nil && grant.Attempt != 1 {
					err = fmt.Errorf("it is attempt %d", grant.Attempt)
				}
				if err != nil {
					cancel(fmt.Errorf("claim a new identity: %w", err))
					return
				}
				made.Add(1)
				if time.Now().After(from) {
					measured.Add(1)
				}
			}
		})
	}
	all.Wait()
	took := time.Since(from) // with those that were on their way in the end
	if err := context.Cause(ctx); err != nil {
		return claimed{}, err
	}
	after, err := cpu()
	return claimed{
		rate: float64(measured.Load()) / took.Seconds(),
		cpu:  float64((after - before).Microseconds()) / float64(made.Load()),
	}, err
}
