package oncemongo_test

import (
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/oncekit/once/internal/testserver/mongotest"
	"github.com/oncekit/once/oncemongo"
	"github.com/oncekit/once/write"
)

func uniqueIndex(key string) mongo.IndexModel {
	return mongo.IndexModel{
		Keys:    bson.D{{Key: key, Value: 1}},
		Options: options.Index().SetUnique(true),
	}
}

// B02: without the index, concurrent upserts make two documents and no error.
func TestB02_AWriterWithoutTheUniqueIndexDoesNotOpen(t *testing.T) {
	mongotest.Each(t, func(t *testing.T, s mongotest.Server) {
		db, ctx := s.Database(t), testContext(t)
		accounts := db.Collection("accounts")
		for i, key := range []any{"a", "b", "a", "c", "c", "c", int64(7)} {
			if _, err := accounts.InsertOne(ctx, bson.M{"_id": i, "number": key}); err != nil {
				t.Fatal(err)
			}
		}
		writer, err := oncemongo.NewWriter(db, oncemongo.WriterConfig{
			Targets: []write.Target{{Name: "accounts", Key: "number"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		err = writer.Open(ctx)
		var missing *write.IndexError
		if !errors.As(err, &missing) {
			t.Fatalf("open: %v, want an IndexError", err)
		}
		want := []write.DuplicateKey{{Key: "c", Count: 3}, {Key: "a", Count: 2}}
		if len(missing.Duplicates) != 2 || missing.Duplicates[0] != want[0] ||
			missing.Duplicates[1] != want[1] {
			t.Errorf("duplicates %v, want %v", missing.Duplicates, want)
		}
		const command = `db.getCollection("accounts").createIndex({"number": 1}, {unique: true})`
		if missing.Command != command || !strings.Contains(err.Error(), command) {
			t.Errorf("command %s, want %s", missing.Command, command)
		}
		if _, err := writer.Write(ctx, acc1Event("e", write.Insert{})); err == nil {
			t.Error("it wrote all the same")
		}

		repeated := bson.M{"_id": bson.M{"$in": bson.A{2, 4, 5}}}
		if _, err := accounts.DeleteMany(ctx, repeated); err != nil {
			t.Fatal(err)
		}
		if err := writer.Open(ctx); !errors.As(err, &missing) || len(missing.Duplicates) != 0 {
			t.Fatalf("open without duplicates: %v, want an IndexError without any", err)
		}
		unique(t, db, "accounts", "number")
		if err := writer.Open(ctx); err != nil {
			t.Fatalf("open with the index: %v", err)
		}
		e := write.Event{ID: "e", In: "accounts", Key: "a",
			Change: write.Increment{By: write.Fields{"n": 3}}}
		must(t, writer, e, write.Applied)
		n, err := accounts.CountDocuments(ctx, bson.M{"number": "a", "n": 3})
		if n != 1 || err != nil {
			t.Errorf("%d documents were changed, %v; want 1", n, err)
		}
	})
}

// B09: a TTL index on a user's collection would delete what is the user's.
func TestB09_NothingIsMadeInAUsersCollection(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		db, ctx := w.Database(t), testContext(t)
		writer := w.open(t, db)
		must(t, writer, acc1Event("e", write.Insert{Set: write.Fields{"a": 1}}), write.Applied)
		if _, err := writer.Sweep(ctx, 1000); err != nil {
			t.Fatal(err)
		}
		cursor, err := db.Collection("accounts").Indexes().List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var found []bson.M
		if err := cursor.All(ctx, &found); err != nil {
			t.Fatal(err)
		}
		if len(found) != 1 || found[0]["name"] != "_id_" {
			t.Errorf("indexes %v, want that of _id alone", found)
		}
	})
}

func TestNamesThatCanNotBeMeantAreRefused(t *testing.T) {
	db := mongotest.Ferret(t).Database(t)
	for _, target := range []write.Target{
		{Name: "once_events"}, {Name: "system.views"}, {Name: "a$b"}, {Name: ""},
		{Name: "a", Key: "b.c"}, {Name: "a", Key: "$b"}, {Name: "a", Key: "_once"},
	} {
		conf := oncemongo.WriterConfig{Targets: []write.Target{target}}
		if _, err := oncemongo.NewWriter(db, conf); err == nil {
			t.Errorf("target %+v was taken", target)
		}
	}
}
