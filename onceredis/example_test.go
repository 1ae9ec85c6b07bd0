package onceredis_test

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/oncekit/once/onceredis"
)

// The client is whatever the program already has: of one server, of Sentinel or of a Cluster.
func ExampleNew() {
	client := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true,
	})
	store, err := onceredis.New(client, onceredis.Config{})
	if err != nil {
		panic(err)
	}
	// Refuses a server that evicts keys, or that keeps nothing on disk.
	if err := store.Open(context.Background()); err != nil {
		panic(err)
	}
}
