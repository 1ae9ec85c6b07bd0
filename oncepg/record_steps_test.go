package oncepg_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/oncepg"
)

// The row is what people see in psql: its columns and their forms are kept to.
func TestARecordIsARowThatAPersonCanRead(t *testing.T) {
	t.Parallel()
	r, p := someRecords(t)
	c := recordClaim("read")
	g := claimRecord(t, r, c)
	const text = "SELECT concat_ws('|', state, hold, attempt, takeover, retention, " +
		"extract(epoch FROM lease_end - claimed_at)::int, scope, key, request, expires_at, " +
		"finished_at, outcome) FROM once.records"
	const flying = "in_flight|f|1|f|3600000000|60|{tenant,a}|ke|POST /orders"
	if got := one[string](t, p, text); got != flying {
		t.Errorf("in flight it is %s, want %s", got, flying)
	}
	if !one[bool](t, p, "SELECT fence = (extract(epoch FROM claimed_at) * 1000000)::bigint AND "+
		"fence = $1 FROM once.records", g.Fence) {
		t.Error("the fence is not the time of the claim in µs")
	}
	completeRecord(t, r, g, "done")
	// An hour and a 16th of it.
	if got := one[string](t, p, "SELECT concat_ws('|', state, tombstone, "+
		"extract(epoch FROM expires_at - finished_at)::int, convert_from(outcome, 'UTF8')) "+
		"FROM once.records"); got != "completed|f|3825|done" {
		t.Errorf("completed it is %s", got)
	}
}

// What PostgreSQL can't hold as text comes back as it was.
func TestANoteIsKeptAsItIs(t *testing.T) {
	t.Parallel()
	r, p := someRecords(t)
	c := recordClaim("note")
	c.Note = once.Note{
		Scope: []string{"a\x00b", "", `{"q",\x41}`, strings.Repeat("s", 300)}, Key: "k\xe9\xff\\",
		Request: strings.Repeat("é", 200),
	}
	claimRecord(t, r, c)
	got, err := r.Record(t.Context(), c.Identity)
	want := c.Note.Cut()
	if err != nil || !slices.Equal(got.Note.Scope, want.Scope) || got.Note.Key != want.Key ||
		got.Note.Request != want.Request {
		t.Errorf("the note is %q, %v; want %q", got.Note, err, want)
	}
	if key := one[string](t, p, "SELECT key FROM once.records"); key != `k\xe9\xff\\` {
		t.Errorf("the key is stored as %s", key)
	}
	page, err := r.Records(t.Context(), once.RecordFilter{Scope: c.Note.Scope})
	if err != nil || len(page.Records) != 1 {
		t.Errorf("by its scope there are %d, %v", len(page.Records), err)
	}
}

// What a request costs.
func TestAClaimAndAReplayAreOneRoundTripEach(t *testing.T) {
	t.Parallel()
	db := testserver.Postgres(t)
	p, count := countedPool(t, db.URL())
	r := openRecords(t, p, oncepg.RecordsConfig{})
	took := func(what string, want int64, step func()) {
		t.Helper()
		before := count.queries.Load()
		step()
		if n := count.queries.Load() - before; n != want || count.batches.Load() != 0 {
			t.Errorf("%s: %d statements, want %d", what, n, want)
		}
	}
	var g once.Grant
	took("a claim", 1, func() { g = claimRecord(t, r, recordClaim("a")) })
	took("in flight", 1, func() {
		_, err := r.Claim(t.Context(), recordClaim("a"))
		wantError(t, "claim", err, once.ErrInFlight)
	})
	took("a renewal", 1, func() {
		wantError(t, "renew", r.Renew(t.Context(), g, time.Minute), nil)
	})
	took("a release", 1, func() { wantError(t, "release", r.Release(t.Context(), g), nil) })
	took("a claim of what was released", 1, func() { g = claimRecord(t, r, recordClaim("a")) })
	r.Advance(time.Hour)
	took("a takeover", 1, func() {
		if g = claimRecord(t, r, recordClaim("a")); !g.Takeover {
			t.Error("it is no takeover")
		}
	})
	took("an end", 1, func() { completeRecord(t, r, g, "done") })
	took("a replay", 1, func() { replayOf(t, r, recordClaim("a")) })
	took("a mismatch", 1, func() {
		c := recordClaim("a")
		c.Fingerprint = once.FingerprintRaw([]byte("other"))
		_, err := r.Claim(t.Context(), c)
		wantError(t, "claim", err, once.ErrMismatch)
	})
	if one[string](t, p, "SELECT (xmax = 0)::text FROM once.records") != "true" {
		t.Error("a replay has locked the row")
	}
	r.Advance(4 * time.Minute) // more than a 16th of the hour
	took("a late replay", 2, func() { replayOf(t, r, recordClaim("a")) })
	took("another one", 1, func() { replayOf(t, r, recordClaim("a")) })
	r.Advance(2 * time.Hour)
	took("a claim of what is past its retention", 1, func() {
		if next := claimRecord(t, r, recordClaim("a")); next.Attempt != 1 || next.Takeover ||
			next.Fence <= g.Fence {
			t.Errorf("granted %+v after %+v", next, g)
		}
	})
}

