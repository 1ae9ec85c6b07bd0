package oncemongo_test

import (
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/linear"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/testserver/mongotest"
	"github.com/oncekit/once/oncemongo"
	"github.com/oncekit/once/oncetest"
)

// recordOutcome is small, so that the cases of the limit are quick.
const recordOutcome = 256 << 10

func TestRecords(t *testing.T) {
	t.Parallel()
	mongotest.Each(t, func(t *testing.T, server mongotest.Server) {
		cfg := oncemongo.RecordsConfig{MaxOutcome: recordOutcome}
		oncetest.Run(t, func(t *testing.T) oncetest.Harness {
			db := server.Database(t)
			s := openRecords(t, db, cfg)
			return oncetest.Harness{
				Store: s, MaxOutcome: recordOutcome,
				Advance: func(d time.Duration) { s.Advance(d) },
				Corrupt: func(id once.Identity) { edit(t, db, id, setting("fence", "?")) },
				Reopen: func() once.Store {
					before := s
					s = openRecords(t, mongotest.Connect(t, server.URI).Database(db.Name()), cfg)
					s.KeepClock(before)
					return s
				},
			}
		})
	})
}

// Without a clock that tests move, everything is judged by the server's.
func TestRecordsByTheServersClock(t *testing.T) {
	t.Parallel()
	mongotest.Each(t, func(t *testing.T, server mongotest.Server) {
		oncetest.Run(t, func(t *testing.T) oncetest.Harness {
			return oncetest.Harness{
				Store: openRecords(t, server.Database(t), oncemongo.RecordsConfig{
					MaxOutcome: recordOutcome,
				}),
				MaxOutcome: recordOutcome,
			}
		}, "Claim", "Stale", "Unknown", "Retention", "Sweep", "Renew")
	})
}

// What was acknowledged outlives the server's process.
func TestRecordsOverARestartOfTheServer(t *testing.T) {
	t.Parallel()
	oncetest.Run(t, func(t *testing.T) oncetest.Harness {
		server := testserver.Mongo(t)
		db := mongotest.Connect(t, server.URI()).Database(mongotest.DatabaseName())
		s := openRecords(t, db, oncemongo.RecordsConfig{})
		return oncetest.Harness{
			Store: s, Advance: func(d time.Duration) { s.Advance(d) },
			Reopen: func() once.Store {
				server.Kill()
				server.Start()
				return s
			},
		}
	}, "Restart")
}

func TestAnswersOfRecordsCouldHaveComeOneAfterTheOther(t *testing.T) {
	t.Parallel()
	mongotest.Each(t, func(t *testing.T, server mongotest.Server) {
		linear.Check(t, openRecords(t, server.Database(t), oncemongo.RecordsConfig{}),
			linear.Options{})
	})
}

// BenchmarkRecords measures the server of the tests, over loopback, and with it the gate before it.
func BenchmarkRecords(b *testing.B) {
	for _, server := range mongotest.Servers(b) {
		b.Run(server.Name, func(b *testing.B) {
			oncetest.Bench(b, openRecords(b, server.Database(b), oncemongo.RecordsConfig{}))
		})
	}
}
