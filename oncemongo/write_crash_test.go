package oncemongo_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/testserver/mongotest"
	"github.com/oncekit/once/oncemongo"
	"github.com/oncekit/once/write"
)

var errKilled = errors.New("the process ended")

// killAfter is a writer whose process ends after a step of its next event.
func killAfter(w *oncemongo.Writer, step string) {
	w.StopAfter(func(now string) error {
		if now == step {
			return errKilled
		}
		return nil
	})
}

var allSteps = []string{"record", "change", "mark", "release"}

// changesOf are changes of each kind, and what they make of the document {_id: acc1, n: 1, s: "a"}.
func changesOf() map[string]struct {
	change write.Change
	want   bson.M
} {
	return map[string]struct {
		change write.Change
		want   bson.M
	}{
		"increment": {
			write.Increment{By: write.Fields{"n": 2}},
			bson.M{"_id": "acc1", "n": int64(3), "s": "a"},
		},
		"append": {
			write.Append{To: "list", Values: []any{"x"}},
			bson.M{"_id": "acc1", "n": int64(1), "s": "a", "list": bson.A{"x"}},
		},
		"upsert": {
			write.Upsert{Set: write.Fields{"v": 1}, Increment: write.Fields{"n": 1}, Newer: "v"},
			bson.M{"_id": "acc1", "n": int64(2), "s": "a", "v": int64(1)},
		},
		"transition": {
			write.Transition{Field: "s", From: []string{"a"}, To: "b", Set: write.Fields{"t": 1}},
			bson.M{"_id": "acc1", "n": int64(1), "s": "b", "t": int64(1)},
		},
	}
}

