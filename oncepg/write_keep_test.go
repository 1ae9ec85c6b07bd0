package oncepg_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/oncepg"
	"github.com/oncekit/once/write"
)

// tableX opens a writer over a table x.
func tableX(t *testing.T, tables string) (*oncepg.Writer, func(sql string) string) {
	t.Helper()
	p := pool(t, testserver.Postgres(t).URL())
	exec(t, p, tables)
	w := open(t, p, target("x"))
	return w, func(sql string) string { return one[string](t, p, sql) }
}

func onX(id, key string, c write.Change) write.Event {
	return write.Event{ID: id, In: "x", Key: key, Change: c}
}

// A key that PostgreSQL or a trigger would make another one of is refused, alone and in a batch,
// and neither a row nor a record stays.
func TestARowThatWouldGetAnotherKeyIsNotMade(t *testing.T) {
	t.Parallel()
	const lower = `; CREATE FUNCTION lower_id() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN NEW.id := lower(NEW.id); RETURN NEW; END $$;
CREATE TRIGGER tr BEFORE INSERT ON x FOR EACH ROW EXECUTE FUNCTION lower_id()`
	for _, c := range []struct{ tables, key string }{
		{"CREATE TABLE x (id varchar(3) PRIMARY KEY, n int)", "abc "},
		{"CREATE DOMAIN d AS varchar(3); CREATE DOMAIN e AS d; " +
			"CREATE TABLE x (id e PRIMARY KEY, n int)", "abcd"},
		{"CREATE TABLE x (id text PRIMARY KEY, n int)" + lower, "ABC"},
	} {
		w, ask := tableX(t, c.tables)
		for i, change := range []write.Change{
			write.Insert{Set: write.Fields{"n": 1}}, write.Increment{By: write.Fields{"n": 1}},
		} {
			e := onX(fmt.Sprint("e", i), c.key, change)
			if r, err := w.Write(t.Context(), e); !errors.Is(err, write.ErrShape) {
				t.Errorf("%s: %+v, %v", c.tables, r, err)
			}
		}
		rs, err := w.WriteAll(t.Context(), []write.Event{
			onX("a", "one", write.Insert{}), onX("b", c.key, write.Insert{}),
		})
		if err != nil || rs[0].Outcome != write.Applied || !errors.Is(rs[1].Err, write.ErrShape) {
			t.Errorf("%s: %+v, %v", c.tables, rs, err)
		}
		const all = "SELECT (SELECT string_agg(id, ',') FROM x) || ' ' || " +
			"(SELECT string_agg(id, ',') FROM once_events)"
		if s := ask(all); s != "one a" {
			t.Errorf("%s: %q stay, want %q", c.tables, s, "one a")
		}
	}
}

// A cast to a domain over varchar(3) cuts; an assignment to the column refuses.
func TestAValueForADomainIsNotCut(t *testing.T) {
	t.Parallel()
	w, _ := tableX(t, "CREATE DOMAIN d AS varchar(3); CREATE TABLE x (id text PRIMARY KEY, s d)")
	_, err := w.Write(t.Context(), onX("e", "k", write.Upsert{Set: write.Fields{"s": "abcd"}}))
	if !errors.Is(err, write.ErrShape) {
		t.Error(err)
	}
}

func TestKeysOfBlurringTypesAreRefusedAlsoBelowDomains(t *testing.T) {
	t.Parallel()
	for _, tables := range []string{
		"CREATE DOMAIN d AS char(8); CREATE DOMAIN e AS d; CREATE TABLE x (id e PRIMARY KEY)",
		"CREATE TABLE x (id float8 PRIMARY KEY)", // 2^53 and 2^53 + 1 are one
	} {
		if err := openErr(t, target("x"), tables); !errors.Is(err, write.ErrShape) {
			t.Errorf("%s: %v", tables, err)
		}
	}
}

func TestATableOfRecordsWithoutItsUniqueIndexIsRefusedB02(t *testing.T) {
	t.Parallel()
	const columns = "(id text, digest bytea, owner bytea, target text, key text, " +
		"outcome text, numbers text, at timestamptz)"
	for _, index := range []string{"", "; CREATE UNIQUE INDEX ON once_events (id)"} {
		err := openErr(t, target("x"),
			"CREATE TABLE x (id text PRIMARY KEY); CREATE TABLE once_events "+columns+index)
		if !errors.Is(err, write.ErrIndex) {
			t.Errorf("%q: %v", index, err)
		}
	}
}

// Values are compared as exactly as the column keeps them, or an older event would be newer than a
// rounded one.
func TestNewerIsJudgedAsExactlyAsTheColumnKeepsItB04(t *testing.T) {
	t.Parallel()
	w, ask := tableX(t,
		"CREATE TABLE x (id text PRIMARY KEY, at timestamptz(0), n numeric(10,0), s text)")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, c := range []struct {
		name string
		v    any
		want write.Outcome
	}{
		{"at", at.Add(400 * time.Millisecond), write.Applied}, // kept as :05
		{"at", at.Add(300 * time.Millisecond), write.Stale},
		{"at", at.Add(600 * time.Millisecond), write.Applied}, // kept as :06
		{"n", 1.4, write.Applied},
		{"n", 1.3, write.Stale},
		{"n", 1.5, write.Applied},
	} {
		id := fmt.Sprint("e", i)
		r, err := w.Write(t.Context(),
			onX(id, c.name, write.Upsert{Set: write.Fields{c.name: c.v, "s": id}, Newer: c.name}))
		if err != nil || r.Outcome != c.want {
			t.Errorf("%s %v: %+v, %v", c.name, c.v, r, err)
		}
	}
	if s := ask("SELECT string_agg(s, ' ' ORDER BY id) FROM x"); s != "e2 e5" {
		t.Errorf("the last were %q", s)
	}
}

// The first event of a batch waits for a rival that makes its row, and finds nothing to do in its
// snapshot. The second one, which sees the row, has to come after it all the same.
func TestEventsOfOneRowKeepTheirOrderOverARival(t *testing.T) {
	t.Parallel()
	p := pool(t, testserver.Postgres(t).URL())
	exec(t, p, "CREATE TABLE x (id text PRIMARY KEY, v text)")
	w := open(t, p, target("x"))
	tx, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "INSERT INTO x VALUES ('k', 'rival')"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		rs, err := w.WriteAll(t.Context(), []write.Event{
			onX("a", "k", write.Upsert{Set: write.Fields{"v": "first"}}),
			onX("b", "k", write.Upsert{Set: write.Fields{"v": "second"}}),
		})
		for _, r := range rs {
			if r.Outcome != write.Applied {
				err = errors.Join(err, fmt.Errorf("%+v", r))
			}
		}
		done <- err
	}()
	testserver.Until(t, limit, "the batch waits", func() bool { return waiting(t, p) == 1 })
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if v := one[string](t, p, "SELECT v FROM x"); v != "second" {
		t.Errorf("the row has %q", v)
	}
}
