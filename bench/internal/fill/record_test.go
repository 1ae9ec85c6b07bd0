package fill

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/oncekit/once"
	"github.com/oncekit/once/bench/internal/serving"
	"github.com/oncekit/once/onceredis"
)

// knowsRecords checks that records up to n are answered, and the next one is not known.
func knowsRecords(t *testing.T, s once.Store, n int64) {
	t.Helper()
	for _, i := range []int64{0, 1, n / 2, n - 1} {
		_, err := s.Claim(t.Context(), Claim(i))
		replay, ok := errors.AsType[*once.ReplayError](err)
		if !ok || len(replay.Outcome.Data) != outcomeSize {
			t.Errorf("record %d: %v, want a replay of %d bytes", i, err, outcomeSize)
		}
	}
	changed := Claim(1)
	changed.Fingerprint = once.FingerprintRaw([]byte("another order"))
	if _, err := s.Claim(t.Context(), changed); !errors.Is(err, once.ErrMismatch) {
		t.Errorf("another request: %v, want a mismatch", err)
	}
	grant, err := s.Claim(t.Context(), Claim(n))
	if err != nil || grant.Attempt != 1 {
		t.Errorf("record %d: %+v, %v, want a grant", n, grant, err)
	}
}

func TestFilledRecordsAreCountedAndAnswered(t *testing.T) {
	const n = 10_000
	path := filepath.Join(t.TempDir(), "once.db")
	if err := Records(t.Context(), path, n); err != nil {
		t.Fatal(err)
	}
	r := reopen(t, path).Records()
	if got := r.Counts()[once.Completed]; got != n {
		t.Errorf("%d are counted as completed, want %d", got, n)
	}
	knowsRecords(t, r, n)
	page, err := r.Records(t.Context(), once.RecordFilter{State: once.Completed, Limit: 1000})
	if err != nil || len(page.Records) != 1000 {
		t.Errorf("%d are listed, error %v, want 1000", len(page.Records), err)
	}
}

func TestRecordsThatAreBrokenOffLeaveNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := filepath.Join(t.TempDir(), "once.db")
	if err := Records(ctx, path, 100_000); err == nil {
		t.Error("no error")
	}
	left, err := filepath.Glob(path + "*")
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left, error %v", left, err)
	}
}

func TestFilledRedisAnswersAndKeepsItsRecords(t *testing.T) {
	const n = 5000
	dir := t.TempDir()
	client := redisOf(t, dir, serving.FsyncNone)
	if err := RedisRecords(t.Context(), client, n); err != nil {
		t.Fatal(err)
	}
	if err := RedisRecords(t.Context(), client, n); err == nil {
		t.Error("a store that is not empty was filled")
	}
	// What it persisted is what the next one reads.
	client.ShutdownNoSave(t.Context())
	client = redisOf(t, dir, serving.FsyncSecond)
	if size, err := client.DBSize(t.Context()).Result(); err != nil || size != n {
		t.Fatalf("%d keys, error %v, want %d", size, err, n)
	}
	s, err := onceredis.New(client, onceredis.Config{})
	if err == nil {
		err = s.Open(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	knowsRecords(t, s, n)
}

func redisOf(t *testing.T, dir string, f serving.Fsync) *redis.Client {
	t.Helper()
	s, err := serving.Programs{}.Redis(t.Context(), dir, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	client := redis.NewClient(&redis.Options{Addr: s.Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}