func prepared(t testing.TB, s mongotest.Server) *mongo.Database {
	t.Helper()
	db := s.Database(t)
	_, err := db.Collection("accounts").InsertOne(testContext(t),
		bson.M{"_id": "acc1", "n": int64(1), "s": "a"})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// B06: between the record and the change, and between any two other steps.
func TestB06_AWriterThatEndsAfterAStepIsFinishedByAnother(t *testing.T) {
	mongotest.Each(t, func(t *testing.T, s mongotest.Server) {
		way := way{Server: s, steps: true}
		for name, c := range changesOf() {
			for _, step := range allSteps {
				for _, by := range []string{"duplicate", "sweep"} {
					t.Run(name+" after "+step+" by "+by, func(t *testing.T) {
						db := prepared(t, s)
						first, second := way.open(t, db), way.open(t, db)
						killAfter(first, step)
						e := acc1Event("e1", c.change)
						if _, err := first.Write(testContext(t), e); !errors.Is(err, errKilled) {
							t.Fatalf("the writer that ends: %v", err)
						}
						if by == "sweep" {
							if _, err := second.Sweep(testContext(t), 1000); err != nil {
								t.Fatal(err)
							}
						}
						must(t, second, e, write.Duplicate)
						if step == "mark" { // its id stays until somebody needs the room
							takeOutLeft(t, db)
						}
						same(t, document(t, db, "acc1"), c.want)
					})
				}
			}
		}
	})
}

// takeOutLeft wants the id in the document, and takes it out as the sweep does that forgets it.
func takeOutLeft(t testing.TB, db *mongo.Database) {
	t.Helper()
	up, err := db.Collection("accounts").UpdateOne(testContext(t),
		bson.M{"_id": "acc1", "_once.ids": "e1"}, bson.M{"$pull": bson.M{"_once.ids": "e1"}})
	if err != nil || up.MatchedCount != 1 {
		t.Errorf("take out what is left: %+v, %v", up, err)
	}
}

// heldAt lets a writer stop at a step until go is closed; came is closed when it is there.
func heldAt(w *oncemongo.Writer, step string) (came, goOn chan struct{}) {
	came, goOn = make(chan struct{}), make(chan struct{})
	var held atomic.Bool
	w.StopAfter(func(now string) error {
		if now == step && !held.Swap(true) { // others pass
			close(came)
			<-goOn
		}
		return nil
	})
	return came, goOn
}

type written struct {
	result write.Result
	err    error
}

func writeLater(t testing.TB, w *oncemongo.Writer, e write.Event) <-chan written {
	t.Helper()
	ctx, done := testContext(t), make(chan written, 1)
	go func() {
		result, err := w.Write(ctx, e)
		done <- written{result, err}
	}()
	return done
}

// A writer that stands still between two steps, for as long as it takes others to do the event to
// its end, changes nothing any more when it goes on.
func TestAWriterThatWasOvertakenChangesNothing(t *testing.T) {
	mongotest.Each(t, func(t *testing.T, s mongotest.Server) {
		way := way{Server: s, steps: true}
		for name, c := range changesOf() {
			for _, step := range allSteps {
				t.Run(name+" held after "+step, func(t *testing.T) {
					db := prepared(t, s)
					first, second := way.open(t, db), way.open(t, db)
					came, goOn := heldAt(first, step)
					e := acc1Event("e1", c.change)
					done := writeLater(t, first, e)
					<-came
					must(t, second, e, write.Duplicate)
					close(goOn)
					got := <-done
					if got.err != nil || got.result.Outcome != write.Applied {
						t.Errorf("the first one: %+v, %v; want applied", got.result, got.err)
					}
					same(t, document(t, db, "acc1"), c.want)
				})
			}
		}
	})
}

// The other way round: whoever finishes has looked at the document and the record, stands still,
// and the one who is finished does it itself.
func TestAFinisherThatWasOvertakenChangesNothing(t *testing.T) {
	mongotest.Each(t, func(t *testing.T, s mongotest.Server) {
		way := way{Server: s, steps: true}
		for name, c := range changesOf() {
			t.Run(name, func(t *testing.T) {
				db := prepared(t, s)
				first, second := way.open(t, db), way.open(t, db)
				recorded, change := heldAt(first, "record")
				looked, finish := heldAt(second, "look")
				e := acc1Event("e1", c.change)
				one := writeLater(t, first, e)
				<-recorded
				two := writeLater(t, second, e)
				<-looked
				close(change)
				if got := <-one; got.err != nil || got.result.Outcome != write.Applied {
					t.Errorf("the first one: %+v, %v; want applied", got.result, got.err)
				}
				close(finish)
				if got := <-two; got.err != nil || got.result.Outcome != write.Duplicate {
					t.Errorf("the finisher: %+v, %v; want duplicate", got.result, got.err)
				}
				same(t, document(t, db, "acc1"), c.want)
			})
		}
	})
}

// The id in the document, and nothing else, stops a finisher whose look was before the change,
// while the one who made it stands still.
func TestAFinisherMeetsTheIdInTheDocument(t *testing.T) {
	mongotest.Each(t, func(t *testing.T, s mongotest.Server) {
		way := way{Server: s, steps: true}
		db := prepared(t, s)
		first, second := way.open(t, db), way.open(t, db)
		recorded, change := make(chan struct{}), make(chan struct{})
		changed, mark := make(chan struct{}), make(chan struct{})
		first.StopAfter(func(step string) error {
			switch step {
			case "record":
				close(recorded)
				<-change
			case "change":
				close(changed)
				<-mark
			}
			return nil
		})
		looked, finish := heldAt(second, "look")
		e := acc1Event("e1", write.Increment{By: write.Fields{"n": 2}})
		one := writeLater(t, first, e)
		<-recorded
		two := writeLater(t, second, e)
		<-looked
		close(change)
		<-changed
		close(finish)
		if got := <-two; got.err != nil || got.result.Outcome != write.Duplicate {
			t.Errorf("the finisher: %+v, %v; want duplicate", got.result, got.err)
		}
		close(mark)
		if got := <-one; got.err != nil || got.result.Outcome != write.Applied {
			t.Errorf("the first one: %+v, %v; want applied", got.result, got.err)
		}
		same(t, document(t, db, "acc1"), bson.M{"_id": "acc1", "n": int64(3), "s": "a"})
	})
}

// An epoch that the same writer gets to know meanwhile, by another event, is none that the document
// had before the first event's record was there.
func TestAnEpochThatIsLearntLateDoesNotCount(t *testing.T) {
	mongotest.Each(t, func(t *testing.T, s mongotest.Server) {
		way := way{Server: s, steps: true}
		db := prepared(t, s)
		first, second := way.open(t, db), way.open(t, db)
		inc := write.Increment{By: write.Fields{"n": 2}}
		came, goOn := heldAt(first, "record")
		one := writeLater(t, first, acc1Event("e1", inc))
		<-came
		must(t, second, acc1Event("e1", inc), write.Duplicate) // raises the epoch
		must(t, first, acc1Event("e2", inc), write.Applied)    // learns of it
		close(goOn)
		if got := <-one; got.err != nil || got.result.Outcome != write.Applied {
			t.Errorf("the first one: %+v, %v; want applied", got.result, got.err)
		}
		same(t, document(t, db, "acc1"), bson.M{"_id": "acc1", "n": int64(5), "s": "a"})
	})
}

// A change whose first answer was lost may still be on its way when the second one is refused. Who
// brings the event again bars it: the epoch of the document rises.
func TestAnEventThatWasRefusedAfterALostAnswerIsBarredWhenItComesAgain(t *testing.T) {
	server := testserver.SharedMongo(t)
	proxy := testserver.NewProxy(t, server.Addr())
	w := way{Server: mongotest.Server{URI: testserver.MongoURI(proxy.Addr())}, steps: true}
	// Nothing but the change may use up what the proxy lets through.
	db := w.Database(t, options.Client().SetHeartbeatInterval(time.Hour))
	direct := mongotest.Connect(t, server.URI()).Database(db.Name())
	_, err := direct.Collection("accounts").InsertOne(testContext(t),
		bson.M{"_id": "acc1", "s": "a"})
	if err != nil {
		t.Fatal(err)
	}
	first, second := w.open(t, db), w.open(t, db)
	var cut sync.Once
	first.StopAfter(func(step string) error {
		if step == "record" {
			cut.Do(func() { proxy.CutAfter(1) })
		}
		return nil
	})
	e := acc1Event("e1", write.Increment{By: write.Fields{"s": 2}}) // s holds a text
	done := writeLater(t, first, e)
	if got := <-done; !errors.Is(got.err, write.ErrShape) {
		t.Fatalf("%+v, %v; want ErrShape", got.result, got.err)
	}
	set := bson.M{"$set": bson.M{"s": int64(1)}}
	_, err = direct.Collection("accounts").UpdateOne(testContext(t), bson.M{"_id": "acc1"}, set)
	if err != nil {
		t.Fatal(err)
	}
	must(t, second, e, write.Applied)
	n, err := direct.Collection("accounts").
		CountDocuments(testContext(t), bson.M{"_id": "acc1", "s": int64(3), "_once.e": int64(1)})
	if err != nil || n != 1 {
		t.Errorf("%d documents of the next epoch with the sum, %v; want 1", n, err)
	}
}

// An event is not found to be stale while somebody else is about to apply it.
func TestAnEventIsNeverStaleAndApplied(t *testing.T) {
	mongotest.Each(t, func(t *testing.T, s mongotest.Server) {
		way := way{Server: s, steps: true}
		db := prepared(t, s)
		first, second := way.open(t, db), way.open(t, db)
		third := way.open(t, db)
		change := func(v int) write.Change {
			return write.Upsert{
				Set: write.Fields{"v": v}, Increment: write.Fields{"n": 1}, Newer: "v",
			}
		}
		recorded, goOn := heldAt(first, "record")
		looked, finish := heldAt(second, "look")
		one := writeLater(t, first, acc1Event("e1", change(5)))
		<-recorded
		two := writeLater(t, second, acc1Event("e1", change(5)))
		<-looked
		must(t, third, acc1Event("e2", change(6)), write.Applied)
		close(goOn)
		got := <-one
		if got.err != nil || got.result.Outcome != write.Stale {
			t.Errorf("the first one: %+v, %v; want stale", got.result, got.err)
		}
		// A person puts the document back: the finisher could apply the event again, and must not.
		_, err := db.Collection("accounts").UpdateOne(testContext(t),
			bson.M{"_id": "acc1"}, bson.M{"$set": bson.M{"v": int64(1)}})
		if err != nil {
			t.Fatal(err)
		}
		close(finish)
		if got := <-two; got.err != nil || got.result.First.Outcome != write.Stale {
			t.Errorf("the finisher: %+v, %v; want stale", got.result, got.err)
		}
		same(t, document(t, db, "acc1"),
			bson.M{"_id": "acc1", "n": int64(2), "s": "a", "v": int64(1)})
	})
}

// B06: 50 writers, 30 of 100 events repeated, connections cut at random; B07, B10: what was written
// and not answered is one's own, also a commit.
func TestB06_B07_B10_TheSumIsExactWhenConnectionsAreCut(t *testing.T) {
	server := testserver.SharedMongo(t)
	for name, target := range map[string]struct {
		addr  string
		steps bool
		few   int // events of each writer, where more were not asked for
	}{
		"steps":        {server.Addr(), true, 5},
		"transactions": {server.ReplicaAddr(), false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := testserver.NewProxy(t, target.addr)
			cut := mongotest.Server{URI: testserver.MongoURI(proxy.Addr())}
			db := cut.Database(t)
			writer := way{steps: target.steps}.open(t, db)
			direct := mongotest.Connect(t, server.URI()).Database(db.Name())
			exactSum(t, proxy, writer, direct, eventsEach(t, target.few))
		})
	}
}

