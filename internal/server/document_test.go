package server_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/server"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/testserver/mongotest"
	"github.com/oncekit/once/write"
)

func TestI20_EventsThatComeTwiceAndOutOfOrderLeaveTheRightRow(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		s := serve(t, t.TempDir(), written(ready(t, l), "", ""), patient)
		for range 3 {
			s.post(200, "pay", paymentEvent("evt-2", "pay-1", "captured", 1700000005))
		}
		s.awaitCallback("key=evt-2", "done")
		s.post(200, "pay", paymentEvent("evt-1", "pay-1", "authorized", 1700000000))
		s.post(200, "pay", paymentEvent("evt-3", "pay-2", "authorized", 1700000001))
		if c := s.awaitCallback("key=evt-1", "stale"); c.Error != "the document is newer" {
			t.Errorf("the older one: %q", c.Error)
		}
		s.awaitCallback("key=evt-3", "done")
		s.post(200, "pay", paymentEvent("evt-4", "pay-1", "refunded", 1700000009))
		s.awaitCallback("key=evt-4", "done")
		has(t, l, "pay-1", row{"refunded", 1700000009, 1250, 2})
		has(t, l, "pay-2", row{"authorized", 1700000001, 1250, 1})
		s.awaitMetrics( // an attempt is counted after its row is settled
			`once_attempts_total{result="done",source="pay"} 3`,
			`once_attempts_total{result="stale",source="pay"} 1`,
			`once_source_paused{source="pay"} 0`,
			`once_database_open{database="ledger"} 1`)
		var list struct{ Items []struct{ Name, To string } }
		if s.get("/api/v1/sources", &list); len(list.Items) != 1 ||
			list.Items[0].To != "document/ledger/payments" {
			t.Errorf("sources %+v", list.Items)
		}
	})
}

// The store and the documents may share a database: neither touches what is the other's.
func TestDocumentsAreWrittenIntoTheDatabaseOfAStoreInMongoDB(t *testing.T) {
	t.Parallel()
	l := &mongoLedger{server: mongotest.Ferret(t), db: mongotest.Ferret(t).Database(t)}
	yaml := "store: " + strconv.Quote(l.url("")) + "\n" + written(ready(t, l), "", "")
	s := serve(t, t.TempDir(), yaml, patient)
	s.post(200, "pay", paymentEvent("evt-2", "pay-1", "captured", 5))
	s.awaitCallback("key=evt-2", "done")
	s.post(200, "pay", paymentEvent("evt-1", "pay-1", "authorized", 1))
	s.awaitCallback("key=evt-1", "stale")
	has(t, l, "pay-1", row{"captured", 5, 1250, 1})
	s.end()
	s = serve(t, t.TempDir(), yaml, patient) // on another node, so to speak
	s.post(200, "pay", paymentEvent("evt-2", "pay-1", "captured", 5))
	s.post(200, "pay", paymentEvent("evt-3", "pay-1", "refunded", 9))
	s.awaitCallback("key=evt-3", "done")
	has(t, l, "pay-1", row{"refunded", 9, 1250, 2})
}

// lossy loses the answer to the first write of each event, which has happened.
type lossy struct {
	write.Writer
	lost atomic.Int64
}

func (w *lossy) Write(ctx context.Context, e write.Event) (write.Result, error) {
	r, err := w.Writer.Write(ctx, e)
	if err == nil && r.Outcome == write.Applied {
		w.lost.Add(1)
		return write.Result{}, fmt.Errorf("the answer is lost: %w", once.ErrUnavailable)
	}
	return r, err
}

// loses puts a lossy writer before each database.
func loses(w *lossy) func(*server.Options) {
	return func(o *server.Options) {
		o.Writer = func(real write.Writer) write.Writer { w.Writer = real; return w }
	}
}

func TestB06_AWriteWhoseAnswerIsLostIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		w := &lossy{}
		s := serve(t, t.TempDir(), written(ready(t, l), "", ""), patient, loses(w))
		s.post(200, "pay", paymentEvent("evt-1", "pay-1", "captured", 1))
		if c := s.awaitCallback("key=evt-1", "done"); c.Attempt != 2 || w.lost.Load() != 1 {
			t.Errorf("%d attempts, %d answers were lost", c.Attempt, w.lost.Load())
		}
		has(t, l, "pay-1", row{"captured", 1, 1250, 1})
	})
}

