package oncemongo_test

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncemongo"
)

// The database is one that the program already has; its collection once_records is made.
func ExampleNewRecords() {
	client, err := mongo.Connect(oncemongo.Options("mongodb://mongo:27017"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Disconnect(context.Background())
	guard, err := newRecordsGuard(context.Background(), client.Database("shop"))
	fmt.Println(guard != nil, err)
}

func newRecordsGuard(ctx context.Context, db *mongo.Database) (*once.Guard, error) {
	store, err := oncemongo.NewRecords(db, oncemongo.RecordsConfig{})
	if err != nil {
		return nil, err
	}
	if err := store.Open(ctx); err != nil { // tries the server, makes the indexes
		return nil, err
	}
	return once.NewGuard(store, once.Config{OnUnknown: once.Hold})
}