// K03: who loses the race for a new key gets an answer, never a fault.
func TestALoserOfARaceGetsAnAnswerK03(t *testing.T) {
	t.Parallel()
	db := testserver.Postgres(t)
	r := openRecords(t, poolOf(t, db.URL(), 20), oncepg.RecordsConfig{})
	var all sync.WaitGroup
	var mu sync.Mutex
	granted, flying := 0, 0
	for range 50 {
		all.Go(func() {
			_, err := r.Claim(t.Context(), recordClaim("raced"))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				granted++
			case errors.Is(err, once.ErrInFlight):
				flying++
			default:
				t.Errorf("claim: %v", err)
			}
		})
	}
	all.Wait()
	if granted != 1 || flying != 49 {
		t.Errorf("%d were granted and %d told that it is in flight, want 1 and 49", granted, flying)
	}
}

// K23, G04: keys that differ don't meet, nor do rivals of one key, whatever isolation the database
// has by default.
func TestIsolationOfTheDatabaseDoesNotMatterK23G04(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"serializable", "repeatable read"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			db := testserver.Postgres(t)
			p := poolOf(t, db.URL()+"&default_transaction_isolation="+
				strings.ReplaceAll(level, " ", "%20"), 20)
			r := openRecords(t, p, oncepg.RecordsConfig{})
			if got := one[string](t, p, "SHOW transaction_isolation"); got != level {
				t.Fatalf("the isolation is %s", got)
			}
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					g, err := r.Claim(t.Context(), recordClaim(fmt.Sprint(i)))
					if err != nil {
						t.Errorf("key %d: %v", i, err)
						return
					}
					if err := r.Complete(t.Context(), g, once.Outcome{}); err != nil {
						t.Errorf("key %d: %v", i, err)
					}
				})
			}
			all.Wait()
			var mu sync.Mutex
			granted := 0
			for range 20 {
				all.Go(func() {
					g, err := r.Claim(t.Context(), recordClaim("one"))
					if err == nil {
						mu.Lock()
						granted++
						mu.Unlock()
						err = r.Complete(t.Context(), g, once.Outcome{})
					}
					var replay *once.ReplayError
					if err != nil && !errors.Is(err, once.ErrInFlight) && !errors.As(err, &replay) {
						t.Errorf("a rival: %v", err)
					}
				})
			}
			all.Wait()
			if granted != 1 {
				t.Errorf("it was granted %d times", granted)
			}
		})
	}
}

