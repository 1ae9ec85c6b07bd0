package oncemongo_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/testserver/mongotest"
	"github.com/oncekit/once/oncemongo"
)

// patience is far above what anything here takes.
const patience = time.Minute

// watching calls watch at each command, before it is sent.
func watching(watch func(e *event.CommandStartedEvent)) *options.ClientOptions {
	return options.Client().SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) { watch(e) },
	})
}

// lossy is a store whose next write lands without its answer.
type lossy struct {
	*oncemongo.Records
	t     *testing.T
	proxy *testserver.Proxy
	plain *mongo.Database // past the proxy
	armed atomic.Bool
	// sent are the writes since it was armed.
	sent atomic.Int64
}

func newLossy(t *testing.T) *lossy {
	server := testserver.SharedMongo(t)
	l := &lossy{t: t, proxy: testserver.NewProxy(t, server.Addr())}
	l.plain = mongotest.Ferret(t).Database(t)
	client := mongotest.Connect(t, testserver.MongoURI(l.proxy.Addr()),
		watching(func(e *event.CommandStartedEvent) {
			if e.CommandName != "insert" && e.CommandName != "update" {
				return
			}
			l.sent.Add(1)
			if l.armed.Swap(false) {
				l.proxy.Hold()
			}
		}))
	l.Records = openRecords(t, client.Database(l.plain.Name()), oncemongo.RecordsConfig{})
	return l
}

// revision is how often a record was written.
func (l *lossy) revision(id once.Identity) int64 {
	n, _ := stored(l.t, l.plain, id)["revision"].(int64)
	return n
}

// loses makes a step whose write lands and whose answer is lost, and wants it to be found.
func (l *lossy) loses(step string, id once.Identity, fn func() error) {
	l.t.Helper()
	before := l.revision(id)
	l.sent.Store(0)
	l.armed.Store(true)
	done := make(chan error, 1)
	go func() { done <- fn() }()
	testserver.Until(l.t, patience, step+" has landed", func() bool {
		return l.revision(id) > before
	})
	l.proxy.Restore()
	l.proxy.Cut()
	select {
	case err := <-done:
		wantError(l.t, step, err, nil)
	case <-time.After(patience):
		l.t.Fatalf("%s has no answer", step)
	}
	if n := l.revision(id) - before; n != 1 && step != "renew" {
		l.t.Errorf("%s wrote the record %d times, want once", step, n)
	}
}

func TestB07_AWriteWhoseAnswerWasLostIsFoundByItsOwner(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	ctx := testContext(t)
	c := recordClaim("a")
	var g once.Grant
	l.loses("claim", c.Identity, func() (err error) {
		g, err = l.Claim(ctx, c)
		return err
	})
	if g.Attempt != 1 || g.Takeover || l.sent.Load() != 1 {
		t.Errorf("the grant is %+v after %d writes, want the first attempt after one", g,
			l.sent.Load())
	}
	l.loses("renew", c.Identity, func() error { return l.Renew(ctx, g, time.Hour) })
	l.loses("release", c.Identity, func() error { return l.Release(ctx, g) })
	l.loses("claim of what was released", c.Identity, func() (err error) {
		g, err = l.Claim(ctx, recordClaim("a"))
		return err
	})
	if g.Attempt != 2 {
		t.Errorf("the grant is %+v, want the second attempt", g)
	}
	l.loses("complete", c.Identity, func() error {
		return l.Complete(ctx, g, once.Outcome{Data: []byte("done")})
	})
	if got := replayOf(t, l, recordClaim("a")); string(got.Data) != "done" {
		t.Errorf("replayed %q, want done", got.Data)
	}
	freed := once.Resolution{Decision: once.ReleaseDone}
	l.loses("resolve", c.Identity, func() error { return l.Resolve(ctx, c.Identity, freed) })
	wantError(t, "another one's decision", l.Resolve(ctx, c.Identity, freed), once.ErrState)
}

// E06, the store's part: what is down, or hangs, says so when its caller's time is over, and takes
// nothing on.
func TestE06_AServerThatIsGoneOrHangsIsUnavailable(t *testing.T) {
	t.Parallel()
	server := testserver.Mongo(t)
	db := mongotest.Connect(t, server.URI()).Database(mongotest.DatabaseName())
	s := openRecords(t, db, oncemongo.RecordsConfig{})
	c := recordClaim("every")
	g := once.Grant{Identity: c.Identity, Owner: c.Owner, Fence: 1}
	every := func(what string, ctx func() context.Context) {
		t.Helper()
		for name, step := range map[string]func(context.Context) error{
			"claim": func(ctx context.Context) error { _, err := s.Claim(ctx, c); return err },
			"complete": func(ctx context.Context) error {
				return s.Complete(ctx, g, once.Outcome{})
			},
			"release": func(ctx context.Context) error { return s.Release(ctx, g) },
			"renew":   func(ctx context.Context) error { return s.Renew(ctx, g, time.Minute) },
			"resolve": func(ctx context.Context) error {
				return s.Resolve(ctx, g.Identity, once.Resolution{Decision: once.RunAgain})
			},
			"record": func(ctx context.Context) error {
				_, err := s.Record(ctx, g.Identity)
				return err
			},
			"records": func(ctx context.Context) error {
				_, err := s.Records(ctx, once.RecordFilter{})
				return err
			},
			"sweep": func(ctx context.Context) error { _, err := s.Sweep(ctx, 1); return err },
			"ping":  s.Ping,
			"open":  s.Open,
		} {
			done := make(chan error, 1)
			go func() { done <- step(ctx()) }()
			select {
			case err := <-done:
				wantError(t, what+": "+name, err, once.ErrUnavailable)
			case <-time.After(patience):
				t.Fatalf("%s: %s goes on", what, name)
			}
		}
	}
	cancelled := func() context.Context {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(20*time.Millisecond, cancel)
		return ctx
	}
	server.Freeze()
	every("frozen", func() context.Context { return soon(t) })
	every("frozen and left", cancelled)
	server.Thaw()
	server.Kill()
	every("gone", func() context.Context { return soon(t) })
	server.Start()
	testserver.Until(t, patience, "it answers again", func() bool {
		_, err := s.Claim(testContext(t), recordClaim("other"))
		return err == nil || errors.Is(err, once.ErrInFlight)
	})
}

