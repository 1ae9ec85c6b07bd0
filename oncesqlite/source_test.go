package oncesqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// toLine routes every callback to the lane of another source, but what is called "strange" or
// "bad".
func toLine(row queue.Row) (queue.Arrival, error) {
	a := queue.Arrival{State: queue.Pending, Lane: "http/new", OrderKey: row.OrderKey, Event: "e"}
	switch string(row.Body) {
	case "strange":
		a.State = queue.Unrouted
	case "bad":
		return a, errors.New("event: no such field")
	}
	return a, nil
}

func TestTheCallbacksOfAMovedSourceAreWorkedByTheOther(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db"), segmentRows: 4})
	for _, c := range []struct{ name, key string }{
		{"done", ""}, {"late", "A"}, {"behind", "A"}, {"dead", "B"}, {"blocked", "B"},
		{"strange", ""}, {"bad", ""}, {"held", ""}, {"unrouted", ""},
	} {
		a := callback(c.name)
		a.OrderKey = c.key
		if c.name == "unrouted" {
			a.State = queue.Unrouted
		}
		mustAppend(t, s, a)
	}
	for _, row := range mustLease(t, s, testLane, 10) {
		set, ok := map[string]queue.Settlement{
			"done": {State: queue.Done},
			"late": {State: queue.Pending, RetryIn: time.Hour},
			"dead": {State: queue.Dead, DeadCause: queue.CausePermanent, Block: true},
			"held": {State: queue.Held},
		}[string(row.Body)]
		if !ok {
			set = queue.Settlement{NotTried: true}
		}
		mustSettle(t, s, row, set)
	}
	parked := flowRow("parked", "early")
	parked.Source = "robots"
	mustAppend(t, s, parked)
	mustSettle(t, s, mustLease(t, s, "flow", 1)[0], queue.Settlement{State: queue.Parked,
		Park: &queue.Park{Waits: []string{"task/transport/T"}, Limit: time.Hour}})

	n, err := s.MoveSource(t.Context(), "robots", "plant", toLine)
	if err != nil || n != 9 {
		t.Fatalf("%d moved, want all 9 but the one that is done: %v", n, err)
	}
	if n := scan(t, s, "SELECT count(*) FROM waits")[0]; n != 0 {
		t.Errorf("%d waits are left", n)
	}
	for name, want := range map[string]queue.State{
		"late": queue.Pending, "behind": queue.Pending, "dead": queue.Dead,
		"blocked": queue.Pending, "strange": queue.Unrouted, "bad": queue.Dead,
		"held": queue.Held, "unrouted": queue.Unrouted, "parked": queue.Pending,
	} {
		row := rowOf(t, s, queue.Callback, identityOf(name))
		if row.State != want || row.Source != "plant" {
			t.Errorf("%s is %s of %s, want %s of plant", name, row.State, row.Source, want)
		}
	}
	if row := rowOf(t, s, queue.Callback, identityOf("done")); row.Source != "robots" {
		t.Errorf("what is remembered is of %s now", row.Source)
	}
	if row := rowOf(t, s, queue.Callback, identityOf("bad")); row.Error !=
		"source plant can't take it: event: no such field" {
		t.Errorf("the reason is %q", row.Error)
	}
	var got []string
	for _, row := range mustLease(t, s, "http/new", 10) {
		got = append(got, string(row.Body))
	}
	if len(got) != 2 || got[0] != "late" || got[1] != "parked" {
		t.Errorf("leased %q, want late and parked: the others stand behind them or need a person",
			got)
	}
	if rows := mustLease(t, s, testLane, 10); len(rows) != 0 {
		t.Errorf("the old lane still has %d", len(rows))
	}
	if n, err := s.MoveSource(t.Context(), "robots", "plant", toLine); n != 0 || err != nil {
		t.Errorf("a second time %d moved, %v", n, err)
	}
	checkFile(t, s)
}

