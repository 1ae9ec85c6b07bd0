package onceredis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/onceredis"
)

func TestFencesRiseAndRecordsStayOverAKillIfEachWriteIsFlushed(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t, "appendonly yes", "appendfsync always")
	s := open(t, client(t, server.Addr()), onceredis.Config{Persistence: onceredis.PersistAlways})
	done := claim(t, s, claimOf("done"))
	complete(t, s, done, "outcome")
	freed := claim(t, s, claimOf("freed"))
	want(t, "release", s.Release(t.Context(), freed), nil)
	flying := claim(t, s, claimOf("flying"))

	server.Kill()
	server.Start()
	if got := replay(t, s, claimOf("done")); string(got.Data) != "outcome" {
		t.Errorf("replayed %q, want the outcome", got.Data)
	}
	if g := claim(t, s, claimOf("freed")); g.Fence <= freed.Fence || g.Attempt != 2 {
		t.Errorf("claimed %+v after %+v", g, freed)
	}
	want(t, "renewal of what was in flight", s.Renew(t.Context(), flying, time.Minute), nil)
}

// What a server without a file forgets is granted again, with a higher fence: the fence is the
// server's time, so it needs no memory. Such a server is refused unless that was accepted.
func TestAServerWithoutAFileForgetsButItsFencesRise(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	s := open(t, client(t, server.Addr()), onceredis.Config{Persistence: onceredis.PersistNone})
	before := claim(t, s, claimOf("a"))
	complete(t, s, before, "done")
	server.Kill()
	server.Start()
	g := claim(t, s, claimOf("a"))
	if g.Fence <= before.Fence || g.Attempt != 1 {
		t.Errorf("claimed %+v after %+v, want a first attempt with a higher fence", g, before)
	}
	late := once.Outcome{Data: []byte("late")}
	complete(t, s, g, "second")
	want(t, "the first owner's outcome", s.Complete(t.Context(), before, late), once.ErrLeaseLost)
}

func TestFlushedKeysAreGoneAndFlushedScriptsComeBack(t *testing.T) {
	t.Parallel()
	s, server := single(t, onceredis.Config{})
	first := claim(t, s, claimOf("a"))
	server.Do("SCRIPT", "FLUSH")
	want(t, "renew", s.Renew(t.Context(), first, time.Minute), nil)
	server.Do("FLUSHALL")
	want(t, "renew what is gone", s.Renew(t.Context(), first, time.Minute), once.ErrLeaseLost)
	late := once.Outcome{Data: []byte("late")}
	want(t, "complete what is gone", s.Complete(t.Context(), first, late), once.ErrLeaseLost)
	if g := claim(t, s, claimOf("a")); g.Fence <= first.Fence {
		t.Errorf("fence %d after %d", g.Fence, first.Fence)
	}
}

// E01: the server is killed in the midst of all kinds of steps, again and again. No key is left
// without an expiry but those of records that are held or unknown, or can become held.
func TestE01_AfterChaosEveryKeyEndsButThoseThatMayNot(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t, "appendonly yes", "appendfsync no")
	c := client(t, server.Addr())
	s := open(t, c, onceredis.Config{MayForget: true})
	const rounds, workers, keys = 4, 8, 40
	for round := range rounds {
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() { disturb(ctx, s, w, keys) })
		}
		testserver.Until(t, 10*time.Second, "steps were made", func() bool {
			return commands(server) > 400
		})
		server.Kill()
		cancel()
		all.Wait()
		server.Start()
		seen := lives(t, s, c, server)
		t.Logf("round %d: %v", round, seen)
		if seen["held"]+seen["unknown"] == 0 || seen["completed"] == 0 {
			t.Errorf("round %d: %v: too little was going on", round, seen)
		}
	}
}

// disturb makes steps of all kinds until its context ends. Errors belong to it.
func disturb(ctx context.Context, s *onceredis.Store, worker, keys int) {
	for i := 0; ctx.Err() == nil; i++ {
		c := claimOf(fmt.Sprint((i*7 + worker) % keys))
		c.Lease, c.OnUnknown = time.Millisecond, once.OnUnknown(i%2)
		g, err := s.Claim(ctx, c)
		if errors.Is(err, once.ErrUnknown) && i%3 == 0 {
			_ = s.Resolve(ctx, c.Identity, once.Resolution{Decision: once.RunAgain})
		}
		if err != nil {
			continue
		}
		switch i % 6 {
		case 0, 1:
			_ = s.Complete(ctx, g, once.Outcome{Data: []byte("done")})
		case 2:
			_ = s.Release(ctx, g)
		case 3:
			_ = s.Complete(ctx, g, once.Outcome{Kind: once.Unknown})
		case 4:
			_ = s.Renew(ctx, g, time.Millisecond)
		}
	}
}

