package testserver_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/oncekit/once/internal/testserver"
)

func connectMongo(t *testing.T, uri string) *mongo.Client {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	return client
}

func mongoContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestAMongoServerKeepsItsDataOverAKill(t *testing.T) {
	ctx := mongoContext(t)
	s := testserver.Mongo(t)
	things := connectMongo(t, s.URI()).Database("kept").Collection("things")
	if _, err := things.InsertOne(ctx, bson.D{{Key: "_id", Value: "a"}}); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	s.Start()
	n, err := connectMongo(t, s.URI()).Database("kept").Collection("things").
		CountDocuments(ctx, bson.D{})
	if err != nil || n != 1 {
		t.Fatalf("%d documents after the kill, %v; want 1", n, err)
	}
}

func TestUpdatesThroughTheGateAreNotLost(t *testing.T) {
	ctx := mongoContext(t)
	s := testserver.SharedMongo(t)
	client := connectMongo(t, s.URI())
	things := client.Database("gate_" + t.Name()).Collection("things")
	if _, err := things.InsertOne(ctx, bson.M{"_id": 1, "n": 0}); err != nil {
		t.Fatal(err)
	}
	const writers, each = 10, 20
	errs := make(chan error, writers)
	for range writers {
		go func() {
			var err error
			for range each {
				_, e := things.UpdateOne(ctx, bson.M{"_id": 1}, bson.M{"$inc": bson.M{"n": 1}})
				if e != nil {
					err = e
				}
			}
			errs <- err
		}()
	}
	for range writers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	var got struct{ N int }
	if err := things.FindOne(ctx, bson.M{"_id": 1}).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.N != writers*each {
		t.Errorf("n is %d after %d increments", got.N, writers*each)
	}
}

func TestAWriteThatWantsNoAnswerIsDone(t *testing.T) {
	ctx := mongoContext(t)
	s := testserver.SharedMongo(t)
	client := connectMongo(t, s.URI()+"&w=0")
	things := client.Database("unanswered").Collection("things")
	_, _ = things.InsertOne(ctx, bson.M{"_id": 1}) // the driver says that it knows nothing
	testserver.Until(t, time.Minute, "the document is there", func() bool {
		n, err := things.CountDocuments(ctx, bson.D{})
		return err == nil && n == 1
	})
}
