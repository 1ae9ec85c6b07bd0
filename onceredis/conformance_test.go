package onceredis_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/onceredis"
	"github.com/oncekit/once/oncetest"
)

// maxOutcome is small, so that the cases of the limit are quick.
const maxOutcome = 256 << 10

// conforming is a configuration for the suite.
func conforming(prefix string) onceredis.Config {
	return onceredis.Config{MayForget: true, MaxOutcome: maxOutcome, Prefix: prefix}
}

func TestStore(t *testing.T) {
	t.Parallel()
	oncetest.Run(t, func(t *testing.T) oncetest.Harness {
		server := testserver.Redis(t, "appendonly yes", "appendfsync always")
		s := open(t, client(t, server.Addr()), conforming(""))
		return oncetest.Harness{
			Twice: true,
			Store: s, MaxOutcome: maxOutcome,
			Advance: func(d time.Duration) { s.Advance(d) },
			Corrupt: func(id once.Identity) { server.Do("SETRANGE", s.Key(id), "5", "?") },
			Reopen: func() once.Store {
				server.Kill()
				server.Start()
				before := s
				s = open(t, client(t, server.Addr()), conforming(""))
				s.KeepClock(before)
				return s
			},
		}
	})
}

// Without a clock that tests move, keys end by the server's own expiry too.
func TestStoreByTheServersClock(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t, durable...)
	c := client(t, server.Addr())
	var n atomic.Int64
	oncetest.Run(t, func(t *testing.T) oncetest.Harness {
		s := open(t, c, conforming(fmt.Sprintf("case%d:", n.Add(1))))
		return oncetest.Harness{Store: s, Twice: true, MaxOutcome: maxOutcome}
	})
}

// A client that doesn't end calls with their context is as good.
func TestStoreOverAClientWithoutContexts(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t, durable...)
	c := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = c.Close() })
	shared(t, c)
}

func TestStoreBehindSentinel(t *testing.T) {
	t.Parallel()
	group := testserver.RedisSentinel(t, durable...)
	c := redis.NewUniversalClient(&redis.UniversalOptions{
		MasterName: testserver.SentinelName, Addrs: group.Addrs(), ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = c.Close() })
	shared(t, c)
}

func TestStoreInACluster(t *testing.T) {
	t.Parallel()
	group := testserver.RedisCluster(t, durable...)
	c := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: group.Addrs(), ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = c.Close() })
	shared(t, c)
}

// With replicas that confirm, each step is the same.
func TestStoreWithWait(t *testing.T) {
	t.Parallel()
	master := testserver.Redis(t, durable...)
	testserver.RedisReplica(t, master, durable...)
	c := client(t, master.Addr())
	var n atomic.Int64
	oncetest.Run(t, func(t *testing.T) oncetest.Harness {
		cfg := conforming(fmt.Sprintf("case%d:", n.Add(1)))
		cfg.Wait = 1
		s := open(t, c, cfg)
		return oncetest.Harness{Store: s, Twice: true, Advance: s.Advance, MaxOutcome: maxOutcome}
	}, "Claim", "Race", "Stale", "Settle", "Outcome", "Resolve")
}

// shared runs the suite over one client, each case under a prefix of its own.
func shared(t *testing.T, c redis.UniversalClient) {
	t.Helper()
	var n atomic.Int64
	oncetest.Run(t, func(t *testing.T) oncetest.Harness {
		s := open(t, c, conforming(fmt.Sprintf("case%d:", n.Add(1))))
		return oncetest.Harness{Store: s, Twice: true, Advance: s.Advance, MaxOutcome: maxOutcome}
	})
}
