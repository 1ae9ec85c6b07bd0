package onceredis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/onceredis"
)

// every makes each step and wants the same error of it.
func every(t *testing.T, s *onceredis.Store, d time.Duration, what string, expected error) {
	t.Helper()
	c := claimOf("every")
	g := once.Grant{Identity: c.Identity, Owner: c.Owner, Fence: 1}
	for name, step := range map[string]func(context.Context) error{
		"claim":    func(ctx context.Context) error { _, err := s.Claim(ctx, c); return err },
		"complete": func(ctx context.Context) error { return s.Complete(ctx, g, once.Outcome{}) },
		"release":  func(ctx context.Context) error { return s.Release(ctx, g) },
		"renew":    func(ctx context.Context) error { return s.Renew(ctx, g, time.Minute) },
		"resolve": func(ctx context.Context) error {
			return s.Resolve(ctx, g.Identity, once.Resolution{Decision: once.RunAgain})
		},
		"record": func(ctx context.Context) error {
			_, err := s.Record(ctx, g.Identity)
			return err
		},
		"records": func(ctx context.Context) error {
			_, err := s.Records(ctx, once.RecordFilter{})
			return err
		},
		"check": s.Check,
	} {
		begun := time.Now()
		want(t, what+": "+name, step(deadline(t, d)), expected)
		if took := time.Since(begun); took > d+2*time.Second {
			t.Errorf("%s: %s took %v, want it to end with its context after %v", what, name,
				took, d)
		}
	}
}

// E06, the store's part: what is down says so and takes nothing on.
func TestE06_AServerThatIsGoneOrHangsIsUnavailable(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t, durable...)
	plain := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = plain.Close() })
	for name, c := range map[string]*redis.Client{
		"a client with contexts": client(t, server.Addr()), "one without": plain,
	} {
		s := open(t, c, onceredis.Config{})
		server.Freeze()
		every(t, s, 100*time.Millisecond, name+", frozen", once.ErrUnavailable)
		server.Thaw()
		server.Kill()
		every(t, s, 100*time.Millisecond, name+", gone", once.ErrUnavailable)
		server.Start()
		server.Do("FLUSHALL") // what the frozen server had in its buffers may have landed
		testserver.Until(t, 5*time.Second, "it answers again", func() bool {
			_, err := s.Claim(deadline(t, time.Second), claimOf(name))
			return err == nil || errors.Is(err, once.ErrInFlight)
		})
	}
}

// A cancelled context ends a call at once, also where it has no deadline.
func TestACallWithoutDeadlineEndsWhenItIsCancelled(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t, durable...)
	c := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = c.Close() })
	s := open(t, c, onceredis.Config{})
	server.Freeze()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Claim(ctx, claimOf("a"))
		done <- err
	}()
	cancel()
	select {
	case err := <-done:
		want(t, "claim", err, once.ErrUnavailable)
		want(t, "claim", err, context.Canceled)
	case <-time.After(2 * time.Second):
		t.Error("it goes on")
	}
	server.Thaw()
}

func TestAPoolThatIsExhaustedIsUnavailable(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t, durable...)
	c := redis.NewClient(&redis.Options{
		Addr: server.Addr(), PoolSize: 1, PoolTimeout: 50 * time.Millisecond, MaxRetries: -1,
		ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = c.Close() })
	s := open(t, c, onceredis.Config{})
	only := c.Conn()
	defer only.Close()
	want(t, "taking the connection", only.Ping(t.Context()).Err(), nil)
	_, err := s.Claim(t.Context(), claimOf("a"))
	want(t, "claim", err, once.ErrUnavailable)
	want(t, "claim", err, redis.ErrPoolTimeout)
}

// saying answers each command with an error of a real server.
type saying struct {
	trips
	text string
}

// serverError is an error as go-redis gives them.
type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

func (s *saying) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		cmd.SetErr(serverError(s.text))
		return cmd.Err()
	}
}

