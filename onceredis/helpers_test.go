package onceredis_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/onceredis"
)

// durable are a server's options for what a store wants by default.
var durable = []string{"appendonly yes", "appendfsync no"}

// client connects to a server as programs are advised to.
func client(t testing.TB, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// open makes a store that is ready.
func open(t testing.TB, c redis.UniversalClient, cfg onceredis.Config) *onceredis.Store {
	t.Helper()
	s, err := onceredis.New(c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// single is a store over a server of its own.
func single(t testing.TB, cfg onceredis.Config) (*onceredis.Store, *testserver.RedisServer) {
	t.Helper()
	server := testserver.Redis(t, durable...)
	return open(t, client(t, server.Addr()), cfg), server
}

// claimOf is a claim by a new owner.
func claimOf(name string) once.Claim {
	return once.Claim{
		Identity:    sha256.Sum256([]byte(name)),
		Fingerprint: once.FingerprintRaw([]byte("asked")),
		Owner:       once.NewOwner(), Lease: time.Minute, Retention: time.Hour,
		Note: once.Note{Scope: []string{"tenant", "a"}, Key: "ke", Request: "POST /orders"},
	}
}

func claim(t testing.TB, s once.Store, c once.Claim) once.Grant {
	t.Helper()
	g, err := s.Claim(t.Context(), c)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return g
}

func complete(t testing.TB, s once.Store, g once.Grant, data string) {
	t.Helper()
	if err := s.Complete(t.Context(), g, once.Outcome{Data: []byte(data)}); err != nil {
		t.Fatalf("complete: %v", err)
	}
}

// replay is the outcome that a claim gets.
func replay(t testing.TB, s once.Store, c once.Claim) once.Outcome {
	t.Helper()
	var r *once.ReplayError
	if _, err := s.Claim(t.Context(), c); !errors.As(err, &r) {
		t.Fatalf("claim: %v, want a replay", err)
	}
	return r.Outcome
}

func want(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func deadline(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// field is the value of a name in what INFO says.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// commands is how many scripts a server has run.
func commands(server *testserver.RedisServer) int {
	stat := field(server.Do("INFO", "commandstats"), "cmdstat_evalsha")
	calls, _, _ := strings.Cut(strings.TrimPrefix(stat, "calls="), ",")
	n, _ := strconv.Atoi(calls)
	return n
}
