package onceredis_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/oncekit/once"
	"github.com/oncekit/once/onceredis"
)

// The client is whatever the program already has: of one server, of Sentinel or of a Cluster.
func ExampleNew() {
	guard, err := newGuard(context.Background())
	fmt.Println(guard != nil, err)
}

func newGuard(ctx context.Context) (*once.Guard, error) {
	client := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs:                 []string{"redis:6379"},
		ContextTimeoutEnabled: true, // a call ends with its context
	})
	store, err := onceredis.New(client, onceredis.Config{})
	if err != nil {
		return nil, err
	}
	if err := store.Open(ctx); err != nil { // asks the server, loads the scripts
		return nil, err
	}
	return once.NewGuard(store, once.Config{})
}
