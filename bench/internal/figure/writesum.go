package figure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/oncekit/once/bench/internal/peer"
	"github.com/oncekit/once/bench/internal/proc"
	"github.com/oncekit/once/internal/testserver/postgres"
	"github.com/oncekit/once/oncepg"
	"github.com/oncekit/once/oncesqlite"
	"github.com/oncekit/once/write"
)

const (
	// sumWriters write at the same time, fullSum events each.
	sumWriters, fullSum = 50, 1000
	// repeated is how many of 100 events are written a second time.
	repeated = 30
	// sumRows is how many documents they share.
	sumRows = 20
	// kills is how often the process over SQLite is killed.
	kills = 8
	// meanUncut is how many events are written between two cuts, on average: cut by the clock, a
	// machine that is slow to make connections would never get to write.
	meanUncut = 400
	// sumPatience lets a call outlast the cuts.
	sumPatience = 5 * time.Minute
)

// sumEach is how many events a writer writes: fewer in a quick run.
func (b *Bench) sumEach() int {
	if b.Phase < 10*time.Second {
		return fullSum / 20
	}
	return fullSum
}

// countedWriter counts the events that are written.
type countedWriter struct {
	write.Writer
	n atomic.Int64
}

// Write counts one that was written.
func (c *countedWriter) Write(ctx context.Context, e write.Event) (write.Result, error) {
	r, err := c.Writer.Write(ctx, e)
	if err == nil {
		c.n.Add(1)
	}
	return r, err
}

// increments writes the events of all writers, some of them twice. Each event adds 1.
func increments(ctx context.Context, w write.Writer, each int) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range sumWriters {
		g.Go(func() error {
			for n := range each {
				e := write.Event{
					ID: fmt.Sprint(i, " ", n), In: "accounts", Key: fmt.Sprint((i + n) % sumRows),
					Change: write.Increment{By: write.Fields{"n": 1}},
				}
				times := 1
				if n%100 < repeated {
					times = 2
				}
				for range times {
					if r, err := w.Write(ctx, e); err != nil || r.Outcome == write.Conflict {
						return fmt.Errorf("event %s: %s: %w", e.ID, r.Outcome, err)
					}
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// wrong is by how much a sum is not what was written.
func (b *Bench) wrong(name string, sum int64) {
	off := sum - int64(sumWriters*b.sumEach())
	b.logf("%s: the sum is %d, off by %d", name, sum, off)
	b.add(name+"-wrong", float64(max(off, -off)))
}

// postgresSum writes while connections are cut at random.
func (b *Bench) postgresSum(ctx context.Context, server *postgres.Server) error {
	const name = "sum"
	if err := server.CreateDatabase(ctx, name); err != nil {
		return err
	}
	admin, err := pgxpool.New(ctx, server.URL(name))
	if err != nil {
		return err
	}
	defer admin.Close()
	if _, err := admin.Exec(ctx, accounts); err != nil {
		return err
	}
	cut, err := newCutter(server.Addr())
	if err != nil {
		return err
	}
	defer cut.close()
	pool, err := pgxpool.New(ctx, postgres.URL(cut.listener.Addr().String(), name)+
		"&pool_max_conns=16")
	if err != nil {
		return err
	}
	defer pool.Close()
	w, err := oncepg.NewWriter(pool, oncepg.WriterConfig{
		Targets: writeTargets(), Patience: sumPatience,
	})
	if err != nil {
		return err
	}
	if err := w.Open(ctx); err != nil {
		return err
	}
	stop, cutting := make(chan struct{}), sync.WaitGroup{}
	cuts := 0
	counted := &countedWriter{Writer: w}
	cutting.Go(func() {
		for next := rand.Int64N(meanUncut); ; {
			select {
			case <-stop:
				return
			case <-time.After(rand.N(10 * time.Millisecond)):
				if n := counted.n.Load(); n >= next {
					next = n + rand.Int64N(2*meanUncut)
					cuts += cut.cut()
				}
			}
		}
	})
	err = increments(ctx, counted, b.sumEach())
	close(stop)
	cutting.Wait()
	if err != nil {
		return err
	}
	b.logf("%d connections were cut", cuts)
	var sum int64
	if err := admin.QueryRow(ctx, "SELECT sum(n)::bigint FROM accounts").Scan(&sum); err != nil {
		return err
	}
	b.wrong("writes.pg", sum)
	return nil
}

// SQLiteIncrements writes the events into a file.
func SQLiteIncrements(ctx context.Context, path string, each int) (err error) {
	db, err := peer.OpenDB(ctx, "sqlite3", path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	w, err := oncesqlite.NewWriter(db, oncesqlite.WriterConfig{
		Targets: writeTargets(), Patience: sumPatience,
	})
	if err != nil {
		return err
	}
	if err := w.Open(ctx); err != nil {
		return err
	}
	return increments(ctx, w, each)
}

// sqliteSum writes in a process that is killed again and again.
func (b *Bench) sqliteSum(ctx context.Context, dir string) (err error) {
	path := filepath.Join(dir, "sum.db")
	db, err := peer.OpenDB(ctx, "sqlite3", path)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, accounts)
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	for n := 0; ; n++ {
		p, err := proc.Start(nil, b.Self, "increments", "-file", path,
			"-each", fmt.Sprint(b.sumEach()))
		if err != nil {
			return err
		}
		if n < kills {
			select {
			case <-ctx.Done():
				p.Kill()
				return ctx.Err()
			case <-p.Done():
			case <-time.After(300*time.Millisecond + rand.N(2*time.Second)):
				p.Kill()
				continue
			}
		}
		if err := p.Wait(ctx); err != nil {
			return err
		}
		break
	}
	if db, err = peer.OpenDB(ctx, "sqlite3", path); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var sum int64
	if err := db.QueryRowContext(ctx, "SELECT sum(n) FROM accounts").Scan(&sum); err != nil {
		return err
	}
	b.wrong("writes.sqlite", sum)
	return nil
}

// cutter carries connections to a server until they are cut.
type cutter struct {
	listener net.Listener
	target   string

	mu   sync.Mutex
	open map[net.Conn]net.Conn
}

func newCutter(target string) (*cutter, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &cutter{listener: listener, target: target, open: map[net.Conn]net.Conn{}}
	go c.serve()
	return c, nil
}

func (c *cutter) serve() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return // closed
		}
		server, err := net.Dial("tcp", c.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		c.mu.Lock()
		c.open[client] = server
		c.mu.Unlock()
		go c.carry(server, client, client)
		go c.carry(client, server, client)
	}
}

// carry copies one way; the end of either way ends both.
func (c *cutter) carry(to, from, client net.Conn) {
	_, _ = io.Copy(to, from) // however it ended
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = to.Close(), from.Close()
	delete(c.open, client)
}

// cut ends all connections and returns how many there were.
func (c *cutter) cut() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.open)
	for client, server := range c.open {
		_, _ = client.Close(), server.Close()
		delete(c.open, client) // it is counted once
	}
	return n
}

func (c *cutter) close() {
	_ = c.listener.Close()
	c.cut()
}