// G01, G02: a rival whose transaction is open for 1.5 s is waited for, and its row is read by a
// second statement.
func TestARivalsRowThatIsNotCommittedYetIsWaitedForG01G02(t *testing.T) {
	t.Parallel()
	for _, commit := range []bool{true, false} {
		t.Run(fmt.Sprint("commits ", commit), func(t *testing.T) {
			t.Parallel()
			r, p := someRecords(t)
			claimRecord(t, r, recordClaim("template"))
			c := recordClaim("held open")
			tx, err := p.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), `INSERT INTO once.records SELECT $1, fingerprint,
				state, hold, owner, fence, attempt, takeover, retention, claimed_at, lease_end,
				last_at, finished_at, expires_at, tombstone, outcome, scope, key, request
				FROM once.records`, c.Identity[:]); err != nil {
				t.Fatal(err)
			}
			answers := make(chan error, 1)
			go func() {
				_, err := r.Claim(context.Background(), c)
				answers <- err
			}()
			testserver.Until(t, limit, "the claim waits", func() bool { return waiting(t, p) == 1 })
			if _, err := tx.Exec(t.Context(), "SELECT pg_sleep(1.5)"); err != nil {
				t.Fatal(err)
			}
			want := error(nil)
			if commit {
				err, want = tx.Commit(t.Context()), once.ErrInFlight
			} else {
				err = tx.Rollback(t.Context())
			}
			wantError(t, "the rival's end", err, nil)
			if err := <-answers; !errors.Is(err, want) {
				t.Errorf("claim: %v, want %v", err, want)
			}
		})
	}
}