// lives looks at the expiry of each key, and counts records by their state.
func lives(
	t *testing.T, s *onceredis.Store, c *redis.Client, server *testserver.RedisServer,
) map[once.RecordState]int {
	t.Helper()
	seen := map[once.RecordState]int{}
	page, err := s.Records(t.Context(), once.RecordFilter{Limit: once.MaxRecordPage})
	if err != nil {
		t.Fatal(err)
	}
	if size := server.Do("DBSIZE"); size != fmt.Sprint(len(page.Records)) {
		t.Errorf("%s keys, %d records", size, len(page.Records))
	}
	for _, r := range page.Records {
		seen[r.State]++
		life, err := c.PTTL(t.Context(), s.Key(r.Identity)).Result()
		if err != nil {
			t.Fatal(err)
		}
		ends := life > 0
		raw := server.Do("GETRANGE", s.Key(r.Identity), "1", "2") // the state, retry or hold
		stays := raw[0] == 'u' || raw == "fh"
		if ends == stays {
			t.Errorf("a record that is %s (%s) has an expiry: %v", r.State, raw, ends)
		}
		if ends && life > time.Hour+time.Hour/16+time.Minute {
			t.Errorf("a record that is %s lives for %v, want about an hour", r.State, life)
		}
	}
	return seen
}

// failedOver lets a claim reach the master while its replica is cut off, kills the master, and
// promotes the replica.
func failedOver(t *testing.T, cfg onceredis.Config) (first error, second error) {
	t.Helper()
	master := testserver.Redis(t, durable...)
	replica := testserver.RedisReplica(t, master, durable...)
	s := open(t, client(t, master.Addr()), cfg)
	replica.Do("REPLICAOF", "127.0.0.1", "1") // nothing reaches it any more
	_, first = s.Claim(deadline(t, 5*time.Second), claimOf("payment"))
	master.Kill()
	replica.Do("REPLICAOF", "NO", "ONE")
	_, second = open(t, client(t, replica.Addr()), cfg).Claim(t.Context(), claimOf("payment"))
	return first, second
}

// E04: what Redis doesn't promise. A claim that was acknowledged and not yet replicated is gone
// after a failover, and the operation is granted a second time. With Wait the first one is never
// granted, so it never runs.
func TestE04_AFailoverLosesAClaimThatNoReplicaHas(t *testing.T) {
	t.Parallel()
	first, second := failedOver(t, onceredis.Config{})
	if first != nil || second != nil {
		t.Errorf("granted: %v, and after the failover: %v; want both, that is the caveat",
			first, second)
	}
	first, second = failedOver(t, onceredis.Config{
		Wait: 1, WaitTimeout: 100 * time.Millisecond,
	})
	want(t, "with Wait, a claim that no replica has", first, once.ErrUnavailable)
	if first != nil && !strings.Contains(first.Error(), "0 replicas have it") {
		t.Errorf("%v doesn't tell why", first)
	}
	if second == nil || !strings.Contains(second.Error(), "0 replicas have it") {
		t.Errorf("after the failover: %v, want it refused until there is a replica again", second)
	}
}

// A repeated step is confirmed by replicas as the first one is: its own connection has written.
func TestARepeatedStepIsNotConfirmedByReplicasThatLackIt(t *testing.T) {
	t.Parallel()
	master := testserver.Redis(t, durable...)
	replica := testserver.RedisReplica(t, master, durable...)
	patient := onceredis.Config{Wait: 1, WaitTimeout: 8 * time.Second}
	s := open(t, client(t, master.Addr()), patient)
	cfg := onceredis.Config{Wait: 1, WaitTimeout: 100 * time.Millisecond}
	c := claimOf("a")
	g := claim(t, s, c)
	replica.Freeze()
	done := once.Outcome{Data: []byte("done")}
	for try := range 2 {
		// A client of its own each time, as a retry over another connection.
		s := open(t, client(t, master.Addr()), cfg)
		_, err := s.Claim(t.Context(), claimOf(fmt.Sprint("other", try)))
		want(t, "claim", err, once.ErrUnavailable)
		want(t, "complete", s.Complete(t.Context(), g, done), once.ErrUnavailable)
	}
	replica.Thaw()
	want(t, "complete, with the replica", s.Complete(t.Context(), g, done), nil)
	if got := replica.Do("GETRANGE", s.Key(c.Identity), "1", "1"); got != "c" {
		t.Errorf("the replica has the state %q, want c", got)
	}
}

// A failover that Sentinel carries out is followed; the promoted server lacks the scripts and has
// the records.
func TestSentinelsFailoverIsFollowed(t *testing.T) {
	t.Parallel()
	group := testserver.RedisSentinel(t, durable...)
	c := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: testserver.SentinelName, SentinelAddrs: group.Addrs(),
		ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = c.Close() })
	s := open(t, c, onceredis.Config{Wait: 1, WaitTimeout: 8 * time.Second})
	g := claim(t, s, claimOf("a"))
	complete(t, s, g, "done")
	s = open(t, c, onceredis.Config{})
	group.Master.Kill()
	testserver.Until(t, 20*time.Second, "the promoted server answers", func() bool {
		var r *once.ReplayError
		_, err := s.Claim(deadline(t, time.Second), claimOf("a"))
		if !errors.As(err, &r) && !errors.Is(err, once.ErrUnavailable) {
			t.Fatalf("claim: %v", err)
		}
		return r != nil && string(r.Outcome.Data) == "done"
	})
}
