package oncepg_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/oncepg"
	"github.com/oncekit/once/write"
)

// over opens a writer over one table.
func over(t *testing.T, table, sql string) (*pgxpool.Pool, *oncepg.Writer) {
	t.Helper()
	p := pool(t, testserver.Postgres(t).URL())
	exec(t, p, sql)
	return p, open(t, p, target(table))
}

const typesTable = `
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE DOMAIN positive AS numeric(10,2) CHECK (VALUE > 0);
CREATE TABLE x (
	id text PRIMARY KEY,
	i2 smallint, i4 int, i8 bigint, num numeric, cents numeric(10,2), f4 real, f8 float8,
	pos positive, t text, v varchar(5), u uuid, m mood, b bool, d date, ts timestamp,
	tz timestamptz, by bytea, js json, jb jsonb, ta text[], ia int[], iv interval, inet inet
)`

func TestValuesOfAllTypesArriveExactly(t *testing.T) {
	t.Parallel()
	p, w := over(t, "x", typesTable)
	moment := time.Date(2030, 1, 2, 1, 4, 5, 123456789, time.FixedZone("", 3*3600))
	r, err := w.Write(t.Context(), write.Event{
		ID: "e", In: "x", Key: "k", Change: write.Insert{Set: write.Fields{
			"i2": 7, "i4": 1.0, "i8": 1<<62 + 1,
			"num":   json.Number("123456789012345678901234567890.10"),
			"cents": 0.1, "f4": 0.5, "f8": 0.1, "pos": json.Number("1.10"), "t": `{"it's\",NULL}`,
			"v": "äöüß ", "u": "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "m": "bad", "b": true,
			"d": moment, "ts": moment, "tz": moment, "by": []byte{0, 1, 255},
			"js": map[string]any{"n": json.Number("1e400"), "l": []any{1, "x", nil}},
			"jb": "text", "ta": []any{"a\"b\\", nil, "NULL", "", "{}"}, "ia": []any{1, nil},
			"iv": "1 day", "inet": "192.0.2.1",
		}},
	})
	if err != nil {
		t.Fatalf("%+v, %v", r, err)
	}
	for column, want := range map[string]string{
		"i2": "7", "i4": "1", "i8": "4611686018427387905",
		"num": "123456789012345678901234567890.1", "cents": "0.10", "f4": "0.5", "f8": "0.1",
		"pos": "1.10", "t": `{"it's\",NULL}`, "v": "äöüß ",
		"u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "m": "bad", "b": "true", "d": "2030-01-01",
		"ts": "2030-01-01 22:04:05.123456", "tz": "2030-01-01 22:04:05.123456+00",
		"by": `\x0001ff`, "js": `{"l":[1,"x",null],"n":1e400}`, "jb": `"text"`,
		"ta": `{"a\"b\\",NULL,"NULL","","{}"}`, "ia": "{1,NULL}", "iv": "1 day", "inet": "192.0.2.1/32",
	} {
		got := one[string](t, p, "SELECT "+column+"::text FROM x")
		if got != want {
			t.Errorf("%s: %s, want %s", column, got, want)
		}
	}
}

