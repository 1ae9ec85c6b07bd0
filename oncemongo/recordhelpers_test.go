package oncemongo_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver/mongotest"
	"github.com/oncekit/once/oncemongo"
)

// openRecords makes a store that is ready.
func openRecords(
	t testing.TB, db *mongo.Database, cfg oncemongo.RecordsConfig,
) *oncemongo.Records {
	t.Helper()
	s, err := oncemongo.NewRecords(db, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Open(testContext(t)); err != nil {
		t.Fatal(err)
	}
	return s
}

// someRecords is a store on the server that tests share.
func someRecords(t testing.TB) (*oncemongo.Records, *mongo.Database) {
	t.Helper()
	db := mongotest.Ferret(t).Database(t)
	return openRecords(t, db, oncemongo.RecordsConfig{}), db
}

func byID(id once.Identity) bson.D {
	return bson.D{{Key: "_id", Value: hex.EncodeToString(id[:])}}
}

// stored is the document of a record, nil if there is none.
func stored(t testing.TB, db *mongo.Database, id once.Identity) bson.M {
	t.Helper()
	var doc bson.M
	err := db.Collection("once_records").FindOne(testContext(t), byID(id)).Decode(&doc)
	if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		t.Fatal(err)
	}
	return doc
}

// edit changes a record behind the store's back.
func edit(t testing.TB, db *mongo.Database, id once.Identity, update bson.D) {
	t.Helper()
	res, err := db.Collection("once_records").UpdateOne(testContext(t), byID(id), update)
	if err != nil || res.MatchedCount != 1 {
		t.Fatalf("edit record: %+v, %v", res, err)
	}
}

func setting(name string, value any) bson.D {
	return bson.D{{Key: "$set", Value: bson.D{{Key: name, Value: value}}}}
}

// recordClaim is a claim by a new owner.
func recordClaim(name string) once.Claim {
	return once.Claim{
		Identity:    sha256.Sum256([]byte(name)),
		Fingerprint: once.FingerprintRaw([]byte("asked")),
		Owner:       once.NewOwner(), Lease: time.Minute, Retention: time.Hour,
		Note: once.Note{Scope: []string{"tenant", "a"}, Key: "ke", Request: "POST /orders"},
	}
}

func claimRecord(t testing.TB, s once.Store, c once.Claim) once.Grant {
	t.Helper()
	g, err := s.Claim(testContext(t), c)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return g
}

func completeRecord(t testing.TB, s once.Store, g once.Grant, data string) {
	t.Helper()
	if err := s.Complete(testContext(t), g, once.Outcome{Data: []byte(data)}); err != nil {
		t.Fatalf("complete: %v", err)
	}
}

// replayOf is the outcome that a claim gets.
func replayOf(t testing.TB, s once.Store, c once.Claim) once.Outcome {
	t.Helper()
	var r *once.ReplayError
	if _, err := s.Claim(testContext(t), c); !errors.As(err, &r) {
		t.Fatalf("claim: %v, want a replay", err)
	}
	return r.Outcome
}

func wantError(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// soon is a context that is over soon.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// sameRecords is another store on the records of a database.
func sameRecords(t testing.TB, db *mongo.Database) *oncemongo.Records {
	t.Helper()
	return openRecords(t, db, oncemongo.RecordsConfig{})
}
