package oncemongo_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver/mongotest"
	"github.com/oncekit/once/oncemongo"
	"github.com/oncekit/once/write"
)

// way is a server and the way in which a writer writes to it.
type way struct {
	mongotest.Server
	steps bool
}

// eachWay runs a subtest for each way that the servers have: steps on FerretDB, transactions on
// what plays a replica set; where the environment names a MongoDB, both there.
func eachWay(t *testing.T, test func(t *testing.T, w way)) {
	t.Helper()
	for _, s := range append(mongotest.Servers(t), mongotest.Replica(t)) {
		if s.Name != "ferretdb" {
			t.Run(s.Name, func(t *testing.T) { test(t, way{Server: s}) })
		}
		if s.Name == "emulated" {
			continue
		}
		t.Run(s.Name+" in steps", func(t *testing.T) { test(t, way{Server: s, steps: true}) })
	}
}

// open opens a writer to the collection accounts, and to those given.
func (w way) open(t testing.TB, db *mongo.Database, more ...write.Target) *oncemongo.Writer {
	t.Helper()
	return w.openWith(t, db, oncemongo.WriterConfig{
		Targets:  append([]write.Target{{Name: "accounts"}}, more...),
		Patience: time.Minute,
	})
}

func (w way) openWith(
	t testing.TB, db *mongo.Database, conf oncemongo.WriterConfig,
) *oncemongo.Writer {
	t.Helper()
	conf.Steps = w.steps
	writer, err := oncemongo.NewWriter(db, conf)
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Open(testContext(t)); err != nil {
		t.Fatal(err)
	}
	return writer
}

// must writes an event and wants this outcome.
func must(t testing.TB, w write.Writer, e write.Event, want write.Outcome) write.Result {
	t.Helper()
	got, err := w.Write(testContext(t), e)
	if err != nil {
		t.Fatalf("write %s: %v", e.ID, err)
	}
	if got.Outcome != want {
		t.Fatalf("write %s: %s, want %s", e.ID, got.Outcome, want)
	}
	return got
}

// document is a document without what the writer keeps in it; nil if there is none.
func document(t testing.TB, db *mongo.Database, key any) bson.M {
	t.Helper()
	var doc bson.M
	err := db.Collection("accounts").FindOne(testContext(t), bson.D{{Key: "_id", Value: key}}).
		Decode(&doc)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	if own, found := doc["_once"]; found {
		if ids, _ := own.(bson.D); len(idsIn(ids)) > 0 {
			t.Errorf("ids are left in the document: %v", own)
		}
		delete(doc, "_once")
	}
	return doc
}

func idsIn(own bson.D) bson.A {
	for _, e := range own {
		if e.Key == "ids" {
			ids, _ := e.Value.(bson.A)
			return ids
		}
	}
	return nil
}

func same(t testing.TB, got, want bson.M) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("document %v, want %v", got, want)
	}
}

func acc1Event(id string, change write.Change) write.Event {
	return write.Event{ID: id, In: "accounts", Key: "acc1", Change: change}
}

func TestAnInsertMakesADocumentOnce(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		db := w.Database(t)
		writer := w.open(t, db)
		e := acc1Event("e1", write.Insert{Set: write.Fields{"owner": "ann", "n": 1}})
		must(t, writer, e, write.Applied)
		again := must(t, writer, e, write.Duplicate)
		if f := again.First; f == nil || f.Outcome != write.Applied || f.In != "accounts" ||
			f.Key != "acc1" || time.Since(f.At).Abs() > time.Hour {
			t.Errorf("first %+v", f)
		}
		other := acc1Event("e2", write.Insert{Set: write.Fields{"owner": "bob"}})
		_, err := writer.Write(testContext(t), other)
		if !errors.Is(err, write.ErrExists) {
			t.Errorf("another event's insert: %v, want ErrExists", err)
		}
		same(t, document(t, db, "acc1"), bson.M{"_id": "acc1", "owner": "ann", "n": int64(1)})
	})
}

func TestAnUpsertMakesAndChangesADocument(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		db := w.Database(t)
		writer := w.open(t, db)
		change := write.Upsert{
			Set:         write.Fields{"name": "ann"},
			SetOnInsert: write.Fields{"since": 2020},
			Increment:   write.Fields{"n": 2},
		}
		got := must(t, writer, acc1Event("e1", change), write.Applied)
		if got.Numbers["n"] != int64(2) {
			t.Errorf("numbers %v, want n 2", got.Numbers)
		}
		change.SetOnInsert = write.Fields{"since": 2021}
		change.Set = write.Fields{"name": "bob"}
		got = must(t, writer, acc1Event("e2", change), write.Applied)
		if got.Numbers["n"] != int64(4) {
			t.Errorf("numbers %v, want n 4", got.Numbers)
		}
		got = must(t, writer, acc1Event("e2", change), write.Duplicate)
		if got.Numbers["n"] != int64(4) {
			t.Errorf("numbers of the duplicate %v, want n 4", got.Numbers)
		}
		same(t, document(t, db, "acc1"),
			bson.M{"_id": "acc1", "name": "bob", "since": int64(2020), "n": int64(4)})
	})
}

