package oncesqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// checkPlaces says what is wrong with the places of rows, in memory and in the table.
func checkPlaces(s *Store, c *conn) error {
	astray, err := c.int("SELECT count(*) FROM places p LEFT JOIN rows r " +
		"ON r.seq = p.seq AND substr(r.identity, 1, 8) = p.place WHERE r.seq IS NULL")
	if err != nil || astray > 0 {
		return errors.Join(err, fmt.Errorf("%d places without a row", astray))
	}
	missing, err := c.int("SELECT count(*) FROM rows r " +
		"WHERE seq <= (SELECT value FROM meta WHERE name = 'placed') AND NOT EXISTS " +
		"(SELECT 1 FROM places p WHERE p.seq = r.seq AND p.place = substr(r.identity, 1, 8))")
	if err != nil || missing > 0 {
		return errors.Join(err, fmt.Errorf("%d rows without a place", missing))
	}
	return c.query("SELECT seq, identity FROM rows", func(r *stmt) error {
		seqs, err := s.rowsAt(c, r.blob(1))
		if err == nil && !slices.Contains(seqs, r.int(0)) {
			err = fmt.Errorf("row %d is not found", r.int(0))
		}
		return err
	})
}

// restarted closes a store and opens it again.
func restarted(t *testing.T, s *Store, path string) *Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return openAt(t, Config{Path: path})
}

func TestARepeatIsKnownWhereverThePlaceOfItsRowIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "once.db")
	s := openAt(t, Config{Path: path})
	moved := false
	for i := range 3 * placeGeneration {
		if r := mustAppend(t, s, callback(fmt.Sprint(i)))[0]; r.Outcome != queue.Accepted {
			t.Fatalf("callback %d: %s", i, r.Outcome)
		}
		if i%7 == 0 { // also amid the move of a generation
			moved = moved || scan(t, s, "SELECT count(*) FROM places WHERE seq > "+
				"(SELECT coalesce(max(value), 0) FROM meta WHERE name = 'placed')")[0] > 0
			s = restarted(t, s, path)
		}
		s.known.clear() // it would answer
		for n := i % 5; n <= i; n += 5 {
			if r := mustAppend(t, s, callback(fmt.Sprint(n)))[0]; r.Outcome != queue.Duplicate {
				t.Fatalf("callback %d after %d: %s", n, i, r.Outcome)
			}
		}
	}
	checkFile(t, s)
	if !moved {
		t.Error("it was never closed amid a move")
	}
	inTable := scan(t, s, "SELECT count(*) FROM places")[0]
	if all := int64(3 * placeGeneration); inTable == 0 || inTable == all {
		t.Errorf("%d of %d places are in the table: this test overlooks the others", inTable, all)
	}
}

// Two identities may share the first bytes, if only because somebody looked for them.
func TestRowsThatShareAPlaceAreDifferentOnes(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db")})
	twin := func(n int) queue.Arrival {
		a := callback(fmt.Sprint("twin ", n))
		base := identityOf("place")
		copy(a.Identity[:8], base[:8])
		return a
	}
	for n := range 3 * placeGeneration {
		if r := mustAppend(t, s, twin(n))[0]; r.Outcome != queue.Accepted {
			t.Fatalf("twin %d: %s", n, r.Outcome)
		}
	}
	s.known.clear()
	for n := range 3 * placeGeneration {
		a := twin(n)
		if r := mustAppend(t, s, a)[0]; r.Outcome != queue.Duplicate || r.Seq != int64(n+1) {
			t.Errorf("twin %d: %+v", n, r)
		}
		d, err := s.Row(t.Context(), queue.Callback, a.Identity.ID())
		if err != nil || d.Row.Identity != a.Identity {
			t.Errorf("twin %d by its id: %v, %v", n, d.Row.Identity, err)
		}
	}
	none := twin(-1)
	if _, err := s.Row(t.Context(), queue.Callback, none.Identity.ID()); !errors.Is(err,
		once.ErrNotFound) {
		t.Errorf("one that never came: %v", err)
	}
	checkFile(t, s)
}

func TestWhatIsUndoneHasNoPlace(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db")})
	wrong := errors.New("undone")
	for i := range 3 * placeGeneration {
		a := callback(fmt.Sprint(i))
		err := s.do(t.Context(), &op{run: func(x *txn) error {
			if _, _, err := x.insert(&a, 0); err != nil {
				return err
			}
			return wrong
		}})
		if !errors.Is(err, wrong) {
			t.Fatal(err)
		}
		if i%2 == 0 {
			continue
		}
		if r := mustAppend(t, s, a)[0]; r.Outcome != queue.Accepted {
			t.Fatalf("callback %d after it was undone: %s", i, r.Outcome)
		}
	}
	checkFile(t, s)
}

func TestASweptRowLeavesNoPlace(t *testing.T) {
	clock := newClock()
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db"), Now: clock.now})
	for i := range 3*placeGeneration - 5 {
		a := callback(fmt.Sprint(i))
		a.State = queue.Unrouted // done as it comes
		mustAppend(t, s, a)
	}
	clock.advance(3 * time.Hour)
	for {
		n, err := s.Sweep(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	if n := scan(t, s, "SELECT (SELECT count(*) FROM rows) + count(*) FROM places")[0]; n != 0 {
		t.Fatalf("%d rows and places are left", n)
	}
	for i := range placeGeneration {
		if r := mustAppend(t, s, callback(fmt.Sprint(i)))[0]; r.Outcome != queue.Accepted {
			t.Fatalf("callback %d, forgotten: %s", i, r.Outcome)
		}
	}
	checkFile(t, s)
}

// What is named in memory is bounded by the rows that came, however soon they are gone.
func TestAGenerationEndsAlsoIfItsRowsAreGone(t *testing.T) {
	clock := newClock()
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db"), Now: clock.now})
	for i := range 4 * placeGeneration {
		a := callback(fmt.Sprint(i))
		a.State = queue.Unrouted
		mustAppend(t, s, a)
		clock.advance(3 * time.Hour)
		if _, err := s.Sweep(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
	}
	if placed := scan(t, s, "SELECT max(value) FROM meta WHERE name = 'placed'")[0]; placed <
		int64(2*placeGeneration) {
		t.Errorf("rows up to %d are placed, want %d at least", placed, 2*placeGeneration)
	}
	checkFile(t, s)
}
