package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/oncekit/once/internal/demo/model"
)

// drain waits until the server has nothing left to do, and says what is left when it does not come
// to that, or when nothing of it changes any more.
func (p *rehearsal) drain(ctx context.Context) (left string, err error) {
	begun := time.Now()
	wait, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	var last backlog
	changed := begun
	for calm := 0; ; {
		if err := p.server.lived(); err != nil {
			return "", err
		}
		b, err := p.server.client.left(wait)
		switch {
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case err != nil && wait.Err() == nil:
			return "", err
		case err == nil && b.none():
			if calm++; calm == 2 { // what is woken in between is seen by the second look
				p.timing.drained = time.Since(begun)
				return "", nil
			}
		default:
			calm = 0
		}
		if b != last {
			last, changed = b, time.Now()
		}
		stuck := time.Since(changed) > stuckLimit
		if (!pause(wait, drainPoll) || stuck) && ctx.Err() == nil {
			return fmt.Sprintf("%v after the load these are not done: %v",
				time.Since(begun).Round(time.Second), b), nil
		}
	}
}

// collect gathers the evidence.
func (p *rehearsal) collect(ctx context.Context) (*model.Evidence, error) {
	ctx, cancel := context.WithTimeout(ctx, collectLimit)
	defer cancel()
	e := &model.Evidence{Callbacks: p.book.callbacks(), Jumps: p.jumps}
	var tasks []string
	known := map[string]bool{}
	for _, c := range e.Callbacks {
		if !known[c.Task] {
			known[c.Task] = true
			tasks = append(tasks, c.Task)
		}
	}
	var err error
	if e.Store, err = p.server.client.store(ctx, tasks); err != nil {
		return nil, err
	}
	// Last: what is acknowledged in the store has arrived before.
	e.Sightings = p.seen.all()
	return e, nil
}