func TestAnotherChangeUnderAnIdIsAConflict(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		db := w.Database(t)
		writer := w.open(t, db)
		must(t, writer, acc1Event("e1", write.Increment{By: write.Fields{"n": 1}}), write.Applied)
		other := acc1Event("e1", write.Increment{By: write.Fields{"n": 2}})
		got := must(t, writer, other, write.Conflict)
		if got.First == nil || got.First.Outcome != write.Applied || got.First.Key != "acc1" {
			t.Errorf("first %+v", got.First)
		}
		same(t, document(t, db, "acc1"), bson.M{"_id": "acc1", "n": int64(1)})
	})
}

func TestAnAppendPutsValuesAtTheEndOnce(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		db := w.Database(t)
		writer := w.open(t, db)
		e := acc1Event("e1", write.Append{To: "log", Values: []any{"a", 1}})
		must(t, writer, e, write.Applied)
		must(t, writer, acc1Event("e2", write.Append{To: "log", Values: []any{"b"}}), write.Applied)
		must(t, writer, e, write.Duplicate)
		same(t, document(t, db, "acc1"), bson.M{"_id": "acc1", "log": bson.A{"a", int64(1), "b"}})
	})
}

// B04: what may have changed is no part of an upsert's filter.
func TestB04_AnEventThatIsOlderIsStaleAndMakesNoSecondDocument(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		db := w.Database(t)
		writer := w.open(t, db)
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		set := func(id string, at any, state string) write.Event {
			return acc1Event(id, write.Upsert{
				Set: write.Fields{"at": at, "state": state}, Newer: "at",
			})
		}
		must(t, writer, set("e1", at, "new"), write.Applied)
		must(t, writer, set("e2", at.Add(time.Second), "paid"), write.Applied)
		old := set("e3", at.Add(time.Millisecond), "sent")
		must(t, writer, old, write.Stale)
		if got := must(t, writer, old, write.Duplicate); got.First.Outcome != write.Stale {
			t.Errorf("first %+v, want stale", got.First)
		}
		must(t, writer, set("e4", at.Add(time.Second), "same time"), write.Stale)
		_, err := writer.Write(testContext(t), set("e5", "later", "text"))
		var shape *write.ShapeError
		if !errors.As(err, &shape) || shape.Field != "at" {
			t.Errorf("a text against a time: %v, want a ShapeError of at", err)
		}
		n, err := db.Collection("accounts").CountDocuments(testContext(t), bson.D{})
		if n != 1 || err != nil {
			t.Errorf("%d documents, %v; want 1", n, err)
		}
		if got := document(t, db, "acc1")["state"]; got != "paid" {
			t.Errorf("state %v, want paid", got)
		}
	})
}

func TestATransitionStartsOnlyFromItsStates(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		db := w.Database(t)
		writer := w.open(t, db)
		pay := acc1Event("pay", write.Transition{
			Field: "state", From: []string{"new", "held"}, To: "paid",
			Set: write.Fields{"amount": 10},
		})
		var state *write.StateError
		_, err := writer.Write(testContext(t), pay)
		if !errors.As(err, &state) || !state.Missing {
			t.Fatalf("without a document: %v, want a StateError", err)
		}
		made := write.Upsert{Set: write.Fields{"state": "draft"}}
		must(t, writer, acc1Event("e1", made), write.Applied)
		_, err = writer.Write(testContext(t), pay)
		if !errors.As(err, &state) || state.Missing || state.State != "draft" {
			t.Fatalf("from draft: %v, want a StateError of draft", err)
		}
		made.Set = write.Fields{"state": "held"}
		must(t, writer, acc1Event("e2", made), write.Applied)
		must(t, writer, pay, write.Applied) // its time has come
		must(t, writer, pay, write.Duplicate)
		same(t, document(t, db, "acc1"),
			bson.M{"_id": "acc1", "amount": int64(10), "state": "paid"})
	})
}

func TestIdsAreComparedByteForByte(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		db := w.Database(t)
		writer := w.open(t, db)
		for _, id := range []string{"e", "E", "e ", " e", "é", "e\u0301"} {
			must(t, writer, acc1Event(id, write.Increment{By: write.Fields{"n": 1}}), write.Applied)
		}
		if got := document(t, db, "acc1")["n"]; got != int64(6) {
			t.Errorf("n is %v after 6 events", got)
		}
	})
}

