package oncemongo_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/testserver/mongotest"
	"github.com/oncekit/once/oncemongo"
	"github.com/oncekit/once/write"
)

func confOf(pending int) oncemongo.WriterConfig {
	return oncemongo.WriterConfig{
		Targets: []write.Target{{Name: "accounts"}}, Patience: time.Minute, Pending: pending,
	}
}

// eachTransactional runs a subtest for each server with transactions.
func eachTransactional(t *testing.T, test func(t *testing.T, w way)) {
	t.Helper()
	eachWay(t, func(t *testing.T, w way) {
		if !w.steps {
			test(t, w)
		}
	})
}

func TestAFunctionRunsOnceInTheTransactionOfItsEvent(t *testing.T) {
	eachTransactional(t, func(t *testing.T, w way) {
		db, ctx := w.Database(t), testContext(t)
		writer := w.open(t, db)
		// Collections are not made in transactions everywhere.
		for _, name := range []string{"accounts", "log"} {
			if err := db.CreateCollection(ctx, name); err != nil {
				t.Fatal(err)
			}
		}
		broken := errors.New("broken")
		work := func(fail error) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := db.Collection("log").InsertOne(ctx, bson.M{"text": "paid"})
				return errors.Join(err, fail)
			}
		}
		if _, err := writer.Apply(ctx, "e1", "content", work(broken)); !errors.Is(err, broken) {
			t.Fatalf("a function that fails: %v", err)
		}
		logged := func(want int64) {
			t.Helper()
			n, err := db.Collection("log").CountDocuments(ctx, bson.D{})
			if n != want || err != nil {
				t.Errorf("%d lines in the log, %v; want %d", n, err, want)
			}
		}
		logged(0)
		for _, c := range []struct {
			content string
			want    write.Outcome
		}{{"content", write.Applied}, {"content", write.Duplicate}, {"other", write.Conflict}} {
			got, err := writer.Apply(ctx, "e1", c.content, work(nil))
			if err != nil || got.Outcome != c.want {
				t.Errorf("%s: %+v, %v; want %s", c.content, got, err, c.want)
			}
			logged(1)
		}
		if _, err := writer.Apply(ctx, "", "content", work(nil)); !errors.Is(err, write.ErrEvent) {
			t.Errorf("without an id: %v", err)
		}
	})
}

func TestAFunctionNeedsTransactions(t *testing.T) {
	w := way{Server: mongotest.Ferret(t), steps: true}
	writer := w.open(t, w.Database(t))
	_, err := writer.Apply(testContext(t), "e1", "content", func(context.Context) error {
		t.Error("the function ran")
		return nil
	})
	if !errors.Is(err, oncemongo.ErrTransactions) {
		t.Errorf("apply: %v, want ErrTransactions", err)
	}
}

// B10: of two transactions on one document one is begun again as a whole.
func TestB10_TransactionsThatMeetAreBegunAgain(t *testing.T) {
	eachTransactional(t, func(t *testing.T, w way) {
		db := w.Database(t)
		writer := w.open(t, db)
		const writers = 10
		var waiting []<-chan written
		for range writers {
			waiting = append(waiting, writeLater(t, writer,
				acc1Event("e1", write.Increment{By: write.Fields{"n": 1}})))
		}
		applied := 0
		for _, w := range waiting {
			got := <-w
			if got.err != nil {
				t.Error(got.err)
			}
			if got.result.Outcome == write.Applied {
				applied++
			}
		}
		if applied != 1 {
			t.Errorf("%d were told that they applied the event, want 1", applied)
		}
		same(t, document(t, db, "acc1"), bson.M{"_id": "acc1", "n": int64(1)})
	})
}

// B07, B10: the commit arrives, and nobody hears of it until the connections are new.
func TestB10_ACommitWhoseAnswerWasLostIsReadBack(t *testing.T) {
	server := testserver.SharedMongo(t)
	proxy := testserver.NewProxy(t, server.ReplicaAddr())
	db := mongotest.Server{URI: testserver.MongoURI(proxy.Addr())}.Database(t)
	writer := way{}.open(t, db)
	var hold sync.Once
	writer.StopAfter(func(string) error {
		hold.Do(proxy.Hold) // the commit goes through, and its answer does not
		return nil
	})
	direct := mongotest.Connect(t, server.URI()).Database(db.Name())
	done := writeLater(t, writer, acc1Event("e1", write.Increment{By: write.Fields{"n": 1}}))
	testserver.Until(t, time.Minute, "the transaction is committed", func() bool {
		n, err := direct.Collection("once_events").CountDocuments(testContext(t), bson.D{})
		return err == nil && n == 1
	})
	proxy.Restore() // cuts what lost bytes
	if got := <-done; got.err != nil || got.result.Outcome != write.Applied {
		t.Errorf("%+v, %v; want applied", got.result, got.err)
	}
	same(t, document(t, direct, "acc1"), bson.M{"_id": "acc1", "n": int64(1)})
}

// Writers with and without transactions share the records: what one has begun in steps, another one
// finishes.
func TestAnEventBegunInStepsIsFinishedByAWriterWithTransactions(t *testing.T) {
	eachTransactional(t, func(t *testing.T, w way) {
		for _, step := range allSteps {
			db := prepared(t, w.Server)
			first := way{Server: w.Server, steps: true}.open(t, db)
			second := w.open(t, db)
			killAfter(first, step)
			e := acc1Event("e1", write.Increment{By: write.Fields{"n": 2}})
			if _, err := first.Write(testContext(t), e); !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			must(t, second, e, write.Duplicate)
			if step == "mark" {
				takeOutLeft(t, db)
			}
			same(t, document(t, db, "acc1"), bson.M{"_id": "acc1", "n": int64(3), "s": "a"})
		}
	})
}
