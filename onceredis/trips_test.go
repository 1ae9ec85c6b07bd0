package onceredis_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/onceredis"
)

// trips counts what a client sends: a command or a pipeline is a round trip.
type trips struct{ n atomic.Int64 }

func (c *trips) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		return next(ctx, network, addr)
	}
}

func (c *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count(cmd)
		return next(ctx, cmd)
	}
}

func (c *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.count(cmds[0])
		return next(ctx, cmds)
	}
}

// count leaves out what a new connection begins with.
func (c *trips) count(first redis.Cmder) {
	if name := first.Name(); name != "hello" && name != "client" {
		c.n.Add(1)
	}
}

// took is how many round trips fn took.
func (c *trips) took(fn func()) int64 {
	before := c.n.Load()
	fn()
	return c.n.Load() - before
}

func TestAReplayTakesOneRoundTripAndAFirstRequestTwo(t *testing.T) {
	t.Parallel()
	master := testserver.Redis(t, durable...)
	testserver.RedisReplica(t, master, durable...)
	for name, cfg := range map[string]onceredis.Config{
		"alone": {}, "with replicas that confirm": {Wait: 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := client(t, master.Addr())
			count := &trips{}
			c.AddHook(count)
			cfg.Prefix = name
			s := open(t, c, cfg)
			first := func() { complete(t, s, claim(t, s, claimOf("a")), "done") }
			if n := count.took(first); n != 2 {
				t.Errorf("a first request took %d round trips, want 2", n)
			}
			if n := count.took(func() { replay(t, s, claimOf("a")) }); n != 1 {
				t.Errorf("a replay took %d round trips, want 1", n)
			}
			master.Do("SCRIPT", "FLUSH")
			again := func() { replay(t, s, claimOf("a")) }
			if n := count.took(again); n < 2 || n > 3 {
				t.Errorf("with scripts forgotten it took %d, want one or two more", n)
			}
			if n := count.took(again); n != 1 {
				t.Errorf("after that it took %d, want 1", n)
			}
		})
	}
}

// A replay soon after the last arrival is no write: nothing to flush, nothing to replicate.
func TestAReplayWritesNothing(t *testing.T) {
	t.Parallel()
	s, server := single(t, onceredis.Config{})
	complete(t, s, claim(t, s, claimOf("a")), "done")
	before := server.Do("INFO", "persistence")
	for range 10 {
		replay(t, s, claimOf("a"))
	}
	size := func(info string) string { return field(info, "aof_current_size") }
	if after := server.Do("INFO", "persistence"); size(before) != size(after) {
		t.Errorf("the file grew from %s to %s bytes", size(before), size(after))
	}
	s.Advance(4 * time.Minute) // more than a 16th of the hour
	replay(t, s, claimOf("a"))
	if after := server.Do("INFO", "persistence"); size(before) == size(after) {
		t.Error("a late arrival was not written down")
	}
}

// The client sends a command again by itself when the connection breaks. Each step bears that.
func TestAnAnswerThatWasLostIsFoundByAskingAgain(t *testing.T) {
	t.Parallel()
	for _, wait := range []int{0, 1} {
		server := testserver.Redis(t, durable...)
		if wait > 0 {
			testserver.RedisReplica(t, server, durable...)
		}
		proxy := testserver.NewProxy(t, server.Addr())
		c := redis.NewClient(&redis.Options{
			Addr: proxy.Addr(), ContextTimeoutEnabled: true, PoolSize: 1, MaxRetries: 3,
			ReadTimeout: 20 * time.Second, // above the wait for replicas
		})
		t.Cleanup(func() { _ = c.Close() })
		s := open(t, c, onceredis.Config{Wait: wait, WaitTimeout: 8 * time.Second})
		// lossy makes a step whose command lands, whose answer is lost, and which is sent again.
		lossy := func(step string, fn func() error) {
			t.Helper()
			sent := commands(server)
			proxy.Hold()
			done := make(chan error, 1)
			go func() { done <- fn() }()
			testserver.Until(t, 5*time.Second, step+" has landed", func() bool {
				return commands(server) > sent
			})
			proxy.Cut() // first: an answer that is late would still get through
			proxy.Restore()
			select {
			case err := <-done:
				want(t, step, err, nil)
			case <-time.After(10 * time.Second):
				t.Fatalf("%s has no answer", step)
			}
			if n := commands(server); n < sent+2 {
				t.Errorf("%s was sent %d times, want it twice", step, n-sent)
			}
		}
		claim(t, s, claimOf("first")) // makes the connection that steps go over
		var g once.Grant
		lossy("claim", func() (err error) {
			g, err = s.Claim(deadline(t, 10*time.Second), claimOf("a"))
			return err
		})
		if g.Attempt != 1 || g.Takeover {
			t.Errorf("the grant is %+v, want the first attempt", g)
		}
		lossy("release", func() error { return s.Release(deadline(t, 10*time.Second), g) })
		g = claim(t, s, claimOf("a"))
		if g.Attempt != 2 {
			t.Errorf("the grant is %+v, want the second attempt", g)
		}
		lossy("complete", func() error {
			return s.Complete(deadline(t, 10*time.Second), g, once.Outcome{Data: []byte("done")})
		})
		if got := replay(t, s, claimOf("a")); string(got.Data) != "done" {
			t.Errorf("replayed %q, want done", got.Data)
		}
		freed := once.Resolution{Decision: once.ReleaseDone}
		lossy("resolve", func() error {
			return s.Resolve(deadline(t, 10*time.Second), g.Identity, freed)
		})
		want(t, "another one's decision", s.Resolve(t.Context(), g.Identity, freed), once.ErrState)
		if next := claim(t, s, claimOf("a")); next.Attempt != 3 || next.Fence <= g.Fence {
			t.Errorf("the grant is %+v after %+v, want the third attempt", next, g)
		}
	}
}