// B11: whatever the client was set to.
func TestB11_WritesWaitForAMajorityAndItsJournalsAndReadsForThePrimary(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{}
	db := mongotest.Ferret(t).Database(t, options.Client().SetWriteConcern(writeconcern.W1()).
		SetReadPreference(readpref.Nearest()), watching(func(e *event.CommandStartedEvent) {
		mu.Lock()
		defer mu.Unlock()
		if e.DatabaseName == "admin" {
			return
		}
		seen[e.CommandName]++
		switch e.CommandName {
		case "insert", "update", "delete":
			w, _ := e.Command.Lookup("writeConcern", "w").StringValueOK()
			j, _ := e.Command.Lookup("writeConcern", "j").BooleanOK()
			if w != "majority" || !j {
				t.Errorf("%s waits for %s", e.CommandName, e.Command.Lookup("writeConcern"))
			}
		case "find":
			level, _ := e.Command.Lookup("readConcern", "level").StringValueOK()
			if level != "majority" {
				t.Errorf("%s reads at %q", e.CommandName, level)
			}
			mode, found := e.Command.Lookup("$readPreference", "mode").StringValueOK()
			if found && mode != "primary" && mode != "primaryPreferred" {
				t.Errorf("%s reads from %s", e.CommandName, mode)
			}
		}
	}))
	s := openRecords(t, db, oncemongo.RecordsConfig{})
	completeRecord(t, s, claimRecord(t, s, recordClaim("a")), "done")
	replayOf(t, s, recordClaim("a"))
	s.Advance(10 * time.Hour)
	if n, err := s.Sweep(testContext(t), 1); n != 1 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, name := range []string{"insert", "update", "find", "delete"} {
		if seen[name] == 0 {
			t.Errorf("no %s was seen", name)
		}
	}
}

// What a request costs: reads beside each other count once.
func TestAReplayReadsOnceAndAFirstRequestWritesTwice(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{}
	db := mongotest.Ferret(t).Database(t, watching(func(e *event.CommandStartedEvent) {
		mu.Lock()
		defer mu.Unlock()
		seen[e.CommandName]++
	}))
	s := openRecords(t, db, oncemongo.RecordsConfig{})
	took := func(what string, want map[string]int, fn func()) {
		t.Helper()
		mu.Lock()
		clear(seen)
		mu.Unlock()
		fn()
		mu.Lock()
		defer mu.Unlock()
		for _, name := range []string{"find", "hello", "insert", "update"} {
			if seen[name] != want[name] {
				t.Errorf("%s: %d of %s, want %d", what, seen[name], name, want[name])
			}
		}
	}
	took("a first request", map[string]int{"find": 2, "hello": 2, "insert": 1, "update": 1},
		func() { completeRecord(t, s, claimRecord(t, s, recordClaim("a")), "done") })
	took("a replay", map[string]int{"find": 1, "hello": 1},
		func() { replayOf(t, s, recordClaim("a")) })
	s.Advance(4 * time.Minute) // more than a 16th of the hour
	took("a late replay", map[string]int{"find": 1, "hello": 1, "update": 1},
		func() { replayOf(t, s, recordClaim("a")) })
}

// An index of another kind under the same name is told; it is nothing that waiting mends.
func TestAnIndexThatCannotBeMadeIsNoFaultOfTheNetwork(t *testing.T) {
	t.Parallel()
	db := mongotest.Ferret(t).Database(t)
	if _, err := db.Collection("once_records").Indexes().CreateOne(testContext(t),
		mongo.IndexModel{Keys: bson.D{{Key: "other", Value: 1}},
			Options: options.Index().SetName("once_state")}); err != nil {
		t.Fatal(err)
	}
	s, err := oncemongo.NewRecords(db, oncemongo.RecordsConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Open(testContext(t)); err == nil || errors.Is(err, once.ErrUnavailable) {
		t.Errorf("open: %v", err)
	}
}

func TestNewRecordsRefuses(t *testing.T) {
	t.Parallel()
	db := mongotest.Ferret(t).Database(t)
	for name, cfg := range map[string]oncemongo.RecordsConfig{
		"a system collection":            {Collection: "system.users"},
		"a name that none has":           {Collection: "a$b"},
		"outcomes larger than documents": {MaxOutcome: 16 << 20},
		"outcomes below nothing":         {MaxOutcome: -1},
	} {
		if _, err := oncemongo.NewRecords(db, cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := oncemongo.NewRecords(nil, oncemongo.RecordsConfig{}); err == nil {
		t.Error("no database: no error")
	}
}