func TestAValueThatDoesNotFitIsAShapeErrorAndChangesNothing(t *testing.T) {
	t.Parallel()
	p, w := over(t, "x", typesTable+"; INSERT INTO x (id, i2, jb) VALUES ('k', 32767, '{}')")
	set := func(name string, v any) write.Change { return write.Upsert{Set: write.Fields{name: v}} }
	for i, c := range []struct {
		change write.Change
		field  string
	}{
		{set("missing", 1), "missing"},
		{set("i4", "12"), "i4"},
		{set("t", 12), "t"},
		{set("b", "true"), "b"},
		{set("b", 1), "b"},
		{set("by", "x"), "by"},
		{set("tz", 5), "tz"},
		{set("ta", "x"), "ta"},
		{set("ta", []any{1}), "ta"},
		{set("ia", []any{[]any{1}}), "ia"},
		{set("t", map[string]any{}), "t"},
		{set("jb", []byte("x")), "jb"},
		{set("iv", 5), "iv"},
		{write.Increment{By: write.Fields{"t": 1}}, "t"},
		{write.Increment{By: write.Fields{"missing": 1}}, "missing"},
		{write.Append{To: "t", Values: []any{"x"}}, "t"},
		{write.Append{To: "jb", Values: []any{"x"}}, "jb"}, // an object
		{write.Append{To: "ia", Values: []any{"x"}}, "ia"},
		{write.Transition{Field: "i4", From: []string{"1"}, To: "2"}, "i4"},
		{write.Upsert{Set: write.Fields{"b": "x"}, Newer: "b"}, "b"},
		{write.Upsert{Set: write.Fields{"u": "x"}, Increment: write.Fields{"jb": 1}}, "jb"},
		// What only the database sees; it names no column.
		{set("i4", 1.5), ""},
		{set("i4", 1<<40), ""},
		{set("v", "toolong"), ""},
		{set("m", "ugly"), ""},
		{set("u", "no uuid"), ""},
		{set("tz", "yesterday noon"), ""},
		{set("pos", -1), ""},
		{set("cents", 1e9), ""},
		{write.Increment{By: write.Fields{"i2": 1}}, ""},
	} {
		_, err := w.Write(t.Context(), write.Event{
			ID: fmt.Sprint(i), In: "x", Key: "k", Change: c.change,
		})
		var shape *write.ShapeError
		if !errors.As(err, &shape) || shape.In != "x" || shape.Field != c.field {
			t.Errorf("%v: %v, want one about %q", c.change, err, c.field)
		}
	}
	const same = "SELECT count(*) FROM x WHERE id = 'k' AND i2 = 32767 AND jb = '{}'"
	if one[int](t, p, same) != 1 || one[int](t, p, "SELECT count(*) FROM x") != 1 {
		t.Error("a row changed")
	}
	if n := one[int](t, p, "SELECT count(*) FROM once_events"); n != 0 {
		t.Errorf("%d events are remembered", n)
	}
}

func TestAnErrorHoldsNoValue(t *testing.T) {
	t.Parallel()
	_, w := over(t, "x", typesTable)
	_, err := w.Write(t.Context(), write.Event{
		ID: "e", In: "x", Key: "k", Change: write.Upsert{Set: write.Fields{"u": "secret"}},
	})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
	var pg *oncepg.Error
	if !errors.As(err, &pg) || pg.Code != "22P02" {
		t.Errorf("%+v", pg)
	}
}