func TestACallbackWhosePlaceNobodyKnowsIsADeadLetterAndTheOthersGoOn(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db")})
	mustAppend(t, s, callback("no task"), callback("good"))
	n, err := s.RerouteSource(t.Context(), "robots", testLane, "",
		func(r queue.Row) (queue.Arrival, error) {
			if string(r.Body) == "no task" {
				return queue.Arrival{}, errors.New("task: body.task: no such field")
			}
			return toLine(r)
		})
	if n != 2 || err != nil {
		t.Fatalf("%d moved, %v", n, err)
	}
	row := rowOf(t, s, queue.Callback, identityOf("no task"))
	if row.State != queue.Dead || row.DeadCause != queue.CausePermanent ||
		!strings.Contains(row.Error, "body.task: no such field") {
		t.Errorf("it is %s (%s): %s", row.State, row.DeadCause, row.Error)
	}
	if rows := mustLease(t, s, "http/new", 5); len(rows) != 1 || string(rows[0].Body) != "good" {
		t.Errorf("leased %+v", rows)
	}
	checkFile(t, s)
}

func TestADiscardedSourceKeepsWhatIsRemembered(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db")})
	mustAppend(t, s, callback("done"))
	mustSettle(t, s, mustLease(t, s, testLane, 1)[0], queue.Settlement{State: queue.Done})
	mustAppend(t, s, callback("open"))
	if n, err := s.DiscardSource(t.Context(), "robots", "gone"); n != 1 || err != nil {
		t.Fatalf("%d discarded, %v", n, err)
	}
	done := rowOf(t, s, queue.Callback, identityOf("done"))
	open := rowOf(t, s, queue.Callback, identityOf("open"))
	if done.State != queue.Done || open.State != queue.Discarded || open.Error != "gone" {
		t.Errorf("they are %s, and %s: %s", done.State, open.State, open.Error)
	}
	checkFile(t, s)
}

func TestACallbackWithoutAPlaceInTheNewTargetIsUnrouted(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db")})
	mustAppend(t, s, callback("strange"), callback("good"))
	n, err := s.RerouteSource(t.Context(), "robots", testLane, "", toLine)
	if n != 2 || err != nil {
		t.Fatalf("%d moved, %v", n, err)
	}
	row := rowOf(t, s, queue.Callback, identityOf("strange"))
	if row.State != queue.Unrouted {
		t.Errorf("it is %s", row.State)
	}
	if rows := mustLease(t, s, "http/new", 5); len(rows) != 1 || string(rows[0].Body) != "good" {
		t.Errorf("leased %+v", rows)
	}
	checkFile(t, s)
}

func TestAReaderSeesAStoreThatAServerHasAndLeavesOneAloneThatNobodyHas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "once.db")
	if _, err := OpenReader(path); !errors.Is(err, once.ErrNotFound) {
		t.Fatalf("no store is %v", err)
	}
	s := openAt(t, Config{Path: path})
	mustAppend(t, s, flowRow("a", "go"))
	if err := s.SavePlan(t.Context(), []byte("plan")); err != nil {
		t.Fatal(err)
	}
	look := func(when, path string) {
		t.Helper()
		r, err := OpenReader(path)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		plan, perr := r.Plan(t.Context())
		counts, cerr := r.Counts(t.Context())
		used, uerr := r.EventInUse(t.Context(), "transport", "go")
		if err := errors.Join(perr, cerr, uerr, r.Close()); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		key := queue.RowCount{Kind: queue.Callback, Source: "robots", State: queue.Pending}
		if string(plan) != "plan" || counts.Rows[key] != 1 || !used {
			t.Errorf("%s: plan %q, counts %v, event used: %t", when, plan, counts.Rows, used)
		}
	}
	look("while a server has it", path)
	killed := filepath.Join(t.TempDir(), "once.db") // as a kill leaves it
	files := map[string]string{
		killed: fileBytes(t, path), killed + "-wal": fileBytes(t, path+"-wal"),
	}
	for name, content := range files {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	look("after the server has ended", path)
	look("after it was killed", killed)
	for name, content := range files {
		if fileBytes(t, name) != content {
			t.Errorf("reading has changed %s", filepath.Base(name))
		}
	}
	openAt(t, Config{Path: path})
}

// fileBytes is what a file holds.
func fileBytes(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestNobodyElseCanReadAStoreOrABackup(t *testing.T) {
	dir := t.TempDir()
	path, backup := filepath.Join(dir, "once.db"), filepath.Join(dir, "backup.db")
	s := openAt(t, Config{Path: path})
	mustAppend(t, s, callback("a"))
	if err := Backup(t.Context(), path, backup, nil); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{path, path + "-wal", path + "-shm", path + ".lock", backup} {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %o, want 600", filepath.Base(file), mode)
		}
	}
}
