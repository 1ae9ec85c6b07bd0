package testserver_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oncekit/once/internal/testserver"
)

func TestAStandbyTakesOverWithWhatWasCommitted(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	p := testserver.PostgresWithStandby(t, "on")
	t.Logf("ready after %v", time.Since(begun))
	client := connect(t, p.URL())
	if _, err := client.Exec(t.Context(), "CREATE TABLE x AS SELECT 7 AS n"); err != nil {
		t.Fatal(err)
	}
	p.FailOver(t)
	if err := client.Ping(t.Context()); err == nil {
		t.Error("a connection to the former primary goes on")
	}
	var n int
	err := connect(t, p.URL()).QueryRow(t.Context(), "UPDATE x SET n = n + 1 RETURNING n").Scan(&n)
	if err != nil || n != 8 {
		t.Errorf("%d, %v", n, err)
	}
}

// A commit is not told while the standby gets nothing, and is when it gets the log again.
func TestACommitWaitsForTheStandby(t *testing.T) {
	t.Parallel()
	p := testserver.PostgresWithStandby(t, "remote_apply")
	client, admin := connect(t, p.URL()), connect(t, p.Primary.URL("postgres"))
	p.Log.Hold()
	done := make(chan error, 1)
	go func() {
		_, err := client.Exec(t.Context(), "CREATE TABLE x AS SELECT 7 AS n")
		done <- err
	}()
	testserver.Until(t, time.Minute, "it waits", func() bool {
		var n int
		err := admin.QueryRow(t.Context(),
			"SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").Scan(&n)
		return err == nil && n == 1
	})
	select {
	case err := <-done:
		t.Errorf("it was told: %v", err)
	default:
	}
	p.Log.Restore()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// What is set for a session is found by another client's transaction.
func TestClientsOfAPgBouncerShareConnections(t *testing.T) {
	t.Parallel()
	db := testserver.Postgres(t)
	b := testserver.PgBouncer(t, db.Server)
	const clients = 16
	var (
		running sync.WaitGroup
		mu      sync.Mutex
		pids    = map[int]bool{}
	)
	for range clients {
		client := connect(t, b.URL(db.Name)+"&default_query_exec_mode=exec")
		running.Go(func() {
			var pid int
			err := client.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid)
			mu.Lock()
			defer mu.Unlock()
			if pids[pid] = true; err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	if len(pids) == 0 || len(pids) >= clients {
		t.Error(fmt.Sprint(pids))
	}
}
