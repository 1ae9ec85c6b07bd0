package oncemongo_test

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/oncekit/once/oncemongo"
	"github.com/oncekit/once/write"
)

func ExampleWriter() {
	ctx := context.Background()
	client, err := mongo.Connect(oncemongo.Options("mongodb://mongo:27017"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Disconnect(ctx)
	result, err := payOnce(ctx, client.Database("shop"))
	fmt.Println(result.Outcome, err)
}

func payOnce(ctx context.Context, db *mongo.Database) (write.Result, error) {
	w, err := oncemongo.NewWriter(db, oncemongo.WriterConfig{
		Targets: []write.Target{{Name: "payments"}, {Name: "customers", Key: "number"}},
	})
	if err != nil {
		return write.Result{}, err
	}
	if err := w.Open(ctx); err != nil { // tries the server, looks for the indexes
		return write.Result{}, err
	}
	return w.Write(ctx, write.Event{
		ID: "evt_1", In: "payments", Key: "pay_7",
		Change: write.Upsert{Set: write.Fields{"state": "paid"}},
	})
}