// eventsEach is how many events each writer writes: 1,000 to see it for long.
func eventsEach(t testing.TB, few int) int {
	t.Helper()
	s := os.Getenv("ONCE_WRITE_EVENTS")
	if s == "" {
		return few
	}
	each, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return each
}

func exactSum(
	t *testing.T, proxy *testserver.Proxy, writer *oncemongo.Writer, direct *mongo.Database,
	each int,
) {
	t.Helper()
	const writers = 50
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(each+2)*time.Minute)
	defer cancel()
	var ended atomic.Bool
	var cutting, all sync.WaitGroup
	cuts := 0
	cutting.Go(func() { cuts = cutAtRandom(t, proxy, &ended) })
	var applied atomic.Int64
	for n := range writers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 3))
			for i := range each {
				e := acc1Event(fmt.Sprintf("e-%d-%d", n, i),
					write.Increment{By: write.Fields{"n": 1}})
				times := 1
				if random.IntN(10) < 3 {
					times = 2
				}
				for range times {
					result, err := writeAtLast(ctx, writer, e)
					if err != nil {
						t.Errorf("write %s: %v", e.ID, err)
						return
					}
					if result.Outcome == write.Applied {
						applied.Add(1)
					}
				}
			}
		})
	}
	all.Wait()
	ended.Store(true)
	cutting.Wait()
	if _, err := writer.Sweep(ctx, 1000); err != nil {
		t.Error(err)
	}
	var got struct{ N int64 }
	err := direct.Collection("accounts").FindOne(ctx, bson.M{"_id": "acc1"}).Decode(&got)
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(writers * each); got.N != want || applied.Load() > want {
		t.Errorf("the sum is %d and %d were told that they applied, want %d",
			got.N, applied.Load(), want)
	}
	t.Logf("%d cuts, %d of %d were told that they applied", cuts, applied.Load(), writers*each)
}

