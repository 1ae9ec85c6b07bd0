package oncemongo_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once"
)

// B14: of two nodes with different clocks both judge by the server's. So no decision about a record
// may look at the clock of the machine that it runs on.
func TestB14_NothingAboutARecordIsJudgedByThisMachinesClock(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("record*.go")
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		looked++
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, _ := s.X.(*ast.Ident)
			if pkg != nil && pkg.Name == "time" &&
				slices.Contains([]string{"Now", "Since", "Until"}, s.Sel.Name) {
				t.Errorf("%s reads time.%s", name, s.Sel.Name)
			}
			return true
		})
	}
	if looked < 6 {
		t.Errorf("%d files, want those of the records", looked)
	}
}

// B14: a lease ends for all nodes when the server's clock says so, and for none before.
func TestB14_ALeaseEndsByTheServersClock(t *testing.T) {
	t.Parallel()
	s, db := someRecords(t)
	c := recordClaim("leased")
	c.Lease = 20 * time.Second
	g := claimRecord(t, s, c)
	other := sameRecords(t, db) // another node
	_, err := other.Claim(testContext(t), recordClaim("leased"))
	wantError(t, "while the lease runs", err, once.ErrInFlight)
	s.Advance(40 * time.Second) // the server's clock, as both of them read it
	other.KeepClock(s)
	next := claimRecord(t, other, recordClaim("leased"))
	if !next.Takeover || next.Fence <= g.Fence {
		t.Errorf("granted %+v after %+v", next, g)
	}
	wantError(t, "the first owner", s.Renew(testContext(t), g, time.Hour), once.ErrLeaseLost)
}
