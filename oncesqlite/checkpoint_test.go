package oncesqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Somebody always looks at the store: without a pause between two readers the WAL can't start anew
// by itself.
func TestTheWALStaysShortWhileThereIsAlwaysAReader(t *testing.T) {
	const force = 100
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db"), checkpointPages: 50,
		forcePages: force})
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	const readTime = 30 * time.Millisecond
	for range 3 {
		wg.Go(func() {
			for ctx.Err() == nil {
				err := s.read(ctx, func(c *conn) error {
					_, err := c.int("SELECT count(*) FROM rows")
					done := time.NewTimer(readTime)
					defer done.Stop()
					select {
					case <-done.C:
					case <-ctx.Done():
					}
					return err
				})
				if err != nil && ctx.Err() == nil {
					t.Errorf("read: %v", err)
				}
			}
		})
	}
	longest := int64(0)
	for i := range 600 {
		mustAppend(t, s, callback(fmt.Sprint(i)))
		longest = max(longest, s.walPages.Load())
	}
	if longest == 0 || longest > 5*force {
		t.Errorf("the WAL came to %d pages, want it written back from %d", longest, force)
	}
}

// The writer has to be told of each commit: how long the WAL is, and that the disk takes writes.
func TestEachCommitTellsTheLengthOfTheWALAndTheHealthOfTheStore(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db")})
	mustAppend(t, s, callback("a"))
	s.health.mu.Lock()
	at := s.health.at
	s.health.mu.Unlock()
	if pages := s.walPages.Load(); pages == 0 || at == 0 {
		t.Errorf("the WAL has %d pages, the last good write was at %d; want both known", pages, at)
	}
}
