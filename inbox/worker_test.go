package inbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/queue"
)

func TestAWorkerHasThePolicyOfItsHandler(t *testing.T) {
	cause := errors.New("no such booking")
	w := inbox.NewWorker("handler/book", inbox.HandlerConfig{
		Handler: inbox.WorkFunc(func(context.Context, inbox.Callback) (any, error) {
			return nil, inbox.Permanent(cause)
		}),
		Retry:       inbox.Retry{Base: time.Second, Cap: time.Minute},
		HoldUnknown: true, Block: true, Concurrency: 3,
	})
	if w.Lane != "handler/book" || w.Concurrency != 3 ||
		w.Backoff != (queue.Backoff{Base: time.Second, Cap: time.Minute}) {
		t.Errorf("worker %+v", w)
	}
	if !w.HoldLost || !w.Block { // also for rows that the store itself gives up
		t.Errorf("holds lost ones %v, blocks %v", w.HoldLost, w.Block)
	}
	if s := w.Attempt(t.Context(), row(1)); s.State != queue.Dead || !s.Block {
		t.Errorf("after a permanent error: %s, blocks %v", s.State, s.Block)
	}
	if s := w.CommitFailed(row(1), &queue.CommitError{Err: cause}); s.State != queue.Pending {
		t.Errorf("after a failed Commit: %s", s.State)
	}
}
