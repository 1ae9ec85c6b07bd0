package oncesqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/oncekit/once/queue"
)

// What a Commit left open would be closed by database/sql when its context ends, beside whatever
// the store does by then with the same connection. The race detector sees it.
func TestWhatACommitLeavesOpenIsClosedBeforeTheStoreGoesOn(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db")})
	const rows = 60
	for i := range rows {
		mustAppend(t, s, callback(fmt.Sprint(i)))
	}
	leave := []func(context.Context, queue.Tx) error{
		func(ctx context.Context, tx queue.Tx) error {
			return tx.QueryRowContext(ctx, "SELECT seq FROM rows ORDER BY seq").Err()
		},
		func(ctx context.Context, tx queue.Tx) error {
			list, err := tx.QueryContext(ctx, "SELECT seq FROM rows ORDER BY seq")
			if err == nil {
				list.Next()
			}
			return err
		},
	}
	for i, row := range mustLease(t, s, testLane, rows) {
		mustSettle(t, s, row, queue.Settlement{State: queue.Done, Commit: leave[i%len(leave)]})
	}
	checkFile(t, s)
}

func TestARowOfACommitIsWhatTheQuerySays(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db")})
	mustAppend(t, s, callback("a"))
	var late queue.Tx
	mustSettle(t, s, mustLease(t, s, testLane, 1)[0], queue.Settlement{State: queue.Done,
		Commit: func(ctx context.Context, tx queue.Tx) error {
			late = tx
			var (
				n    int64
				f    float64
				text string
				blob []byte
				null sql.NullString
			)
			err := tx.QueryRowContext(ctx, "SELECT ?, 1.5, 'x', x'00ff', NULL UNION ALL "+
				"SELECT 8, 2.5, 'y', x'01', 'z'", 7).Scan(&n, &f, &text, &blob, &null)
			got := fmt.Sprintf("%v %v %v %v %v %v", n, f, text, blob, null.Valid, err)
			if want := "7 1.5 x [0 255] false <nil>"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			none := tx.QueryRowContext(ctx, "SELECT 1 WHERE 0").Scan(&n)
			if !errors.Is(none, sql.ErrNoRows) {
				t.Errorf("no row: %v", none)
			}
			if err := tx.QueryRowContext(ctx, "SELECT 1 FROM nothing").Scan(&n); err == nil {
				t.Error("a table that is not there: no error")
			}
			if err := tx.QueryRowContext(ctx, "COMMIT").Scan(&n); !errors.Is(err, errEndsTx) {
				t.Errorf("the end of the transaction: %v", err)
			}
			return nil
		}})
	if err := late.QueryRowContext(t.Context(), "SELECT 1").Err(); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("after Commit: %v, want %v", err, sql.ErrTxDone)
	}
}

// A handler that gives up at its limit leaves a statement behind that still runs.
func TestAStatementThatACommitLeftBehindEndsBeforeTheStoreGoesOn(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db"),
		CommitTimeout: 20 * time.Millisecond})
	const long = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n " +
		"LIMIT 100000000) INSERT INTO meta SELECT 'x' || i, i FROM n"
	for i := range 10 {
		mustAppend(t, s, callback(fmt.Sprint(i)))
		left := make(chan error, 2)
		row := mustLease(t, s, testLane, 1)[0]
		err := s.Settle(t.Context(), []queue.Settlement{{Grant: row.Grant(), State: queue.Done,
			Commit: func(ctx context.Context, tx queue.Tx) error {
				go func() {
					_, err := tx.ExecContext(context.Background(), long)
					left <- err
					left <- tx.QueryRowContext(context.Background(), "SELECT 1").Scan(new(int))
				}()
				<-ctx.Done()
				return ctx.Err()
			}}})[0]
		var failed *queue.CommitError
		if !errors.As(err, &failed) {
			t.Fatalf("settle: %v", err)
		}
		mustAppend(t, s, callback(fmt.Sprint("next", i)))
		if err := <-left; err == nil {
			t.Error("the statement came to its end")
		}
		// It may have come before Commit returned.
		if err := <-left; err != nil && !errors.Is(err, sql.ErrTxDone) &&
			!errors.Is(err, sqlite3.INTERRUPT) && !errors.Is(err, context.Canceled) {
			t.Errorf("a later one: %v, want %v", err, sql.ErrTxDone)
		}
		mustSettle(t, s, row, queue.Settlement{State: queue.Done})
		mustSettle(t, s, mustLease(t, s, testLane, 1)[0], queue.Settlement{State: queue.Done})
	}
	checkFile(t, s)
}

// A helper of tests that is called in a handler ends its goroutine.
func TestACommitThatEndsItsGoroutineIsUndoneAndTheStoreGoesOn(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db")})
	mustAppend(t, s, callback("a"))
	row := mustLease(t, s, testLane, 1)[0]
	err := s.Settle(t.Context(), []queue.Settlement{{Grant: row.Grant(), State: queue.Done,
		Commit: func(ctx context.Context, tx queue.Tx) error {
			if _, err := tx.ExecContext(ctx, "CREATE TABLE t (x)"); err != nil {
				return err
			}
			runtime.Goexit()
			return nil
		}}})[0]
	var failed *queue.CommitError
	if !errors.As(err, &failed) {
		t.Fatalf("settle: %v", err)
	}
	mustAppend(t, s, callback("b"))
	if n := scan(t, s, "SELECT count(*) FROM sqlite_master WHERE name = 't'")[0]; n != 0 {
		t.Error("what it wrote is there")
	}
	mustSettle(t, s, row, queue.Settlement{State: queue.Done})
}
