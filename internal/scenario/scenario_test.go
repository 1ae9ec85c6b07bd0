package scenario_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/scenario"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/oncemem"
	"github.com/oncekit/once/onceredis"
	"github.com/oncekit/once/oncesqlite"
)

const folder = "../../scenarios"

// loaded reads the scenarios once for all tests.
var loaded = sync.OnceValues(func() ([]scenario.Scenario, error) {
	return scenario.Load(os.DirFS(folder))
})

func load(t *testing.T) []scenario.Scenario {
	t.Helper()
	list, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func origin(t *testing.T) *scenario.Origin {
	t.Helper()
	o, err := scenario.ListenOrigin(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close() })
	return o
}

// hold runs all scenarios against the middleware over a store.
func hold(t *testing.T, store once.Store) {
	t.Helper()
	o := origin(t)
	pass(t, scenario.Config{Target: guardedTarget(t, o, store), Origin: o})
}

// pass runs all scenarios, of which none may fail.
func pass(t *testing.T, cfg scenario.Config) {
	t.Helper()
	passSome(t, load(t), cfg)
}

func passSome(t *testing.T, list []scenario.Scenario, cfg scenario.Config) {
	t.Helper()
	results, err := scenario.Run(t.Context(), list, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		for _, problem := range r.Problems {
			t.Errorf("%s: %s", r.ID, problem)
		}
	}
}

func TestTheMiddlewarePassesEveryScenarioInMemory(t *testing.T) {
	store, err := oncemem.New(oncemem.Config{SingleInstance: true})
	if err != nil {
		t.Fatal(err)
	}
	hold(t, store)
}

func TestTheMiddlewarePassesEveryScenarioOverSQLite(t *testing.T) {
	store, err := oncesqlite.Open(t.Context(), oncesqlite.Config{
		Path: filepath.Join(t.TempDir(), "once.db"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	hold(t, store.Records())
}

func TestTheMiddlewarePassesEveryScenarioOverRedis(t *testing.T) {
	server := testserver.Redis(t, "appendonly yes")
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	store, err := onceredis.New(client, onceredis.Config{MayForget: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	hold(t, store)
}
