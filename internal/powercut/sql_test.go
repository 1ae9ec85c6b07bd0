package powercut_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/oncekit/once/internal/powercut"
)

// A mode is how the database is written.
type mode struct{ journal, synchronous string }

func (m mode) String() string { return m.journal + "/" + m.synchronous }

// connect asks for a checkpoint after a few pages, so that cuts come in the midst of those too.
func connect(t *testing.T, d *powercut.Disk, m mode) (*sqlite3.Conn, error) {
	t.Helper()
	c, err := sqlite3.Open("file:/once.db?vfs=" + d.Register(t))
	if err != nil {
		return nil, err
	}
	err = c.Exec(fmt.Sprintf(`PRAGMA page_size=1024; PRAGMA journal_mode=%s;
		PRAGMA synchronous=%s; PRAGMA wal_autocheckpoint=6`, m.journal, m.synchronous))
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// prepared returns a disk with an empty table, all of it durable.
func prepared(t *testing.T, m mode) *powercut.Disk {
	t.Helper()
	d := powercut.NewDisk(0)
	c, err := connect(t, d, mode{m.journal, "EXTRA"})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Exec(`CREATE TABLE receipt(id INTEGER PRIMARY KEY, body BLOB NOT NULL);
		CREATE TABLE total(n INTEGER NOT NULL); INSERT INTO total VALUES (0)`)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return d
}

const commitsPerLoad = 12

// load commits rows 1, 2, … and a counter beside them, and returns how many commits were
// acknowledged before the power failed.
func load(t *testing.T, d *powercut.Disk, m mode) (acknowledged int) {
	t.Helper()
	c, err := connect(t, d, m)
	if err != nil {
		return 0 // the cut came that early
	}
	defer c.Close()
	for id := 1; id <= commitsPerLoad; id++ {
		err := c.Exec(fmt.Sprintf(`BEGIN IMMEDIATE;
			INSERT INTO receipt VALUES (%d, zeroblob(700));
			UPDATE total SET n = n + 1; COMMIT`, id))
		if err != nil {
			select {
			case <-d.Off():
			default:
				t.Fatalf("commit %d with power: %v", id, err)
			}
			return acknowledged
		}
		acknowledged = id
	}
	return acknowledged
}

// recovered opens what survived and returns how many commits are there, or what is wrong with it.
func recovered(t *testing.T, d *powercut.Disk, m mode) (commits int, err error) {
	t.Helper()
	defer d.Close()
	c, err := connect(t, d, m)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	var text string
	if err := row(c, `PRAGMA integrity_check`, &text); err != nil || text != "ok" {
		return 0, fmt.Errorf("integrity: %s: %w", text, err)
	}
	var got string
	err = row(c, `SELECT n || ' ' || (SELECT count(*) FROM receipt) || ' ' ||
		(SELECT coalesce(max(id), 0) FROM receipt) FROM total`, &got)
	if err != nil {
		return 0, err
	}
	var rows, last int
	if _, err := fmt.Sscan(got, &commits, &rows, &last); err != nil {
		return 0, err
	}
	if rows != commits || last != commits {
		return 0, fmt.Errorf("counter %d beside %d rows, last %d", commits, rows, last)
	}
	return commits, nil
}

// cutRecovery lets the power fail again while SQLite repairs what the first cut left.
func cutRecovery(t *testing.T, d *powercut.Disk, m mode, after int) *powercut.Disk {
	t.Helper()
	d.CutAfter(after)
	if c, err := connect(t, d, m); err == nil {
		var busy string
		_ = row(c, `PRAGMA wal_checkpoint(TRUNCATE)`, &busy) // most often cut
		c.Close()
	}
	defer d.Close()
	return d.Survive()
}

func row(c *sqlite3.Conn, query string, dest *string) error {
	s, _, err := c.Prepare(query)
	if err != nil {
		return err
	}
	defer s.Close()
	if s.Step() {
		*dest = s.ColumnText(0)
	}
	return s.Err()
}

// A verdict sums up the power cuts of one mode.
type verdict struct {
	cuts   int
	midway int     // cuts with some commits acknowledged and some not
	extra  int     // where the commit in flight had arrived
	lost   int     // where acknowledged commits are missing
	broken []error // where the database is damaged
}

// cutOften cuts the power at random points of the load and looks at what survived.
func cutOften(t *testing.T, m mode, cuts int) (v verdict) {
	t.Helper()
	base := prepared(t, m)
	whole := base.SurviveWith(0)
	if n := load(t, whole, m); n != commitsPerLoad {
		t.Fatalf("%d commits without a cut, want %d", n, commitsPerLoad)
	}
	whole.Close()
	span := whole.Ops()
	if n := whole.Counts("/once.db").Syncs; m == (mode{"WAL", "FULL"}) && n < 2 {
		t.Fatalf("%d checkpoints in the load: too few to cut in", n)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for seed := range uint64(cuts) {
		d := base.SurviveWith(seed)
		d.CutAfter(1 + r.IntN(span))
		acknowledged := load(t, d, m)
		select {
		case <-d.Off():
		default:
			t.Fatalf("seed %d: the power did not fail", seed)
		}
		survived := d.Survive()
		d.Close()
		if seed%3 == 0 {
			survived = cutRecovery(t, survived, m, 1+r.IntN(8))
		}
		commits, err := recovered(t, survived, m)
		v.cuts++
		if acknowledged > 0 && acknowledged < commitsPerLoad {
			v.midway++
		}
		switch {
		case err != nil:
			v.broken = append(v.broken, fmt.Errorf("seed %d: %w", seed, err))
		case commits < acknowledged:
			v.lost++
		case commits > acknowledged:
			v.extra++
		}
	}
	t.Logf("%d cuts, %d midway: commits lost in %d, one more than acknowledged in %d, %d broken",
		v.cuts, v.midway, v.lost, v.extra, len(v.broken))
	return v
}

func TestI08_AcknowledgedCommitsSurvivePowerCuts(t *testing.T) {
	for _, tc := range []struct {
		mode mode
		cuts int
	}{
		{mode{"WAL", "FULL"}, 200},
		{mode{"DELETE", "EXTRA"}, 60},
		{mode{"TRUNCATE", "FULL"}, 60},
	} {
		t.Run(tc.mode.String(), func(t *testing.T) {
			v := cutOften(t, tc.mode, tc.cuts)
			if v.lost > 0 || len(v.broken) > 0 {
				t.Fatalf("%d of %d cuts lost commits, %d broke the database: %v",
					v.lost, v.cuts, len(v.broken), v.broken)
			}
			if v.midway < tc.cuts/2 {
				t.Fatalf("only %d of %d cuts came in the middle of the load", v.midway, v.cuts)
			}
		})
	}
}

func TestI08_WithoutSyncsAcknowledgedCommitsAreLost(t *testing.T) {
	for _, m := range []mode{{"WAL", "OFF"}, {"DELETE", "OFF"}} {
		t.Run(m.String(), func(t *testing.T) {
			if v := cutOften(t, m, 30); v.lost+len(v.broken) == 0 {
				t.Fatalf("%d cuts lost nothing: this disk proves nothing", v.cuts)
			}
		})
	}
}

// SQLite promises a consistent database here, but not the last commits: NORMAL syncs the WAL
// only before a checkpoint, and FULL doesn't sync the deletion of the journal that commits.
func TestWeakerModesLoseCommitsButStayConsistent(t *testing.T) {
	for _, m := range []mode{{"WAL", "NORMAL"}, {"DELETE", "FULL"}} {
		t.Run(m.String(), func(t *testing.T) {
			v := cutOften(t, m, 60)
			if n := len(v.broken); n > 0 {
				t.Fatalf("%d of %d databases are broken: %v", n, v.cuts, v.broken)
			}
			if v.lost == 0 {
				t.Fatalf("%d cuts lost nothing: this disk is kinder than a real one", v.cuts)
			}
		})
	}
}