// Another change under an id that was written is never laid over the first: the file was changed
// between two tries.
func TestAnotherChangeUnderAWrittenIdIsADeadLetter(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		dir, yaml := t.TempDir(), written(ready(t, l), "", "")
		s := serve(t, dir, edit(t, yaml, "cap: 100ms", "cap: 100ms, attempts: 1"), patient,
			loses(&lossy{}))
		s.post(200, "pay", paymentEvent("evt-1", "pay-1", "captured", 1))
		c := s.awaitCallback("key=evt-1", "dead")
		if c.DeadCause != "transient" {
			t.Errorf("it is dead by %s", c.DeadCause)
		}
		s.end()
		s = serve(t, dir, edit(t, yaml, "inc: {events: 1}", "inc: {events: 2}"), patient)
		s.change(200, "/api/v1/callbacks/"+c.ID+"/retry", "")
		testserver.Until(t, patience, "it is dead for good", func() bool {
			c = s.callback("key=evt-1")
			return c.State == "dead" && c.DeadCause == "permanent"
		})
		if !strings.HasPrefix(c.Error, "another change was written under the callback's id at ") {
			t.Errorf("the reason is %q", c.Error)
		}
		has(t, l, "pay-1", row{"captured", 1, 1250, 1})
	})
}

func TestADocumentOfAnotherShapeIsADeadLetterWithItsReason(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		if err := ready(t, l).spoil(t.Context(), "pay-1"); err != nil {
			t.Fatal(err)
		}
		s := serve(t, t.TempDir(), written(l, "", ""), patient)
		s.post(200, "pay", paymentEvent("evt-1", "pay-1", "captured", 1))
		if c := s.awaitCallback("key=evt-1", "dead"); c.DeadCause != "permanent" ||
			c.Attempt != 1 || !strings.HasPrefix(c.Error, "document is not of the shape that the"+
			" change expects: payments") {
			t.Errorf("dead by %s after %d attempts: %q", c.DeadCause, c.Attempt, c.Error)
		}
		s.post(200, "pay", `{"id":"evt-2","created":"late","data":{"payment":"pay-2"}}`)
		c := s.awaitCallback("key=evt-2", "dead")
		if !strings.HasPrefix(c.Error, "no change can be made of the callback: set status: ") {
			t.Errorf("without a status: %q", c.Error)
		}
		if a := s.post(400, "pay", `{"id":"evt-3","created":1,"data":{"status":"x"}}`); !strings.
			Contains(a.body, "key: body.data.payment") {
			t.Errorf("without a payment: %s", a.body)
		}
	})
}

// Cuts at random places of the stream: in a write, between a commit and its answer, while a
// connection is made.
func TestB06_CountersAreExactAlthoughConnectionsAreCut(t *testing.T) {
	t.Parallel()
	const events, cuts = 60, 12
	eachServer(t, func(t *testing.T, l ledger) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		p := testserver.NewProxy(t, l.addr())
		s := serve(t, t.TempDir(), written(ready(t, l), p.Addr(), ""), patient)
		for i := range cuts {
			// Some hundred bytes are a write, some thousand a few of them with a new connection.
			at, before := random.Int64N(4000), p.Accepted()
			p.CutAfter(at)
			for n := range events / cuts {
				id := fmt.Sprintf("evt-%d-%d", i, n)
				s.post(200, "pay", paymentEvent(id, "pay-"+strconv.Itoa(n%2), "captured",
					int64(100*i+n+1)))
			}
			testserver.Until(t, patience, "the connection was cut, or all is written", func() bool {
				return p.Accepted() > before ||
					s.metric(`once_callbacks{source="pay",state="pending"}`) == "0" &&
						s.metric(`once_callbacks{source="pay",state="running"}`) == "0"
			})
		}
		p.Restore()
		testserver.Until(t, patience, "all are worked", func() bool {
			return s.metric(`once_callbacks{source="pay",state="done"}`) == strconv.Itoa(events)
		})
		var sum int64
		for _, payment := range []string{"pay-0", "pay-1"} {
			r, err := l.row(t.Context(), payment)
			if err != nil {
				t.Fatal(err)
			}
			sum += r.Events
		}
		if sum != events {
			t.Errorf("%d events were counted, want %d", sum, events)
		}
	})
}