// A sweep waits for nobody, and leaves what somebody is about to take.
func TestASweepLeavesWhatIsBeingTaken(t *testing.T) {
	t.Parallel()
	r, p := someRecords(t)
	for _, name := range []string{"taken", "left"} {
		completeRecord(t, r, claimRecord(t, r, recordClaim(name)), "old")
	}
	r.Advance(2 * time.Hour)
	tx, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id := recordClaim("taken").Identity
	if _, err := tx.Exec(t.Context(), "SELECT 1 FROM once.records WHERE identity = $1 FOR UPDATE",
		id[:]); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Sweep(t.Context(), 10); n != 1 || err != nil {
		t.Errorf("swept %d, %v, want the other one", n, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Sweep(t.Context(), 10); n != 1 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
}

func TestALargeOutcomeComesBackWholeB13(t *testing.T) {
	t.Parallel()
	r, p := someRecords(t)
	g := claimRecord(t, r, recordClaim("large"))
	over := once.Outcome{Data: make([]byte, 1088<<10+1)}
	wantError(t, "one byte more", r.Complete(t.Context(), g, over), once.ErrTooLarge)
	whole := bytes.Repeat([]byte("0123456789abcd\xff\x00"), 1088<<10/16)
	completeRecord(t, r, g, string(whole))
	if got := replayOf(t, r, recordClaim("large")); !bytes.Equal(got.Data, whole) {
		t.Errorf("%d bytes come back, want %d", len(got.Data), len(whole))
	}
	empty := claimRecord(t, r, recordClaim("empty"))
	completeRecord(t, r, empty, "")
	if got := replayOf(t, r, recordClaim("empty")); got.Kind != once.Kept || len(got.Data) != 0 {
		t.Errorf("empty came back as %+v", got)
	}
	large, err := oncepg.NewRecords(p, oncepg.RecordsConfig{MaxOutcome: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	more := bytes.Repeat(whole[:1<<10], 16<<10)
	completeRecord(t, large, claimRecord(t, large, recordClaim("more")), string(more))
	if got := replayOf(t, large, recordClaim("more")); !bytes.Equal(got.Data, more) {
		t.Errorf("%d bytes come back, want %d", len(got.Data), len(more))
	}
}

func TestARecordThatCannotBeReadIsNeverRunAgain(t *testing.T) {
	t.Parallel()
	r, p := someRecords(t)
	c := recordClaim("bad")
	completeRecord(t, r, claimRecord(t, r, c), "outcome")
	exec(t, p, "CREATE TABLE whole AS SELECT * FROM once.records")
	for _, set := range []string{
		"state = 'done'", "state = ''", "owner = 'short'", "fence = 0", "attempt = 0",
		"retention = 0", "expires_at = NULL", "finished_at = NULL", "outcome = NULL",
		"state = 'in_flight'", "state = 'released'", "state = 'unknown'",
		"claimed_at = to_timestamp(0)",
		"identity = identity || '\\x00'",
	} {
		damage(t, p, "once", c.Identity, set)
		if strings.HasPrefix(set, "identity") {
			page, err := r.Records(t.Context(), once.RecordFilter{})
			if err != nil || len(page.Records) != 1 || page.Records[0].State != "" {
				t.Errorf("%s: the list is %+v, %v", set, page, err)
			}
		} else {
			_, err := r.Claim(t.Context(), recordClaim("bad"))
			wantError(t, set+": claim", err, once.ErrCorrupt)
			if errors.Is(err, once.ErrUnavailable) {
				t.Errorf("%s: %v, which would be tried again", set, err)
			}
			_, err = r.Record(t.Context(), c.Identity)
			wantError(t, set+": record", err, once.ErrCorrupt)
			page, err := r.Records(t.Context(), once.RecordFilter{})
			if err != nil || len(page.Records) != 1 || page.Records[0].State != "" {
				t.Errorf("%s: the list is %+v, %v", set, page, err)
			}
		}
		exec(t, p, "TRUNCATE once.records")
		exec(t, p, "INSERT INTO once.records SELECT * FROM whole")
	}
	if got := replayOf(t, r, recordClaim("bad")); string(got.Data) != "outcome" {
		t.Errorf("replayed %q in the end", got.Data)
	}
}

// A page looks at a bounded number of rows, and still all are found.
func TestFewAmongManyRecordsAreFoundPageByPage(t *testing.T) {
	t.Parallel()
	r, p := someRecords(t)
	completeRecord(t, r, claimRecord(t, r, recordClaim("template")), "x")
	exec(t, p, `INSERT INTO once.records SELECT sha256(n::text::bytea), fingerprint, state, hold,
		owner, fence, attempt, takeover, retention, claimed_at, lease_end, last_at, finished_at,
		expires_at, tombstone, outcome, CASE WHEN n % 4000 = 0 THEN '{rare}' ELSE scope END, key,
		request FROM once.records, generate_series(1, 12000) n`)
	for _, f := range []once.RecordFilter{
		{Scope: []string{"rare"}}, {Scope: []string{"rare"}, State: once.Completed, Limit: 1},
	} {
		found, pages := 0, 0
		for {
			page, err := r.Records(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			found, pages = found+len(page.Records), pages+1
			if f.After = page.Next; f.After == "" {
				break
			}
		}
		if found != 3 || pages < 3 || pages > 6 {
			t.Errorf("%+v: %d records on %d pages, want 3 on a few", f, found, pages)
		}
	}
	if page, err := r.Records(t.Context(), once.RecordFilter{State: once.Held}); err != nil ||
		len(page.Records) != 0 || page.Next != "" {
		t.Errorf("held: %+v, %v", page, err)
	}
}

func TestNewRecordsRefuses(t *testing.T) {
	t.Parallel()
	p := pool(t, testserver.Postgres(t).URL())
	for name, cfg := range map[string]oncepg.RecordsConfig{
		"a schema of PostgreSQL's own": {Schema: "pg_x"},
		"outcomes that are too large":  {MaxOutcome: 1 << 30},
		"outcomes below nothing":       {MaxOutcome: -1},
	} {
		if _, err := oncepg.NewRecords(p, cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := oncepg.NewRecords(nil, oncepg.RecordsConfig{}); err == nil {
		t.Error("no pool: no error")
	}
	if _, err := oncepg.NewRecordsSQL(nil, oncepg.RecordsConfig{}); err == nil {
		t.Error("no database: no error")
	}
	r, err := oncepg.NewRecords(p, oncepg.RecordsConfig{NoMigrate: true})
	if err != nil {
		t.Fatal(err)
	}
	wantSchemaError(t, r.Open(t.Context()), oncepg.SchemaBehind)
}
