package oncesqlite

import (
	"path/filepath"
	"testing"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/linear"
	"github.com/oncekit/once/oncetest"
)

// recordHarness gives stores whose restarts are kills: what a killed process leaves is opened.
func recordHarness(cfg Config) oncetest.Open {
	return func(t *testing.T) oncetest.Harness {
		clock := newClock()
		cfg := cfg
		cfg.Path, cfg.Now = filepath.Join(t.TempDir(), "once.db"), clock.now
		cfg.MaxOutcome, cfg.Readers = 1<<20, 1
		s := openAt(t, cfg)
		return oncetest.Harness{
			Store: s.Records(), Advance: clock.advance, MaxOutcome: cfg.MaxOutcome,
			Reopen: func() once.Store {
				next := s.cfg
				next.Path = filepath.Join(t.TempDir(), "killed.db")
				copyStore(t, s.cfg.Path, next.Path)
				s = openAt(t, next)
				return s.Records()
			},
			Corrupt: func(id once.Identity) {
				mustWrite(t, s, "UPDATE records SET state = state + 100 WHERE identity = ?", id[:])
			},
		}
	}
}

func TestRecordsConform(t *testing.T) { oncetest.Run(t, recordHarness(Config{})) }

// Every repeat asks the file.
func TestRecordsConformWithoutMemory(t *testing.T) {
	oncetest.Run(t, recordHarness(Config{ReplayKiB: -1}))
}

func TestRecordsAreLinearizable(t *testing.T) {
	for name, kib := range map[string]int{"memory": 0, "file": -1} {
		t.Run(name, func(t *testing.T) {
			_, r, _ := recordsAt(t, Config{ReplayKiB: kib})
			linear.Check(t, r, linear.Options{})
		})
	}
}

func BenchmarkRecords(b *testing.B) { oncetest.Bench(b, benchRecords(b, Config{})) }
