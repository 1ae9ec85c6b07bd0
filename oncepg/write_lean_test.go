package oncepg_test

import (
	"fmt"
	"testing"

	"github.com/oncekit/once/write"
)

// adds are increments of 100 rows, from one on.
func adds(id string, row int) []write.Event {
	events := make([]write.Event, 100)
	for i := range events {
		events[i] = add(fmt.Sprint(id, " ", i), row+i, 1)
	}
	return events
}

// inAccounts has them happen to rows that are wider, and whose keys are texts.
func inAccounts(events []write.Event) []write.Event {
	for i := range events {
		events[i].In, events[i].Key = "accounts", fmt.Sprint(events[i].Key)
	}
	return events
}

// A batch of one kind of change takes one round trip while all of it is new, be its rows there or
// not. It takes two when what is likely was wrong; after a batch with a repeat, or in which some
// rows are there and some not, the next ones are expected to be like it.
func TestABatchOfOneKindIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	w, count := counted(t)
	mixed := adds("mixed", 150) // half of the rows are there
	again := adds("again", 0)
	again[50] = mixed[50]
	const none, one, all = "", " 50 ", "all"
	for _, c := range []struct {
		name    string
		events  []write.Event
		trips   int64
		repeats string
	}{
		{"the rows are not there", adds("a", 0), 2, none},
		{"nor are these", adds("b", 100), 1, none},
		{"now they are", adds("c", 0), 2, none},
		{"still", adds("d", 100), 1, none},
		{"some are", mixed, 2, none},
		{"some are, again", append(adds("e", 0)[:50:50], adds("f", 300)[:50]...), 1, none},
		{"one event is a repeat", again, 1, one},
		{"all are repeats", again, 1, all},
	} {
		before := count.batches.Load()
		rs, err := w.WriteAll(t.Context(), c.events)
		if err != nil {
			t.Fatal(err)
		}
		if n := count.batches.Load() - before; n != c.trips {
			t.Errorf("%s: %d round trips, want %d", c.name, n, c.trips)
		}
		for i, r := range rs {
			want := write.Applied
			if c.repeats == all || c.repeats == fmt.Sprintf(" %d ", i) {
				want = write.Duplicate
			}
			if r.Err != nil || r.Outcome != want {
				t.Errorf("%s: event %d: %+v, want it %s", c.name, i, r, want)
			}
		}
	}
}

// A batch is committed as a whole: also if what is likely can be done for a part of it only.
func TestABatchIsNotDoneByHalves(t *testing.T) {
	t.Parallel()
	p, w := fresh(t)
	if _, err := w.WriteAll(t.Context(), adds("a", 0)); err != nil {
		t.Fatal(err)
	}
	exec(t, p, `CREATE FUNCTION halt() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN IF NEW.id = 199 THEN RAISE 'halt' USING ERRCODE = '57014'; END IF; RETURN NEW; END $$;
CREATE TRIGGER halt BEFORE INSERT ON counters FOR EACH ROW EXECUTE FUNCTION halt()`)
	events := append(adds("b", 0)[:50:50], adds("c", 150)[:50]...) // half of the rows are there
	if rs, err := w.WriteAll(t.Context(), events); err == nil {
		t.Fatalf("%+v", rs)
	}
	const all = "SELECT count(*) || ' ' || sum(n) || ' ' || " +
		"(SELECT count(*) FROM once_events) FROM counters"
	if s := one[string](t, p, all); s != "100 100 100" {
		t.Errorf("%s, want what the first batch did", s)
	}
}

// Plans are kept from when the tables were empty, and no statistics are made meanwhile. Rows are
// found by the indexes all the same.
func TestABatchReadsNoWholeTableAsItGrows(t *testing.T) {
	t.Parallel()
	w, count := counted(t) // over one connection, so that its plans are kept
	p := count.pool
	scans := func() int64 {
		exec(t, p, "SELECT pg_stat_force_next_flush()")
		return one[int64](t, p, `SELECT sum(seq_scan) FROM pg_stat_user_tables
WHERE relname IN ('accounts', 'counters', 'once_events')`)
	}
	for _, name := range []string{"accounts", "counters", "once_events"} {
		exec(t, p, "ALTER TABLE "+name+" SET (autovacuum_enabled = false)")
	}
	var before int64
	for round := range 20 {
		if round == 2 {
			before = scans()
		}
		for _, part := range []string{"insert", "update"} {
			id := fmt.Sprint(part, round)
			for _, events := range [][]write.Event{
				adds(id, round*100), inAccounts(adds("wide "+id, round*100)),
			} {
				rs, err := w.WriteAll(t.Context(), events)
				if err != nil || rs[99].Outcome != write.Applied {
					t.Fatalf("%+v, %v", rs, err)
				}
			}
		}
	}
	if n := scans() - before; n != 0 {
		t.Errorf("whole tables were read %d times", n)
	}
}
