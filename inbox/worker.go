package inbox

import (
	"context"
	"time"

	"github.com/oncekit/once/queue"
)

// pausedWait is the wait of a callback that a service did not look at because it refuses us. It is
// short: the lane is paused, and this only bounds what a dispatcher without limits costs.
const pausedWait = time.Second

// pauser is a Handler that is paused at times. limit and changed are those of a queue.Worker.
type pauser interface {
	limit() int
	changed() <-chan struct{}
}

// NewWorker returns the worker by which a dispatcher has the callbacks of a lane worked by a
// handler. A lane is what the Route of a source names. That of an HTTPHandler is paused while its
// service refuses us.
func NewWorker(lane string, cfg HandlerConfig) queue.Worker {
	setDefault(&cfg.Timeout, defaultHandlerTimeout)
	w := queue.Worker{
		Lane: lane,
		Attempt: func(ctx context.Context, row queue.Row) queue.Settlement {
			return Attempt(ctx, cfg, row)
		},
		CommitFailed: func(row queue.Row, err error) queue.Settlement {
			return CommitFailed(cfg, row, err)
		},
		Concurrency: cfg.Concurrency,
		HoldLost:    cfg.HoldUnknown,
		Block:       cfg.Block,
		Backoff:     queue.Backoff{Base: cfg.Retry.Base, Cap: cfg.Retry.Cap},
	}
	if p, ok := cfg.Handler.(pauser); ok {
		w.Limit, w.Changed = p.limit, p.changed()
	}
	return w
}
