package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/queue"
)

// counter is a handler in Go that counts callbacks in tables of its own. Some of its first tries
// fail, before or after they wrote: that must not show in what is counted.
type counter struct{ fuse *fuse }

type reading struct {
	ID    string `json:"id"`
	Meter string `json:"meter"`
	N     int64  `json:"n"`
}

// lot draws a number for a callback, the same in each life of the process.
func lot(id string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // a hash takes everything
	return h.Sum32() % 40
}

// Work decodes the reading.
func (c *counter) Work(_ context.Context, cb inbox.Callback) (any, error) {
	c.fuse.reach(pointWorking)
	var r reading
	if err := cb.Decode(&r); err != nil {
		return nil, inbox.Permanent(err)
	}
	if cb.Event == "poison" {
		c.fuse.burn("poison")
	}
	if cb.Attempt == 1 {
		switch lot(r.ID) {
		case 0:
			return nil, errors.New("the first try fails")
		case 1:
			panic("the first try panics")
		}
	}
	return r, nil
}

// Commit counts the reading, without any guard of its own against a second time.
func (c *counter) Commit(ctx context.Context, tx queue.Tx, cb inbox.Callback, result any) error {
	r, ok := result.(reading)
	if !ok {
		return fmt.Errorf("count reading: Work returned %T", result)
	}
	for _, s := range []struct {
		text string
		args []any
	}{
		{"CREATE TABLE IF NOT EXISTS readings (id TEXT NOT NULL, meter TEXT NOT NULL)", nil},
		{"CREATE TABLE IF NOT EXISTS meters (meter TEXT PRIMARY KEY, n INTEGER NOT NULL)", nil},
		{"INSERT INTO readings VALUES (?, ?)", []any{r.ID, r.Meter}},
		{"INSERT INTO meters VALUES (?1, ?2) ON CONFLICT (meter) DO UPDATE SET n = n + ?2",
			[]any{r.Meter, r.N}},
	} {
		if _, err := tx.ExecContext(ctx, s.text, s.args...); err != nil {
			return fmt.Errorf("count reading: %w", err)
		}
	}
	c.fuse.reach(pointCommitting)
	if cb.Attempt == 1 {
		switch lot(r.ID) {
		case 2:
			return errors.New("the first Commit fails after it wrote")
		case 3:
			panic("the first Commit panics after it wrote")
		}
	}
	return nil
}
