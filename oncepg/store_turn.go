package oncepg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once/internal/turn"
)

const (
	// endLimit bounds the undoing of a transaction, whatever became of its batch.
	endLimit = 5 * time.Second
	// doubtLimit bounds how long it is asked what became of a commit.
	doubtLimit = 30 * time.Second
	// doubtPause is the wait between two questions what became of a commit.
	doubtPause = 50 * time.Millisecond
)

// errInDoubt is a commit of which nobody can say whether it happened.
var errInDoubt = errors.New("the answer to the commit was lost")

// storeTx is a transaction that has the turn. It is the [turn.Stored] of its batch.
type storeTx struct {
	s       *Store
	ctx     context.Context
	conn    *pgxpool.Conn
	n       int64 // the number of the last commit of all nodes
	state   turn.State
	now     turn.Stamp
	highest int64
	has     turn.Snapshot
	wrote   bool // a handler may have written into it
}

var _ turn.Stored = (*storeTx)(nil)

// begin waits for the turn. The database takes it back from a process that does nothing with it for
// so long that it must be frozen.
func (s *Store) begin(ctx context.Context) (_ *storeTx, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	tx := &storeTx{s: s, ctx: ctx, conn: conn}
	raw := conn.Conn().PgConn().Conn()
	s.holding.Store(&raw)
	defer func() {
		if err != nil {
			tx.end()
		}
	}()
	var state []byte
	var last int64
	var now time.Time
	var batch pgx.Batch
	batch.Queue(beginSQL)
	s.queueSettings(&batch, s.sql.lookups)
	batch.Queue(s.sql.turn).QueryRow(func(r pgx.Row) error { return r.Scan(&tx.n, &state) })
	batch.Queue(s.sql.highest).QueryRow(func(r pgx.Row) error { return r.Scan(&last, &now) })
	// After the numbers: who gave one of them had begun by then.
	batch.Queue(snapshotSQL).QueryRow(func(r pgx.Row) error {
		return r.Scan(&tx.has.Oldest, &tx.has.Next)
	})
	if err := conn.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(state, &tx.state); err != nil {
		return nil, fmt.Errorf("read the turn: %w", err)
	}
	tx.now, tx.highest = turn.StampOf(now), last*2+1
	if s.cfg.Now != nil {
		tx.now = turn.StampOf(s.cfg.Now())
	}
	return tx, nil
}

// end undoes a transaction that was not committed and gives its connection back.
func (tx *storeTx) end() {
	if tx.conn == nil {
		return
	}
	conn := tx.conn
	tx.conn = nil
	tx.s.holding.Store(nil)
	defer conn.Release() // one that is in a transaction is closed by it
	if conn.Conn().IsClosed() || conn.Conn().PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tx.ctx), endLimit)
	defer cancel()
	if _, err := conn.Exec(ctx, "ROLLBACK", pgx.QueryExecModeSimpleProtocol); err != nil {
		_ = conn.Conn().Close(ctx) // then the database undoes it
	}
}

// commit writes what a batch makes of the tables, all in one round trip.
func (tx *storeTx) commit(t *turn.Batch) error {
	s := tx.s
	state, changed := t.State()
	if !changed && !t.Changed() && !tx.wrote {
		return nil // end undoes what is nothing
	}
	text, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("write the turn: %w", err)
	}
	var batch pgx.Batch
	if err := s.sql.write(&batch, t); err != nil {
		return err
	}
	batch.Queue(s.sql.setTurn, string(text))
	s.commits++
	batch.Queue(s.sql.setNode, s.node, s.commits, tx.now.Time())
	batch.Queue("COMMIT")
	err = sure(tx.ctx, tx.conn.Conn(), func() error {
		return tx.conn.SendBatch(tx.ctx, &batch).Close()
	})
	if err == nil || codeOf(err) == codeIdleTransaction ||
		codeOf(err) != "" && !tx.conn.Conn().IsClosed() {
		return err // the database refused what was sent: nothing of it was committed
	}
	// The answer was lost, or the standby may not have what was committed: to do it again, where it
	// was done, would do it twice.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tx.ctx), doubtLimit)
	defer cancel()
	_ = tx.conn.Conn().Close(ctx) // so that the database ends it
	tx.end()
	return s.resolve(ctx, err)
}

// ask reads the number of this node's last commit, with a write behind the answer.
func (s *Store) ask(ctx context.Context, n *int64) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return sure(ctx, conn.Conn(), func() error {
		return conn.QueryRow(ctx, s.sql.askNode, s.node).Scan(n)
	})
}

// resolve finds out whether this node's last commit happened, whose answer was lost. What is asked
// waits for the transaction, should it be under way still, and is a write: once it has its answer,
// what it says is as durable as any commit.
func (s *Store) resolve(ctx context.Context, cause error) error {
	if s.killed.Load() {
		return errStoreKilled
	}
	s.cfg.Logger.Warn("the answer to a commit was lost; asking what became of it", "error", cause)
	for {
		var n int64
		err := s.ask(ctx, &n)
		switch {
		case err == nil && n == s.commits:
			return nil
		case err == nil && n >= 0:
			return cause // it did not happen, and never will
		case err == nil || errors.Is(err, pgx.ErrNoRows): // others took this node for lost
			return fmt.Errorf("%w: %w", errInDoubt, cause)
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w; ask whether it happened: %w", errInDoubt, cause, err)
		}
		timer := time.NewTimer(doubtPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}
