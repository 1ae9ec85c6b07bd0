package oncesqlite

import (
	"fmt"
	"testing"

	"github.com/oncekit/once/internal/powercut"
)

// One flush of everything that is written back would hold up the flushes of the WAL.
func TestTheWALIsWrittenBackInParts(t *testing.T) {
	const rows = 1000
	d := powercut.NewDisk(1)
	cfg := onDisk(t, d)
	cfg.checkpointPages = 8 * paceEvery
	s := openAt(t, cfg)
	before := d.Counts("/once.db")
	for i := range rows {
		mustAppend(t, s, callback(fmt.Sprint("callback ", i)))
	}
	more := 0
	until(t, "the WAL to be written back", func() bool {
		more++
		mustAppend(t, s, callback(fmt.Sprint("more ", more)))
		return d.Counts("/once.db").Writes > before.Writes+4*paceEvery && s.walPages.Load() < 64
	})
	after := d.Counts("/once.db")
	writes, syncs := after.Writes-before.Writes, after.Syncs-before.Syncs
	if syncs < writes/paceEvery || syncs > writes {
		t.Errorf("%d writes of pages had %d flushes, want one each %d", writes, syncs, paceEvery)
	}
}