// cutAtRandom cuts all connections again and again until it has ended, and counts. So many bytes
// pass between two cuts that some hundred commands do.
func cutAtRandom(t *testing.T, proxy *testserver.Proxy, ended *atomic.Bool) (cuts int) {
	const least = 100_000
	random := rand.New(rand.NewPCG(1, 2))
	defer proxy.Restore()
	for !ended.Load() {
		from, accepted := proxy.Forwarded(), proxy.Accepted()
		proxy.CutAfter(least + random.Int64N(3*least))
		testserver.Until(t, time.Hour, "connections are cut and made again", func() bool {
			return ended.Load() || proxy.Forwarded() > from+least && proxy.Accepted() > accepted
		})
		cuts++
	}
	return cuts
}

// writeAtLast writes an event again as long as nobody knows whether it was written.
func writeAtLast(ctx context.Context, w *oncemongo.Writer, e write.Event) (write.Result, error) {
	for {
		result, err := w.Write(ctx, e)
		if !errors.Is(err, once.ErrUnavailable) || ctx.Err() != nil {
			return result, err
		}
	}
}

// B01: 50 at once upsert one document that is not there.
func TestB01_ConcurrentUpsertsOfOneDocumentMakeOneAndRaiseNoError(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		db := w.Database(t)
		writer := w.open(t, db)
		const writers = 50
		errs := make(chan error, writers)
		for n := range writers {
			go func() {
				_, err := writer.Write(testContext(t),
					acc1Event(fmt.Sprint("e", n), write.Increment{By: write.Fields{"n": 1}}))
				errs <- err
			}()
		}
		for range writers {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		same(t, document(t, db, "acc1"), bson.M{"_id": "acc1", "n": int64(writers)})
	})
}