// A row that is there is changed, whatever a new row with the same values would break.
func TestConstraintsAreHeldAgainstTheRowThatIsToBe(t *testing.T) {
	t.Parallel()
	p, w := over(t, "x", `CREATE TABLE x (
	id text PRIMARY KEY, owner text NOT NULL, n int CHECK (n >= 0), code text UNIQUE
); INSERT INTO x VALUES ('k', 'me', 10, 'a'), ('l', 'me', 10, 'b')`)
	r, err := w.Write(t.Context(), add2("e1", "k", write.Increment{By: write.Fields{"n": -4}}))
	if err != nil || r.Numbers["n"] != int64(6) {
		t.Errorf("%+v, %v", r, err)
	}
	for i, c := range []write.Event{
		add2("e2", "k", write.Increment{By: write.Fields{"n": -7}}),
		add2("e3", "new", write.Increment{By: write.Fields{"n": 1}}),
		add2("e4", "k", write.Upsert{Set: write.Fields{"owner": nil}}),
		add2("e5", "k", write.Upsert{Set: write.Fields{"code": "b"}}),
	} {
		if _, err := w.Write(t.Context(), c); !errors.Is(err, write.ErrShape) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if n := one[int](t, p, "SELECT n FROM x WHERE id = 'k'"); n != 6 {
		t.Errorf("n is %d, want 6", n)
	}
}

// What is only checked at the commit undoes the event as well.
func TestADeferredConstraintUndoesTheEvent(t *testing.T) {
	t.Parallel()
	p, w := over(t, "x", `CREATE TABLE y (id int PRIMARY KEY); CREATE TABLE x (
	id text PRIMARY KEY, n int, y int REFERENCES y DEFERRABLE INITIALLY DEFERRED)`)
	bad := add2("e1", "k", write.Upsert{Set: write.Fields{"y": 1}})
	if _, err := w.Write(t.Context(), bad); !errors.Is(err, write.ErrShape) {
		t.Errorf("%v", err)
	}
	rs, err := w.WriteAll(t.Context(), []write.Event{
		add2("e2", "k", write.Increment{By: write.Fields{"n": 1}}), bad,
		add2("e3", "l", write.Increment{By: write.Fields{"n": 1}}),
	})
	if err != nil || rs[0].Outcome != write.Applied || !errors.Is(rs[1].Err, write.ErrShape) ||
		rs[2].Outcome != write.Applied {
		t.Errorf("%+v, %v", rs, err)
	}
	if n := one[int](t, p, "SELECT count(*) FROM once_events"); n != 2 {
		t.Errorf("%d events are remembered, want 2", n)
	}
}

// A limit of the user's own ends a wait.
func TestAStatementTimeoutIsBusy(t *testing.T) {
	t.Parallel()
	db := testserver.Postgres(t)
	admin := pool(t, db.URL())
	exec(t, admin, suiteTables+"; INSERT INTO counters VALUES (1, 1)")
	open(t, admin, config())
	w, err := oncepg.NewWriter(pool(t, db.URL()+"&statement_timeout=1s"), config())
	if err != nil {
		t.Fatal(err)
	}
	tx, err := admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE counters SET n = 2"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(t.Context(), add("e", 1, 1)); !errors.Is(err, write.ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// More columns than one function of PostgreSQL takes names and values.
func TestManyColumnsAreAddedToAtOnce(t *testing.T) {
	t.Parallel()
	var columns []string
	by := write.Fields{}
	for i := range 100 {
		columns = append(columns, fmt.Sprintf("n%d int", i))
		by[fmt.Sprintf("n%d", i)] = i
	}
	_, w := over(t, "x", "CREATE TABLE x (id text PRIMARY KEY, "+strings.Join(columns, ",")+")")
	for round := range 2 {
		r, err := w.Write(t.Context(), add2(fmt.Sprint(round), "k", write.Increment{By: by}))
		if err != nil || len(r.Numbers) != 100 || r.Numbers["n99"] != int64(99*(round+1)) {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

func add2(id string, key any, c write.Change) write.Event {
	return write.Event{ID: id, In: "x", Key: key, Change: c}
}

// G03: neither a duplicate nor a change that the database refuses spoils a caller's transaction.
func TestACallersTransactionGoesOnAfterARefusalG03(t *testing.T) {
	t.Parallel()
	p, w := over(t, "x", `CREATE TABLE x (id text PRIMARY KEY, owner text NOT NULL, n smallint);
INSERT INTO x VALUES ('k', 'me', 1)`)
	tx, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	in := w.WithTx(tx)
	inc := write.Increment{By: write.Fields{"n": 1}}
	if _, err := in.Write(t.Context(), add2("e1", "k", inc)); err != nil {
		t.Fatal(err)
	}
	if r, err := in.Write(t.Context(), add2("e1", "k", inc)); err != nil ||
		r.Outcome != write.Duplicate {
		t.Errorf("%+v, %v", r, err)
	}
	for _, c := range []write.Event{
		add2("e2", "new", inc), // NOT NULL
		add2("e3", "k", write.Increment{By: write.Fields{"n": 32767}}),
		add2("e4", "k", write.Upsert{Set: write.Fields{"gone": 1}}),
	} {
		if _, err := in.Write(t.Context(), c); !errors.Is(err, write.ErrShape) {
			t.Errorf("%v", err)
		}
	}
	rs, err := in.WriteAll(t.Context(), []write.Event{
		add2("e5", "k", inc), add2("e6", "new", inc), add2("e7", "k", inc),
	})
	if err != nil || rs[0].Outcome != write.Applied || !errors.Is(rs[1].Err, write.ErrShape) ||
		rs[2].Numbers["n"] != int64(4) {
		t.Errorf("%+v, %v", rs, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, p, "SELECT n::int FROM x"); n != 4 {
		t.Errorf("n is %d, want 4", n)
	}
}

func TestARolledBackTransactionTakesItsEventsWithIt(t *testing.T) {
	t.Parallel()
	p, w := fresh(t)
	tx, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WithTx(tx).Write(t.Context(), add("e", 1, 1)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := w.Write(t.Context(), add("e", 1, 1))
	if err != nil || r.Outcome != write.Applied || r.Numbers["n"] != int64(1) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestATableThatChangesIsReadAgain(t *testing.T) {
	t.Parallel()
	p, w := over(t, "x", "CREATE TABLE x (id text PRIMARY KEY, n int, old int)")
	both := write.Upsert{Set: write.Fields{"n": 1, "old": 1}}
	if _, err := w.Write(t.Context(), add2("e1", "k", both)); err != nil {
		t.Fatal(err)
	}
	exec(t, p, "ALTER TABLE x DROP old, ADD fresh text, ALTER n TYPE numeric")
	if r, err := w.Write(t.Context(), add2("e1", "k", both)); err != nil ||
		r.Outcome != write.Duplicate {
		t.Errorf("an event from before: %+v, %v", r, err)
	}
	if _, err := w.Write(t.Context(), add2("e2", "k", both)); !errors.Is(err, write.ErrShape) {
		t.Errorf("a column that is gone: %v", err)
	}
	r, err := w.Write(t.Context(), add2("e3", "k", write.Upsert{
		Set: write.Fields{"fresh": "x"}, Increment: write.Fields{"n": 0.5},
	}))
	if err != nil || r.Numbers["n"] != json.Number("1.5") {
		t.Errorf("a new column: %+v, %v", r, err)
	}
}

func TestARefusalSaysWhatItMeans(t *testing.T) {
	t.Parallel()
	p, w := over(t, "x", "CREATE TABLE x (id text PRIMARY KEY, n smallint, v varchar(2) NOT NULL)")
	exec(t, p, "INSERT INTO x VALUES ('k', 1, 'v')")
	for want, change := range map[string]write.Change{
		"x: a number is out of the range of its column, code 22003": write.Upsert{
			Set: write.Fields{"n": 40000}},
		"x: a text is too long for its column, code 22001": write.Upsert{
			Set: write.Fields{"v": "secret"}},
		"x, v: null where its column takes none, code 23502": write.Upsert{
			Set: write.Fields{"v": nil}},
	} {
		_, err := w.Write(t.Context(), add2("e", "k", change))
		if !errors.Is(err, write.ErrShape) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// What was refused by what is known of the table alone goes through once the table was repaired.
func TestAMissingColumnThatWasAddedIsFound(t *testing.T) {
	t.Parallel()
	p, w := over(t, "x", "CREATE TABLE x (id text PRIMARY KEY, n text)")
	late := add2("e1", "k", write.Upsert{
		Set: write.Fields{"fresh": "x"}, Increment: write.Fields{"n": 2},
	})
	if _, err := w.Write(t.Context(), late); !errors.Is(err, write.ErrShape) {
		t.Fatalf("without the column: %v", err)
	}
	exec(t, p, "ALTER TABLE x ADD fresh text, ALTER n TYPE int USING n::int")
	if r, err := w.Write(t.Context(), late); err != nil || r.Outcome != write.Applied {
		t.Errorf("with the column: %+v, %v", r, err)
	}
}

// Names are quoted wherever they stand.
func TestNamesAreNeverRead(t *testing.T) {
	t.Parallel()
	const wild = `we"ird 'n\; DROP`
	quoted := `"we""ird 'n\; DROP"`
	p, w := over(t, wild, `CREATE TABLE `+quoted+` (id text PRIMARY KEY, `+quoted+` int)`)
	for i := range 2 {
		r, err := w.Write(t.Context(), write.Event{
			ID: fmt.Sprint(i), In: wild, Key: wild,
			Change: write.Increment{By: write.Fields{wild: 2}},
		})
		if err != nil || r.Numbers[wild] != int64(2*i+2) {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if n := one[int](t, p, "SELECT "+quoted+" FROM "+quoted); n != 4 {
		t.Errorf("%d, want 4", n)
	}
	r, err := w.Write(t.Context(), write.Event{
		ID: "0", In: wild, Key: "other", Change: write.Increment{By: write.Fields{wild: 2}},
	})
	if err != nil || r.Outcome != write.Conflict || r.First.In != wild || r.First.Key != wild {
		t.Errorf("%+v, %v", r, err)
	}
}

// Several spellings of one uuid are one row.
func TestAKeyOfTypeUUIDHasManySpellings(t *testing.T) {
	t.Parallel()
	p, w := over(t, "x", "CREATE TABLE x (id uuid PRIMARY KEY, n int)")
	var events []write.Event
	for i, key := range []string{
		"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
		"{a0eebc999c0b4ef8bb6d6bb9bd380a11}",
	} {
		events = append(events, add2(fmt.Sprint(i), key, write.Increment{By: write.Fields{"n": 1}}))
	}
	for range 2 {
		rs, err := w.WriteAll(t.Context(), events)
		for _, r := range rs {
			if err != nil || r.Err != nil {
				t.Fatalf("%+v, %v", r, err)
			}
		}
	}
	if n := one[int](t, p, "SELECT n FROM x"); n != 3 {
		t.Errorf("%d, want 3", n)
	}
}