// The database is away when the process starts, and has no unique index when it comes: nobody's
// message is turned away, nothing is written without the index, and no try is used up.
func TestADatabaseThatIsAwayAtTheStartIsWrittenWhenItComesAndHasItsIndex(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, l ledger) {
		if err := l.crowd(t.Context(), "pay-9"); err != nil {
			t.Fatal(err)
		}
		p := testserver.NewProxy(t, l.addr())
		p.Refuse()
		s := serve(t, t.TempDir(), written(l, p.Addr(), "      probe: 100ms\n"),
			func(o *server.Options) { o.DatabaseWait = short })
		s.post(200, "pay", paymentEvent("evt-1", "pay-1", "captured", 1))
		testserver.Until(t, patience, "it was tried", func() bool {
			return s.callback("key=evt-1").Error != ""
		})
		if m := s.metric(`once_database_open{database="ledger"}`); m != "0" {
			t.Errorf("the database is shown as %s", m)
		}
		p.Restore()
		testserver.Until(t, patience, "the source is paused", func() bool {
			return s.metric(`once_source_paused{source="pay"}`) == "1"
		})
		var list struct{ Items []struct{ Reason string } }
		if s.get("/api/v1/sources", &list); len(list.Items) != 1 ||
			!strings.Contains(list.Items[0].Reason, "no unique index over payment") ||
			!strings.Contains(list.Items[0].Reason, `"pay-9" (2 times)`) {
			t.Errorf("sources %+v", list.Items)
		}
		attempts := s.callback("key=evt-1").Attempt
		if err := l.index(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.awaitCallback("key=evt-1", "done")
		has(t, l, "pay-1", row{"captured", 1, 1250, 1})
		if got := s.callback("key=evt-1").Attempt; got > attempts+1 {
			t.Errorf("%d attempts, it had %d before the index was there", got, attempts)
		}
		for _, want := range []string{"the database can't be opened", "database paused",
			"the database is open", "database resumed"} {
			if !strings.Contains(s.log.String(), want) {
				t.Errorf("the log lacks %q", want)
			}
		}
		if strings.Contains(s.log.String(), "pay-9") {
			t.Error("the log shows a key")
		}
	})
}

// A database that goes away keeps its writes waiting, and nobody from sending.
func TestI09_ADatabaseThatGoesAwayIsShownAndItsWritesWait(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, l ledger) {
		p := testserver.NewProxy(t, ready(t, l).addr())
		yaml := edit(t, written(l, p.Addr(), ""), "cap: 100ms}", "cap: 100ms}\n      timeout: 3s")
		s := serve(t, t.TempDir(), yaml, patient)
		await := func(metric, want string) {
			t.Helper()
			testserver.Until(t, patience, metric+" is "+want, func() bool {
				return s.metric(metric) == want
			})
		}
		const open = `once_database_open{database="ledger"}`
		await(open, "1")
		p.Refuse()
		s.post(200, "pay", paymentEvent("evt-1", "pay-1", "captured", 1))
		await(open, "0")
		s.post(200, "pay", paymentEvent("evt-1", "pay-1", "captured", 1)) // a repeat, meanwhile
		p.Restore()
		s.awaitCallback("key=evt-1", "done")
		await(open, "1")
		has(t, l, "pay-1", row{"captured", 1, 1250, 1})
		for _, want := range []string{"the database is away", "the database is back"} {
			if n := strings.Count(s.log.String(), want); n < 1 {
				t.Errorf("the log lacks %q", want)
			}
		}
	})
}

// A login without rights is no fault of the callbacks: the process starts, their tries are not used
// up, and they are written when a person has granted them.
func TestALoginWithoutRightsPausesTheSourceAndNotTheSenders(t *testing.T) {
	t.Parallel()
	db := testserver.Postgres(t)
	l := &postgresLedger{db: db, conn: sqlLedger{openSQL(t, "pgx", db.URL())}}
	ready(t, l)
	role := "writer_of_" + db.Name
	if err := l.conn.exec(t.Context(), "CREATE ROLE "+role+" LOGIN"); err != nil {
		t.Fatal(err)
	}
	defer func() { // the server is shared by all tests
		err := l.conn.exec(context.WithoutCancel(t.Context()), "DROP OWNED BY "+role,
			"DROP ROLE "+role)
		if err != nil {
			t.Error(err)
		}
	}()
	yaml := edit(t, written(l, "", "      probe: 100ms\n"), "cap: 100ms", "cap: 100ms, attempts: 1")
	yaml = edit(t, yaml, "postgres://once@", "postgres://"+role+"@")
	s := serve(t, t.TempDir(), yaml, patient)
	defer s.end()
	s.post(200, "pay", paymentEvent("evt-1", "pay-1", "captured", 1))
	testserver.Until(t, patience, "the source is paused", func() bool {
		return s.metric(`once_source_paused{source="pay"}`) == "1"
	})
	if c := s.callback("key=evt-1"); c.State != "pending" && c.State != "running" {
		t.Errorf("the callback is %s: %s", c.State, c.Error)
	}
	if err := l.conn.exec(t.Context(), "GRANT CREATE ON SCHEMA public TO "+role,
		"GRANT SELECT, INSERT, UPDATE ON payments TO "+role); err != nil {
		t.Fatal(err)
	}
	if c := s.awaitCallback("key=evt-1", "done"); c.Attempt != 1 {
		t.Errorf("%d attempts were used up", c.Attempt)
	}
	has(t, l, "pay-1", row{"captured", 1, 1250, 1})
}

