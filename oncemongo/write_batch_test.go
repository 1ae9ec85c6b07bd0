package oncemongo_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/oncekit/once/internal/testserver/mongotest"
	"github.com/oncekit/once/write"
)

// counter counts the commands that a client sends.
type counter struct {
	mu       sync.Mutex
	commands []string
}

func (c *counter) monitor() *options.ClientOptions {
	return options.Client().SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.commands = append(c.commands, e.CommandName)
		},
	})
}

// since returns the commands since the last call.
func (c *counter) since() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	commands := c.commands
	c.commands = nil
	return commands
}

// What an event costs in round trips, if nothing stands in its way.
func TestRoundTripsOfAnEvent(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		count := &counter{}
		db := w.Database(t, count.monitor())
		writer := w.open(t, db)
		inc := write.Increment{By: write.Fields{"n": 1}}
		must(t, writer, acc1Event("first", inc), write.Applied) // makes collections
		var batch []write.Event
		for i := range 15 {
			batch = append(batch, write.Event{ID: fmt.Sprint("b", i), In: "accounts",
				Key: fmt.Sprint("key", i%5), Change: inc})
		}
		for _, c := range []struct {
			what                string
			steps, transactions int
			do                  func()
		}{
			{"an increment", 4, 3, func() {
				must(t, writer, acc1Event("e1", inc), write.Applied)
			}},
			{"its repeat", 2, 4, func() {
				must(t, writer, acc1Event("e1", inc), write.Duplicate)
			}},
			{"an upsert of what is there", 4, 3, func() {
				set := write.Upsert{Set: write.Fields{"a": 1}}
				must(t, writer, acc1Event("e2", set), write.Applied)
			}},
			{"a batch of 15", 6, 5, func() {
				results, err := writer.WriteAll(testContext(t), batch)
				if err != nil || results[14].Outcome != write.Applied {
					t.Errorf("batch: %+v, %v", results, err)
				}
			}},
			{"its repeat", 2, 1, func() {
				results, err := writer.WriteAll(testContext(t), batch)
				if err != nil || results[14].Outcome != write.Duplicate {
					t.Errorf("batch: %+v, %v", results, err)
				}
			}},
		} {
			count.since()
			c.do()
			want := c.transactions
			if w.steps {
				want = c.steps
			}
			if got := count.since(); len(got) != want {
				t.Errorf("%s takes %d round trips, want %d: %v", c.what, len(got), want, got)
			}
		}
	})
}

// B06 for batches: whoever ends between two steps is finished, each event by itself.
func TestB06_ABatchWhoseWriterEndsIsFinishedByAnother(t *testing.T) {
	mongotest.Each(t, func(t *testing.T, s mongotest.Server) {
		way := way{Server: s, steps: true}
		for _, step := range allSteps {
			t.Run("after "+step, func(t *testing.T) {
				db := s.Database(t)
				first, second := way.open(t, db), way.open(t, db)
				killAfter(first, step)
				var events []write.Event
				for i := range 6 {
					events = append(events, acc1Event(fmt.Sprint("e", i),
						write.Append{To: "list", Values: []any{i}}))
				}
				results, _ := first.WriteAll(testContext(t), events)
				for _, r := range results {
					if !errors.Is(r.Err, errKilled) {
						t.Errorf("result %+v of the writer that ends", r)
					}
				}
				if _, err := second.Sweep(testContext(t), 1000); err != nil {
					t.Fatal(err)
				}
				results, err := second.WriteAll(testContext(t), events)
				if err != nil {
					t.Fatal(err)
				}
				for i, r := range results {
					if r.Outcome != write.Duplicate {
						t.Errorf("event %d: %+v, want a duplicate", i, r)
					}
				}
				var doc struct {
					List []int64 `bson:"list"`
				}
				err = db.Collection("accounts").
					FindOne(testContext(t), bson.M{"_id": "acc1"}).Decode(&doc)
				if err != nil || fmt.Sprint(doc.List) != "[0 1 2 3 4 5]" {
					t.Errorf("list %v, %v; each once, in order", doc.List, err)
				}
			})
		}
	})
}

// The list in a document is bounded; whoever finds it full looks after those that are in it.
func TestAFullListIsClearedOfThoseWhoEnded(t *testing.T) {
	mongotest.Each(t, func(t *testing.T, s mongotest.Server) {
		way := way{Server: s, steps: true}
		db := s.Database(t)
		const places = 3
		conf := confOf(places)
		inc := write.Increment{By: write.Fields{"n": 1}}
		for i, step := range []string{"change", "mark", "change"} {
			ends := way.openWith(t, db, conf)
			killAfter(ends, step)
			_, err := ends.Write(testContext(t), acc1Event(fmt.Sprint("e", i), inc))
			if !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
		}
		writer := way.openWith(t, db, conf)
		must(t, writer, acc1Event("one more", inc), write.Applied)
		must(t, writer, acc1Event("e0", inc), write.Duplicate)
		must(t, writer, acc1Event("e2", inc), write.Duplicate)
		same(t, document(t, db, "acc1"), bson.M{"_id": "acc1", "n": int64(4)})
	})
}

// B08: what is past its retention is forgotten by the sweep, and its id with it: a later event of
// the same id is a new one, also where the first one's writer ended before its last step.
func TestB08_WhatIsForgottenLeavesNothingBehind(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		db, ctx := w.Database(t), testContext(t)
		writer, ends := w.open(t, db), w.open(t, db)
		inc := write.Increment{By: write.Fields{"n": 1}}
		e := acc1Event("e1", inc)
		if w.steps {
			killAfter(ends, "mark")
			if _, err := ends.Write(ctx, e); !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
		} else {
			must(t, writer, e, write.Applied)
		}
		if n, err := writer.Sweep(ctx, 1000); n != 0 || err != nil {
			t.Errorf("%d forgotten, %v; want none", n, err)
		}
		must(t, writer, e, write.Duplicate)
		age(t, db, "e1")
		if n, err := writer.Sweep(ctx, 1000); n != 1 || err != nil {
			t.Errorf("%d forgotten, %v; want 1", n, err)
		}
		must(t, writer, e, write.Applied)
		same(t, document(t, db, "acc1"), bson.M{"_id": "acc1", "n": int64(2)})
	})
}

// An id that is in the document without a record, since somebody deleted the records, is no sign
// that a new event is done.
func TestAnIdThatWasLeftBehindIsNotTakenForANewEvent(t *testing.T) {
	mongotest.Each(t, func(t *testing.T, s mongotest.Server) {
		db := s.Database(t)
		writer := way{Server: s, steps: true}.open(t, db)
		_, err := db.Collection("accounts").InsertOne(testContext(t), bson.M{
			"_id": "acc1", "n": int64(5), "_once": bson.M{"ids": bson.A{"e1"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		e := acc1Event("e1", write.Increment{By: write.Fields{"n": 1}})
		must(t, writer, e, write.Applied)
		must(t, writer, e, write.Duplicate)
		same(t, document(t, db, "acc1"), bson.M{"_id": "acc1", "n": int64(6)})
	})
}

// age makes a record older than any retention.
func age(t testing.TB, db *mongo.Database, id string) {
	t.Helper()
	up, err := db.Collection("once_events").UpdateOne(testContext(t), bson.M{"_id": id},
		bson.M{"$set": bson.M{"at": bson.DateTime(0)}})
	if err != nil || up.MatchedCount != 1 {
		t.Fatalf("age the record: %+v, %v", up, err)
	}
}
