package figure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekit/once/bench/internal/serving"
	"github.com/oncekit/once/internal/testserver/postgres"
)

// pgLines are settings of the servers of PostgreSQL: memory as a small machine would give it, and no
// checkpoint in the middle of a phase because the log is short.
func pgLines() []string {
	return []string{"shared_buffers = 512MB", "max_wal_size = 8GB", "checkpoint_timeout = 15min"}
}

// pgServer is a PostgreSQL of a figure's own. Each commit is flushed.
type pgServer struct {
	b      *Bench
	server *postgres.Server
	names  int
}

// withPG runs fn with a PostgreSQL whose files are in a new folder.
func (b *Bench) withPG(ctx context.Context, fn func(*pgServer) error) (err error) {
	dir, done, err := b.fresh()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	return b.withPGIn(ctx, dir, fn)
}

// withPGIn is withPG on a folder that is kept.
func (b *Bench) withPGIn(ctx context.Context, dir string, fn func(*pgServer) error) (err error) {
	server, err := postgres.Start(postgres.Config{Durable: true, Folder: dir, Lines: pgLines()})
	if err != nil {
		return fmt.Errorf("start PostgreSQL in %s, which its user has to reach: %w", dir, err)
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	p := &pgServer{b: b, server: server}
	var fsync, commit string
	err = p.ask(ctx, "postgres", "SELECT current_setting('fsync'), "+
		"current_setting('synchronous_commit')", &fsync, &commit)
	if err != nil {
		return err
	}
	if fsync != "on" || commit != "on" {
		return fmt.Errorf("PostgreSQL has fsync %s, synchronous_commit %s, want on", fsync, commit)
	}
	return fn(p)
}

// ask asks one row of a database, or carries out a statement if into is empty.
func (p *pgServer) ask(ctx context.Context, database, sql string, into ...any) (err error) {
	conn, err := pgx.Connect(ctx, p.server.URL(database))
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if len(into) == 0 {
		_, err = conn.Exec(ctx, sql)
	} else {
		err = conn.QueryRow(ctx, sql).Scan(into...)
	}
	if err != nil {
		return fmt.Errorf("%.60q: %w", sql, err)
	}
	return nil
}

// database is one database of a server.
type database struct {
	*pgServer
	name string
}

// database runs fn with an empty database, and drops it. What was written before is flushed first,
// so that nobody pays for another one's pages.
func (p *pgServer) database(ctx context.Context, fn func(*database) error) (err error) {
	p.names++
	d := &database{p, fmt.Sprint("bench", p.names)}
	// A figure that was killed may have left one of that name in a folder that is kept.
	if err := p.ask(ctx, "postgres", "DROP DATABASE IF EXISTS "+d.name); err != nil {
		return err
	}
	if err := p.server.CreateDatabase(ctx, d.name); err != nil {
		return fmt.Errorf("create database: %w", err)
	}
	defer func() {
		err = errors.Join(err, p.ask(context.WithoutCancel(ctx), "postgres",
			"DROP DATABASE "+d.name+" WITH (FORCE)"))
	}()
	if err := p.ask(ctx, "postgres", "CHECKPOINT"); err != nil {
		return err
	}
	return fn(d)
}

// url is how to connect; pool is how many connections there are at most, 0: as many as the program
// has by itself.
func (d *database) url(pool int) string {
	url := d.server.URL(d.name)
	if pool > 0 {
		url += fmt.Sprint("&pool_max_conns=", pool)
	}
	return url
}

// serve runs fn with a server on the database. sink is the address of the destination.
func (d *database) serve(ctx context.Context, kind string, pool int, sink string,
	fn func(*serving.Server) error) error {
	return d.b.during("", func(dir string) (*serving.Server, error) {
		if kind == "once" {
			return d.b.ServeOn(ctx, dir, d.url(pool), sink)
		}
		return d.b.PeerOn(ctx, kind, d.url(pool))
	}, fn)
}

// number asks for one number.
func (d *database) number(ctx context.Context, sql string) (n int64, err error) {
	err = d.ask(ctx, d.name, sql, &n)
	return n, err
}

// holds checks how many rows the database has of what was answered.
func (d *database) holds(ctx context.Context, from string, want int64) error {
	got, err := d.number(ctx, "SELECT count(*) FROM "+from)
	if err == nil && got != want {
		err = fmt.Errorf("%d rows are in %s, and %d requests were answered", got, from, want)
	}
	return err
}

// storedBy is where a server keeps what it acknowledged to requests on a path.
func storedBy(kind, path string) string {
	switch kind {
	case "once":
		return "once.queue_rows WHERE kind = 1 AND source = '" + path[len("/in/"):] + "'"
	case "insert":
		return "callbacks"
	}
	return "river_job"
}

// untilHolds is holds for what is written behind an answer: it waits.
func (d *database) untilHolds(ctx context.Context, from string, want int64) error {
	ctx, cancel := context.WithTimeout(ctx, workedTime)
	defer cancel()
	for {
		err := d.holds(ctx, from, want)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
