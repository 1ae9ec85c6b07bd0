package onceredis_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/onceredis"
)

func TestAServerThatForgetsByDesignIsRefused(t *testing.T) {
	t.Parallel()
	always := []string{"appendonly yes", "appendfsync always"}
	closed := append(always, `rename-command CONFIG ""`)
	evicting := append(durable, "maxmemory 100mb", "maxmemory-policy allkeys-lru")
	for _, c := range []struct {
		name    string
		options []string
		cfg     onceredis.Config
		refused string // part of the error; empty: it is taken
	}{
		{"with a file", durable, onceredis.Config{}, ""},
		{"without a file", nil, onceredis.Config{}, "appendonly is off"},
		{"without a file, as accepted", nil,
			onceredis.Config{Persistence: onceredis.PersistNone}, ""},
		{"evicting", evicting, onceredis.Config{}, "maxmemory-policy is allkeys-lru"},
		{"evicting keys with an expiry", append(durable, "maxmemory-policy volatile-ttl"),
			onceredis.Config{}, "maxmemory-policy is volatile-ttl"},
		{"evicting, as accepted", evicting, onceredis.Config{AllowEviction: true}, ""},
		{"flushing each write", always,
			onceredis.Config{Persistence: onceredis.PersistAlways}, ""},
		{"flushing now and then", durable,
			onceredis.Config{Persistence: onceredis.PersistAlways}, "appendfsync is no"},
		{"with CONFIG closed", closed, onceredis.Config{}, ""},
		{"with CONFIG closed, flushing", closed,
			onceredis.Config{Persistence: onceredis.PersistAlways}, "CONFIG is closed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := testserver.Redis(t, c.options...)
			s, err := onceredis.New(client(t, server.Addr()), c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			err = s.Open(t.Context())
			if c.refused == "" {
				want(t, "open", err, nil)
			} else if err == nil || !strings.Contains(err.Error(), c.refused) ||
				errors.Is(err, once.ErrUnavailable) {
				t.Errorf("open: %v, want it refused with %q", err, c.refused)
			}
		})
	}
}

func TestAReplicaIsNoPlaceForRecords(t *testing.T) {
	t.Parallel()
	master := testserver.Redis(t, durable...)
	replica := testserver.RedisReplica(t, master, durable...)
	s, err := onceredis.New(client(t, replica.Addr()), onceredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "slave") {
		t.Errorf("open: %v, want it refused", err)
	}
	want(t, "a ping of a replica", s.Ping(t.Context()), once.ErrUnavailable)
	_, err = s.Claim(deadline(t, time.Second), claimOf("a"))
	want(t, "a claim on a replica", err, once.ErrUnavailable)
}

// Each node of a Cluster is looked at, not only one of them.
func TestOneNodeOfAClusterIsEnoughToRefuseIt(t *testing.T) {
	t.Parallel()
	group := testserver.RedisCluster(t, durable...)
	c := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: group.Addrs()[:1], ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = c.Close() })
	s := open(t, c, onceredis.Config{})
	want(t, "a ping of the cluster", s.Ping(t.Context()), nil)
	last := group.Nodes[2]
	last.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
	err := s.Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), last.Addr()) {
		t.Errorf("check: %v, want it refused for node %s", err, last.Addr())
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	t.Cleanup(func() { _ = c.Close(); _ = ring.Close() })
	for _, x := range []struct {
		name   string
		client redis.UniversalClient
		cfg    onceredis.Config
		says   string
	}{
		{"no client", nil, onceredis.Config{}, "<nil>"},
		{"a ring", ring, onceredis.Config{}, "Ring"},
		{"a wrapped client", struct{ redis.UniversalClient }{c}, onceredis.Config{}, "want a"},
		{"a hash tag", c, onceredis.Config{Prefix: "{once}:"}, "brace"},
		{"outcomes beyond Redis' strings", c, onceredis.Config{MaxOutcome: 1 << 30},
			"outcomes of up to 1073741824"},
		{"fewer than no replicas", c, onceredis.Config{Wait: -1}, "wait for replicas"},
		{"a wait that WAIT takes for none", c, onceredis.Config{WaitTimeout: time.Microsecond},
			"at least 1ms"},
		{"no such persistence", c, onceredis.Config{Persistence: "rdb"}, "persistence is"},
	} {
		_, err := onceredis.New(x.client, x.cfg)
		if err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v, want an error with %q", x.name, err, x.says)
		}
	}
}

func TestHoldIsRefusedUnlessRedisMayForget(t *testing.T) {
	t.Parallel()
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = c.Close() })
	for may, says := range map[bool]string{false: "redis_may_forget", true: ""} {
		s, err := onceredis.New(c, onceredis.Config{MayForget: may})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := once.NewGuard(s, once.Config{}); err != nil {
			t.Errorf("retry, MayForget %v: %v", may, err)
		}
		_, err = once.NewGuard(s, once.Config{OnUnknown: once.Hold})
		if got := err == nil; got != may || !may && !strings.Contains(err.Error(), says) {
			t.Errorf("hold, MayForget %v: %v", may, err)
		}
	}
}