func TestB02_AStartWithoutTheUniqueIndexIsRefusedWithTheCommandThatCreatesIt(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		if err := l.crowd(t.Context(), "pay-9"); err != nil {
			t.Fatal(err)
		}
		cfg, err := load(t.TempDir(), written(l, "", ""))
		if err != nil {
			t.Fatal(err)
		}
		o := server.Options{Config: cfg}
		patient(&o)
		_, err = server.Open(t.Context(), o)
		if !errors.Is(err, write.ErrIndex) || !strings.Contains(err.Error(), `"pay-9" (2 times)`) ||
			!strings.Contains(err.Error(), "open database ledger: ") ||
			!strings.Contains(err.Error(), "create it with: ") {
			t.Errorf("the start: %v", err)
		}
	})
}

func TestAStartWithoutTheTableOrTheFileIsRefused(t *testing.T) {
	t.Parallel()
	yaml := written(newSQLite(t), "", "")
	cfg, err := load(t.TempDir(), yaml)
	if err != nil {
		t.Fatal(err)
	}
	o := server.Options{Config: cfg}
	patient(&o)
	if _, err := server.Open(t.Context(), o); err == nil ||
		!strings.Contains(err.Error(), "payments") {
		t.Errorf("without the table: %v", err)
	}
	if cfg, err = load(t.TempDir(), edit(t, yaml, "ledger.db", "gone.db")); err != nil {
		t.Fatal(err)
	}
	o.Config = cfg
	if _, err := server.Open(t.Context(), o); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
}

func TestAURLThatItsDriverCantReadIsRefusedInItsPlaceWithoutThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://u:S3CRET@h:port/d", "mongodb://u:S3CRET@h:port/d",
		"postgres://u:S3CRET@h/d?sslmode=perhaps", "mongodb://u:S3CRET@h/d?w=-1",
		"postgres://h/d?password=S3CRET&pool_max_conns=no"} {
		yaml := edit(t, written(newSQLite(t), "", ""), "{url: ", `{url: "`+url+`", x: `)
		yaml = strings.Replace(yaml, `, x: "sqlite:`, `} # "`, 1)
		got := refusal(t, t.TempDir(), yaml)
		if !strings.Contains(got, "once.yaml:3:17: url can't be used: ") ||
			strings.Contains(got, "S3CRET") {
			t.Errorf("%s: %s", url, got)
		}
	}
}

// A try that fails keeps later events of its document waiting, and no other.
func TestD05_EventsOfOneDocumentAreWrittenInTheOrderInWhichTheyCame(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var order []any
	fail := true
	s := serve(t, t.TempDir(), edit(t, written(ready(t, newSQLite(t)), "", ""),
		"        newer: updated\n", ""), patient,
		func(o *server.Options) {
			o.Writer = func(real write.Writer) write.Writer {
				return writerFunc(func(ctx context.Context, e write.Event) (write.Result, error) {
					mu.Lock()
					order = append(order, e.Key)
					failing := fail && e.Key == "pay-1"
					mu.Unlock()
					if failing {
						return write.Result{}, once.ErrUnavailable
					}
					return real.Write(ctx, e)
				})
			}
		})
	s.post(200, "pay", paymentEvent("evt-1", "pay-1", "authorized", 1))
	s.post(200, "pay", paymentEvent("evt-2", "pay-1", "captured", 2))
	s.post(200, "pay", paymentEvent("evt-3", "pay-2", "captured", 2))
	s.awaitCallback("key=evt-3", "done")
	if c := s.callback("key=evt-2"); c.Attempt != 0 {
		t.Errorf("the second of a document was tried %d times before the first was done", c.Attempt)
	}
	mu.Lock()
	fail = false
	mu.Unlock()
	s.awaitCallback("key=evt-1", "done")
	if c := s.awaitCallback("key=evt-2", "done"); c.Attempt != 1 {
		t.Errorf("the second was tried %d times", c.Attempt)
	}
}

// writerFunc is a writer of one event.
type writerFunc func(ctx context.Context, e write.Event) (write.Result, error)

func (f writerFunc) Write(ctx context.Context, e write.Event) (write.Result, error) {
	return f(ctx, e)
}

func (f writerFunc) WriteAll(context.Context, []write.Event) ([]write.Result, error) {
	return nil, errors.New("nobody asks for a batch")
}
