package oncesqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

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
