package cli_test

import (
	"os"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/testserver"
)

// sqlite3 stands in for the program of that name, which not every machine has: a script on the
// standard input, or a query.
const sqlite3 = `sqlite3() { python3 -c '
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=60)
if len(sys.argv) == 2:
    db.executescript(sys.stdin.read())
else:
    for row in db.execute(sys.argv[2]):
        print("|".join(str(v) for v in row))
' "$@"; }
`

func TestTheExampleOfALedgerKeepsTheLatestEventOfAPayment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"ledger.yaml", "schema.sql"} {
		write(t, dir, name, source(t, "examples", "ledger", name))
	}
	shell := blocks(t, "examples/ledger/README.md", "sh")
	if len(shell) != 2 {
		t.Fatalf("the page has other commands than this test knows: %q", shell)
	}
	create, ok := strings.CutSuffix(shell[0], "once serve --config ledger.yaml\n")
	send, look, found := strings.Cut(shell[1], "sleep 2\n")
	if !ok || !found {
		t.Fatalf("the page has other commands than this test knows: %q", shell)
	}
	if status, _, errs := run("config", "check", dir+"/ledger.yaml"); status != 0 || errs != "" {
		t.Errorf("the file is checked with status %d: %s", status, errs)
	}
	bash(t, dir, sqlite3+create)
	p := serve(t, dir, "--config", "ledger.yaml")
	told := bash(t, dir, p.on(send))
	if strings.Count(told, `"accepted"`) != 4 {
		t.Errorf("the page's commands say\n%s", told)
	}
	testserver.Until(t, patience, "both are worked", func() bool {
		return len(p.callbacks("state=done")) == 1 && len(p.callbacks("state=stale")) == 1
	})
	told = bash(t, dir, sqlite3+"export ONCE_SERVER="+p.admin+"\n"+look)
	const row = "pay-1|captured|1700000005|1250|1"
	if !strings.Contains(told, row+"\n") || !strings.Contains(told, "evt-1") {
		t.Errorf("the page's commands say\n%s", told)
	}
	page, err := os.ReadFile(root + "/examples/ledger/README.md")
	if err != nil || !strings.Contains(string(page), "`"+row+"`") {
		t.Errorf("the page doesn't promise the row %s", row)
	}
}
