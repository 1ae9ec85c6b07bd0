package testserver_test

import (
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once/internal/testserver"
)

func TestARedisServerKeepsItsPortAndItsFile(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, "appendonly yes", "appendfsync always")
	s.Do("SET", "k", "v")
	addr := s.Addr()
	s.Kill()
	s.Start()
	if got := s.Do("GET", "k"); got != "v" || s.Addr() != addr {
		t.Errorf("after a restart k is %q at %s, want v at %s", got, s.Addr(), addr)
	}
	s.Stop()
}

func TestSentinelsPromoteTheReplica(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	g := testserver.RedisSentinel(t)
	t.Logf("ready after %v", time.Since(begun))
	g.Master.Kill()
	testserver.Until(t, 20*time.Second, "the replica is master", func() bool {
		info, _ := g.Replica.Try("INFO", "replication") // it cuts its connections meanwhile
		return strings.Contains(info, "role:master")
	})
}

func TestAClusterServesAllSlots(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	g := testserver.RedisCluster(t)
	t.Logf("ready after %v", time.Since(begun))
	info := g.Nodes[2].Do("CLUSTER", "INFO")
	if !strings.Contains(info, "cluster_slots_ok:16384") || len(g.Addrs()) != 3 {
		t.Errorf("%v: %s", g.Addrs(), info)
	}
}