func TestWhatServersSayOfThemselvesIsUnavailable(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"LOADING Redis is loading the dataset in memory",
		"READONLY You can't write against a read only replica.",
		"CLUSTERDOWN The cluster is down",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"MISCONF Errors writing to the AOF file: No space left on device",
		"NOREPLICAS Not enough good replicas to write.",
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"TRYAGAIN Multiple keys request during rehashing of slot",
		"NOAUTH Authentication required.",
		"NOPERM this user has no permissions to run the 'evalsha' command",
		"ERR max number of clients reached",
	} {
		c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ContextTimeoutEnabled: true})
		c.AddHook(&saying{text: text})
		s, err := onceredis.New(c, onceredis.Config{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Claim(t.Context(), claimOf("a"))
		want(t, text, err, once.ErrUnavailable)
		if err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("%v doesn't tell why", err)
		}
		want(t, text, c.Close(), nil)
	}
}

// A full server that doesn't evict refuses new keys, and each outcome that needs room. It forgets
// nothing, and what was refused can be tried again.
func TestAFullServerIsUnavailableAndForgetsNothing(t *testing.T) {
	t.Parallel()
	s, server := single(t, onceredis.Config{})
	complete(t, s, claim(t, s, claimOf("early")), "done")
	running := claim(t, s, claimOf("running"))
	server.Do("CONFIG", "SET", "maxmemory", "1")
	_, err := s.Claim(t.Context(), claimOf("new"))
	want(t, "a new claim", err, once.ErrUnavailable)
	if err != nil && !strings.Contains(err.Error(), "used memory") {
		t.Errorf("%v doesn't tell why", err)
	}
	outcome := once.Outcome{Data: []byte("done")}
	want(t, "an outcome", s.Complete(t.Context(), running, outcome), once.ErrUnavailable)
	if got := replay(t, s, claimOf("early")); string(got.Data) != "done" {
		t.Errorf("replayed %q, want done", got.Data)
	}
	server.Do("CONFIG", "SET", "maxmemory", "0")
	_, err = s.Claim(t.Context(), claimOf("running"))
	want(t, "what ran meanwhile", err, once.ErrInFlight)
	want(t, "the outcome again", s.Complete(t.Context(), running, outcome), nil)
}

// A node that is lost takes its slots with it; the others go on or say that the cluster is down.
func TestAClusterWithoutANodeIsUnavailable(t *testing.T) {
	t.Parallel()
	group := testserver.RedisCluster(t, durable...)
	c := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: group.Addrs(), ContextTimeoutEnabled: true, MaxRedirects: 2,
	})
	t.Cleanup(func() { _ = c.Close() })
	s := open(t, c, onceredis.Config{})
	const keys = 30
	for i := range keys {
		complete(t, s, claim(t, s, claimOf(fmt.Sprint("k", i))), "done")
	}
	for _, node := range group.Nodes {
		if size := node.Do("DBSIZE"); size == "0" || size == fmt.Sprint(keys) {
			t.Errorf("node %s has %s of %d records, want some", node.Addr(), size, keys)
		}
	}
	group.Nodes[1].Kill()
	refused := 0
	for i := range keys {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := s.Claim(ctx, claimOf(fmt.Sprint("k", i)))
		cancel()
		var done *once.ReplayError
		switch {
		case errors.As(err, &done):
		case errors.Is(err, once.ErrUnavailable):
			refused++
		default:
			t.Errorf("key %d: %v", i, err)
		}
	}
	if refused == 0 {
		t.Error("no key is unavailable")
	}
	group.Nodes[1].Start()
	testserver.Until(t, 10*time.Second, "all answer again", func() bool {
		for i := range keys {
			var done *once.ReplayError
			_, err := s.Claim(deadline(t, time.Second), claimOf(fmt.Sprint("k", i)))
			if !errors.As(err, &done) {
				return false
			}
		}
		return true
	})
}
