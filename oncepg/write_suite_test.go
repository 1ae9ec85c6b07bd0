package oncepg_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/oncekit/once/oncepg"
	"github.com/oncekit/once/write"
	"github.com/oncekit/once/write/writetest"
)

func TestWriter(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	writetest.Run(t, func(t *testing.T) writetest.Harness {
		p, w := s.fresh(t)
		return writetest.Harness{Writer: w, Second: open(t, p, config()), Read: read(p)}
	})
}

// G04: where the database's own default is SERIALIZABLE, no error of it surfaces either.
func TestWriterWhereSerializableIsTheDefaultG04(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	writetest.Run(t, func(t *testing.T) writetest.Harness {
		url := s.url(t)
		p := pool(t, url+"&default_transaction_isolation=serializable")
		return writetest.Harness{
			Writer: open(t, p, config()), Second: open(t, p, config()), Read: read(pool(t, url)),
		}
	}, "K03", "B01", "B04", "B06", "Newer/Race", "Batch")
}

func TestWriterOverDatabaseSQL(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	writetest.Run(t, func(t *testing.T) writetest.Harness {
		p, _ := s.fresh(t)
		w, err := oncepg.NewWriterSQL(openSQL(t, p.Config().ConnString()), config())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		return writetest.Harness{Writer: w, Second: w, Read: read(p)}
	}, "Insert", "Upsert", "Increment", "Append", "Transition", "Newer", "Repeat", "Refused",
		"Batch", "K03", "B01", "Random")
}

func openSQL(t *testing.T, url string) *sql.DB {
	t.Helper()
	conf, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*conf)
	db.SetMaxOpenConns(8)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// committing writes each call in a transaction of its own, as a caller would, who goes on after an
// error and commits.
type committing struct {
	begin func(ctx context.Context) (write.Writer, func() error, error)
}

func (c committing) Write(ctx context.Context, e write.Event) (r write.Result, err error) {
	w, commit, err := c.begin(ctx)
	if err != nil {
		return r, err
	}
	if r, err = w.Write(ctx, e); ctx.Err() != nil {
		_ = commit()
		return r, err
	}
	if committed := commit(); err == nil {
		err = committed
	}
	return r, err
}

func (c committing) WriteAll(
	ctx context.Context, events []write.Event,
) (rs []write.Result, err error) {
	w, commit, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	if rs, err = w.WriteAll(ctx, events); ctx.Err() != nil {
		_ = commit()
		return nil, err
	}
	if committed := commit(); err == nil {
		err = committed
	}
	return rs, err
}

// G03: a caller's transaction can go on after whatever its events came to.
func TestWriterInACallersTransactionG03(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	writetest.Run(t, func(t *testing.T) writetest.Harness {
		p, w := s.fresh(t)
		c := committing{func(ctx context.Context) (write.Writer, func() error, error) {
			tx, err := p.Begin(ctx)
			if err != nil {
				return nil, nil, err
			}
			return w.WithTx(tx), func() error { return tx.Commit(context.WithoutCancel(ctx)) }, nil
		}}
		return writetest.Harness{Writer: c, Second: c, Read: read(p)}
	})
}

func TestWriterInACallersTransactionOfDatabaseSQL(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	writetest.Run(t, func(t *testing.T) writetest.Harness {
		p, w := s.fresh(t)
		db := openSQL(t, p.Config().ConnString())
		c := committing{func(ctx context.Context) (write.Writer, func() error, error) {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return nil, nil, err
			}
			return w.WithSQLTx(tx), tx.Commit, nil
		}}
		return writetest.Harness{Writer: c, Second: c, Read: read(p)}
	}, "Insert", "Transition", "Newer/Numbers", "Repeat", "Refused", "Batch", "K03", "Random")
}
