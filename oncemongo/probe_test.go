package oncemongo_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/testserver/mongotest"
	"github.com/oncekit/once/oncemongo"
)

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestAServerWithoutTransactionsIsSeenAsItIs(t *testing.T) {
	db := mongotest.Ferret(t).Database(t)
	got, err := oncemongo.Probe(testContext(t), db)
	if err != nil {
		t.Fatal(err)
	}
	if got.Transactions || got.Now || got.TTL || got.Decimals || got.MaxDocument != 16<<20 {
		t.Errorf("facts %+v, want nothing but documents of 16 MiB", got)
	}
}

func TestARealServerHasItAll(t *testing.T) {
	real, ok := mongotest.Real()
	if !ok {
		return // only where the environment names one
	}
	got, err := oncemongo.Probe(testContext(t), real.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	if !got.Now || !got.TTL || !got.Decimals {
		t.Errorf("facts %+v: a MongoDB has a clock and TTL indexes", got)
	}
}

// One probe may be lucky; a server whose updates are not atomic is not lucky for ever.
func TestAServerWhoseUpdatesAreNotAtomicIsRefused(t *testing.T) {
	db := mongotest.Server{URI: testserver.SharedMongo(t).RawURI()}.Database(t)
	ctx := testContext(t)
	for ctx.Err() == nil {
		_, err := oncemongo.Probe(ctx, db)
		if errors.Is(err, oncemongo.ErrServer) {
			t.Log(err)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("no probe saw that several updates won")
}

func TestAServerIsProbedByManyAtOnce(t *testing.T) {
	mongotest.Each(t, func(t *testing.T, s mongotest.Server) {
		db, ctx := s.Database(t), testContext(t)
		const probes = 4
		errs := make(chan error, probes)
		for range probes {
			go func() {
				_, err := oncemongo.Probe(ctx, db)
				errs <- err
			}()
		}
		for range probes {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestTransactionsAreSeenByWhatTheyDo(t *testing.T) {
	got, err := oncemongo.Probe(testContext(t), mongotest.Replica(t).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	if !got.Transactions {
		t.Errorf("facts %+v: an aborted write was undone, so there are transactions", got)
	}
}
