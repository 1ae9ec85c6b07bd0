package onceredis_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/oncekit/once/internal/linear"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/oncetest"
)

func TestAnswersCouldHaveComeOneAfterTheOther(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t, durable...)
	linear.Check(t, open(t, client(t, server.Addr()), conforming("")), linear.Options{})
}

func TestAnswersOfAClusterCouldHaveComeOneAfterTheOther(t *testing.T) {
	t.Parallel()
	group := testserver.RedisCluster(t, durable...)
	c := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: group.Addrs(), ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = c.Close() })
	linear.Check(t, open(t, c, conforming("")), linear.Options{})
}

// BenchmarkStore measures a server on this machine, over loopback, with and without a file that is
// flushed at each write.
func BenchmarkStore(b *testing.B) {
	b.Run("everysec", func(b *testing.B) {
		server := testserver.Redis(b, "appendonly yes", "appendfsync everysec")
		oncetest.Bench(b, open(b, client(b, server.Addr()), conforming("")))
	})
	b.Run("always", func(b *testing.B) {
		server := testserver.Redis(b, "appendonly yes", "appendfsync always")
		oncetest.Bench(b, open(b, client(b, server.Addr()), conforming("")))
	})
}
