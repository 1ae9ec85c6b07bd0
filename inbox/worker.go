package inbox

import (
	"context"

	"github.com/oncekit/once/queue"
)

// NewWorker returns the worker by which a dispatcher has the callbacks of a lane worked by a
// handler. A lane is what the Route of a source names.
func NewWorker(lane string, cfg HandlerConfig) queue.Worker {
	setDefault(&cfg.Timeout, defaultHandlerTimeout)
	return queue.Worker{
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
}
