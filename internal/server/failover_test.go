package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekit/once/internal/testserver"
)

// The primary of the store is killed while senders send, and the standby takes over: what was
// acknowledged is worked, and none is told under two ids.
func TestAFailOverOfItsPostgreSQLLosesNoCallbackThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	pair := testserver.PostgresWithStandby(t, "on")
	sink := testserver.NewHTTPSink(t)
	s := serve(t, t.TempDir(), "store: "+strconv.Quote(pair.URL()+"&schema=robots")+`
sources:
  kuka: {auth: none, key: ["body.id"], to: {http: "`+sink.URL()+`", retry: {base: 10ms, cap: 50ms}}}
`)
	// A callback whose end is not known to its node waits for the end of its lease.
	const long = 4 * patience
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	var (
		senders sync.WaitGroup
		next    atomic.Int64
		told    atomic.Int64
		stop    atomic.Bool
	)
	for range 4 {
		senders.Go(func() {
			for !stop.Load() && ctx.Err() == nil {
				body := fmt.Sprintf(`{"id": %d}`, next.Add(1))
				for ctx.Err() == nil { // as long as it is not acknowledged
					a, err := s.send(http.MethodPost, s.url+"/in/kuka", body, "Content-Type",
						"application/json")
					if err == nil && a.status < 300 {
						told.Add(1)
						break
					}
					if err != nil || a.status != http.StatusServiceUnavailable {
						t.Errorf("%s: %v, status %d: %s", body, err, a.status, a.body)
						return
					}
				}
			}
		})
	}
	defer senders.Wait()
	defer stop.Store(true)
	const some = 40
	acknowledged := func() {
		t.Helper()
		from := told.Load()
		testserver.Until(t, long, "callbacks are acknowledged", func() bool {
			return told.Load() >= from+some || t.Failed()
		})
	}
	acknowledged()
	pair.FailOver(t)
	acknowledged()
	stop.Store(true)
	senders.Wait()
	n := int(told.Load())
	if n != int(next.Load()) {
		t.Fatalf("%d of %d callbacks are acknowledged", n, next.Load())
	}
	begun := time.Now()
	conn, err := pgx.Connect(ctx, pair.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	testserver.Until(t, long, "all of them are done", func() bool {
		var rows, done int
		err := conn.QueryRow(ctx, "SELECT count(*), count(*) FILTER (WHERE phase = 'done') "+
			"FROM robots.queue_rows").Scan(&rows, &done)
		if err != nil || rows != n {
			t.Fatalf("%d callbacks are stored, %v, want %d", rows, err, n)
		}
		return done == n
	})
	t.Logf("%d callbacks, the last is done %v after it was acknowledged", n, time.Since(begun))
	ids := map[string]string{} // by body
	for _, r := range sink.Requests() {
		key := r.Header.Get("Idempotency-Key")
		if was, found := ids[string(r.Body)]; key == "" || found && was != key {
			t.Errorf("%s is told as %q and as %q", r.Body, was, key)
		}
		ids[string(r.Body)] = key
	}
	if len(ids) != n {
		t.Errorf("%d callbacks were told, want %d", len(ids), n)
	}
}
