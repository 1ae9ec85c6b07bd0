package oncemongo

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once/internal/testserver/mongotest"
)

func TestTheServerTellsItsTimeAndTheCodeOfADuplicate(t *testing.T) {
	mongotest.Each(t, func(t *testing.T, s mongotest.Server) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		db := s.Database(t)
		at, err := serverTime(ctx, db)
		if err != nil {
			t.Fatal(err)
		}
		if off := time.Since(at).Abs(); off > time.Hour {
			t.Errorf("the server's time is %v away", off)
		}
		things := collection(db, "things")
		for range 2 {
			_, err = things.InsertOne(ctx, bson.D{{Key: "_id", Value: "a"}})
		}
		if !hasCode(err, codeDuplicateKey) {
			t.Errorf("the second insert: %v", err)
		}
	})
}
