package oncepg_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once"
)

// recordClaim is a claim by a new owner.
func recordClaim(name string) once.Claim {
	return once.Claim{
		Identity:    sha256.Sum256([]byte(name)),
		Fingerprint: once.FingerprintRaw([]byte("asked")),
		Owner:       once.NewOwner(), Lease: time.Minute, Retention: time.Hour,
		Note: once.Note{Scope: []string{"tenant", "a"}, Key: "ke", Request: "POST /orders"},
	}
}

func claimRecord(t testing.TB, s once.Store, c once.Claim) once.Grant {
	t.Helper()
	g, err := s.Claim(t.Context(), c)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return g
}

func completeRecord(t testing.TB, s once.Store, g once.Grant, data string) {
	t.Helper()
	if err := s.Complete(t.Context(), g, once.Outcome{Data: []byte(data)}); err != nil {
		t.Fatalf("complete: %v", err)
	}
}

// replayOf is the outcome that a claim gets.
func replayOf(t testing.TB, s once.Store, c once.Claim) once.Outcome {
	t.Helper()
	var r *once.ReplayError
	if _, err := s.Claim(t.Context(), c); !errors.As(err, &r) {
		t.Fatalf("claim: %v, want a replay", err)
	}
	return r.Outcome
}

func wantError(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// soon is a context that is over soon.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// countedPool has one connection, whose round trips are counted.
func countedPool(t testing.TB, url string) (*pgxpool.Pool, *trips) {
	t.Helper()
	count := &trips{}
	return tracedPool(t, url, 1, count), count
}

func tracedPool(
	t testing.TB, url string, connections int32, tracer pgx.QueryTracer,
) *pgxpool.Pool {
	t.Helper()
	conf, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	conf.MaxConns, conf.ConnConfig.Tracer = connections, tracer
	p, err := pgxpool.NewWithConfig(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}