func TestABadEventIsRefusedAndNothingIsWritten(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		db := w.Database(t)
		writer := w.open(t, db)
		inc := write.Increment{By: write.Fields{"n": 1}}
		for name, e := range map[string]write.Event{
			"empty id":     acc1Event("", inc),
			"id of 1 MB":   acc1Event(strings.Repeat("x", 1<<20), inc),
			"no field":     acc1Event("e", write.Upsert{}),
			"not a target": {ID: "e", In: "others", Key: "k", Change: inc},
			"own member":   acc1Event("e", write.Upsert{Set: write.Fields{"_once": 1}}),
			"own counter":  acc1Event("e", write.Increment{By: write.Fields{"_once": 1}}),
			"own list":     acc1Event("e", write.Append{To: "_once", Values: []any{1}}),
			"own state": acc1Event("e", write.Transition{
				Field: "_once", From: []string{"a"}, To: "b",
			}),
			"dotted": acc1Event("e", write.Upsert{Set: write.Fields{"a.b": 1}}),
			"dollar": acc1Event("e", write.Upsert{Set: write.Fields{"$a": 1}}),
			"one path twice": acc1Event("e", write.Upsert{
				Set: write.Fields{"a": 1}, Increment: write.Fields{"a": 1},
			}),
			"16 MB": acc1Event("e", write.Upsert{
				Set: write.Fields{"a": strings.Repeat("x", 16<<20)},
			}),
			"digits": acc1Event("e", write.Upsert{Set: write.Fields{
				"a": json.Number("0.1234567890123456789012345678901234567890"),
			}}),
		} {
			_, err := writer.Write(testContext(t), e)
			var wrong *write.EventError
			if !errors.As(err, &wrong) {
				t.Errorf("%s: %v, want an EventError", name, err)
			}
			large := name == "16 MB" || name == "id of 1 MB"
			if errors.Is(err, once.ErrTooLarge) != large {
				t.Errorf("%s: %v, too large: %v", name, err, large)
			}
		}
		empty(t, db, "accounts")
		empty(t, db, "once_events")
	})
}

func empty(t testing.TB, db *mongo.Database, name string) {
	t.Helper()
	n, err := db.Collection(name).CountDocuments(testContext(t), bson.D{})
	if n != 0 || err != nil {
		t.Errorf("%d documents in %s, %v; want none", n, name, err)
	}
}

func TestADocumentOfAnotherShapeIsATypedErrorAndStaysAsItIs(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		db := w.Database(t)
		writer := w.open(t, db)
		before := bson.M{"_id": "acc1", "list": bson.A{int64(1)}, "text": "t"}
		if _, err := db.Collection("accounts").InsertOne(testContext(t), before); err != nil {
			t.Fatal(err)
		}
		newer := func(v any) write.Change {
			return write.Upsert{Set: write.Fields{"list": v}, Newer: "list"}
		}
		for name, change := range map[string]write.Change{
			"add to a text":    write.Increment{By: write.Fields{"text": 1}},
			"append to a text": write.Append{To: "text", Values: []any{1}},
			"list as order":    newer(5),
		} {
			e := acc1Event("e", change)
			_, err := writer.Write(testContext(t), e)
			if !errors.Is(err, write.ErrShape) {
				t.Errorf("%s: %v, want ErrShape", name, err)
			}
			same(t, document(t, db, "acc1"), before)
		}
		// The id is free: none of them is remembered.
		must(t, writer, acc1Event("e", write.Increment{By: write.Fields{"n": 1}}), write.Applied)
	})
}

func TestAnotherUniqueIndexIsAnErrorAndNoRace(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		db := w.Database(t)
		unique(t, db, "accounts", "email")
		writer := w.open(t, db)
		mail := func(id, key string, change write.Change) write.Event {
			return write.Event{ID: id, In: "accounts", Key: key, Change: change}
		}
		set := write.Fields{"email": "a@example.com"}
		must(t, writer, mail("e1", "acc1", write.Upsert{Set: set}), write.Applied)
		for id, change := range map[string]write.Change{
			"upsert": write.Upsert{Set: set},
			"insert": write.Insert{Set: set},
		} {
			_, err := writer.Write(testContext(t), mail(id, "acc2", change))
			if !errors.Is(err, write.ErrShape) || strings.Contains(err.Error(), "example.com") {
				t.Errorf("%s of a second: %v, want ErrShape without the value", id, err)
			}
		}
		if got := document(t, db, "acc2"); got != nil {
			t.Errorf("a second document %v", got)
		}
	})
}

func unique(t testing.TB, db *mongo.Database, name, key string) {
	t.Helper()
	_, err := db.Collection(name).Indexes().CreateOne(testContext(t), uniqueIndex(key))
	if err != nil {
		t.Fatal(err)
	}
}

func TestAWriterThatIsNotOpenSaysSo(t *testing.T) {
	db := mongotest.Ferret(t).Database(t)
	writer, err := oncemongo.NewWriter(db, oncemongo.WriterConfig{
		Targets: []write.Target{{Name: "accounts"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := writer.Write(ctx, acc1Event("e", write.Insert{})); err == nil {
		t.Error("a writer that is not open wrote")
	}
}
