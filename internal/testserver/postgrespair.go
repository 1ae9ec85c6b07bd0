package testserver

import (
	"testing"

	"github.com/oncekit/once/internal/testserver/postgres"
)

// PostgresPair is a primary with a standby that takes its log over a connection which the test can
// disturb, and an address that clients keep over a fail-over, as a virtual one does.
type PostgresPair struct {
	Primary, Standby *postgres.Server // as they were started
	// Clients is where clients connect: before the primary, and after FailOver the standby.
	Clients *Proxy
	// Log is what the standby takes the primary's log through: while it holds, the primary sends
	// in vain.
	Log *Proxy
}

// PostgresWithStandby starts a pair, whose commits wait as synchronous_commit says (local: they do
// not), and returns when the standby has all that there is. Lines are further ones of
// postgresql.conf of both.
func PostgresWithStandby(t testing.TB, commit string, lines ...string) *PostgresPair {
	t.Helper()
	p := &PostgresPair{}
	p.Primary = PostgresServer(t, postgres.Config{
		Lines: append(postgres.PrimaryLines(commit), lines...),
	})
	p.Log = NewProxy(t, p.Primary.Addr())
	p.Standby = PostgresServer(t, postgres.Config{Follow: p.Log.Addr()})
	if err := p.Primary.AwaitStandby(); err != nil {
		t.Fatal(err)
	}
	p.Clients = NewProxy(t, p.Primary.Addr())
	return p
}

// URL is how clients connect.
func (p *PostgresPair) URL() string { return postgres.URL(p.Clients.Addr(), "postgres") }

// FailOver kills the primary, fences it, promotes the standby and lets clients reach it.
func (p *PostgresPair) FailOver(t testing.TB) {
	t.Helper()
	p.Primary.Crash()
	p.Clients.Refuse()
	p.Log.Refuse()
	if err := p.Standby.Promote(); err != nil {
		t.Fatal(err)
	}
	p.Clients.Retarget(p.Standby.Addr())
	p.Clients.Restore()
}

// PgBouncer starts a PgBouncer in transaction mode before a server. Lines are further ones of its
// configuration. It ends with the test.
func PgBouncer(t testing.TB, before *postgres.Server, lines ...string) *postgres.Bouncer {
	t.Helper()
	b, err := postgres.StartBouncer(before, lines...)
	if err != nil {
		t.Fatalf("start PgBouncer: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("remove PgBouncer: %v", err)
		}
	})
	return b
}
