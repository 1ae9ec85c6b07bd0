package figure

import (
	"io"
	"os"
	"testing"

	"github.com/oncekit/once/bench/internal/peer"
)

// reachable is a new folder that another user can reach, as the one of PostgreSQL has to.
func reachable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "once-bench-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a rest in the system's temporary folder
	return dir
}

func TestAPostgreSQLOfAFigureFlushesAndIsFoundAgainInItsFolder(t *testing.T) {
	b := &Bench{Dir: t.TempDir(), Log: io.Discard}
	dir := reachable(t)
	err := b.withPGIn(t.Context(), dir, func(p *pgServer) error {
		return p.ask(t.Context(), "postgres", "CREATE TABLE kept AS SELECT 17 AS n")
	})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	err = b.withPGIn(t.Context(), dir, func(p *pgServer) error {
		return p.ask(t.Context(), "postgres", "SELECT n FROM kept", &n)
	})
	if err != nil || n != 17 {
		t.Errorf("%d, error %v, want 17", n, err)
	}
}

func TestWhatTheInserterAcknowledgedIsCounted(t *testing.T) {
	b := &Bench{Dir: t.TempDir(), Log: io.Discard}
	err := b.withPGIn(t.Context(), reachable(t), func(p *pgServer) error {
		return p.database(t.Context(), func(d *database) error {
			i, err := peer.Open(t.Context(), "insert", "", d.url(2))
			if err != nil {
				return err
			}
			for _, req := range []string{"REQ-1", "REQ-2", "REQ-1"} {
				c := peer.Callback{ReqCode: req, TaskCode: "T", Method: "m", Body: []byte("{}")}
				if err := i.Accept(t.Context(), c); err != nil {
					return err
				}
			}
			if err := d.holds(t.Context(), "callbacks", 3); err == nil {
				t.Error("two rows pass for three")
			}
			return d.holds(t.Context(), "callbacks", 2)
		})
	})
	if err != nil {
		t.Error(err)
	}
}
