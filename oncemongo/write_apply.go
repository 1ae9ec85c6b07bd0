package oncemongo

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/oncekit/once/write"
)

// Apply runs a function of the user in the transaction in which the event is remembered: what it
// writes with the context that it gets happens once. Contents are compared as once.ContentID sees
// them: another one under the same id is a Conflict. The function may run several times until it is
// committed, so it may change nothing but the database, and has to return the database's errors
// (wrapped or not). An error of its own aborts the transaction, is returned, and the event is not
// remembered. Without transactions it is an ErrTransactions.
func (w *Writer) Apply(
	ctx context.Context, id string, content any, f func(ctx context.Context) error,
) (write.Result, error) {
	facts, err := w.opened()
	if err != nil {
		return write.Result{}, err
	}
	if !facts.Transactions {
		return write.Result{}, ErrTransactions
	}
	j, err := functionJob(id, content)
	if err != nil {
		return write.Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, w.conf.Patience)
	defer cancel()
	retry := newRetry()
	for {
		result := write.Result{Outcome: write.Applied}
		err := w.transaction(ctx, id, j.owner, func(ctx context.Context) error {
			if err := w.rememberDone(ctx, j, result); err != nil {
				return err
			}
			return f(ctx)
		})
		if err == nil {
			return result, nil
		}
		known, recallErr := w.recall(ctx, id)
		switch {
		case recallErr != nil:
			return write.Result{}, recallErr
		case known != nil && known.State != stateRefused:
			result, again, err := w.answerKnown(ctx, j, known)
			if !again {
				return result, err
			}
		case !hasLabel(err, labelTransient) && !hasLabel(err, labelUnknown) &&
			!mongo.IsNetworkError(err):
			return write.Result{}, err // the function's own
		}
		if !retry.wait(ctx) {
			return write.Result{}, noAnswer(ctx, "apply event", err)
		}
	}
}

// functionJob is an event whose change is a function of the user.
func functionJob(id string, content any) (*writeJob, error) {
	digest, err := write.ContentDigest(id, content)
	if err != nil {
		return nil, err
	}
	return &writeJob{
		event: write.Event{ID: id}, digest: digest,
		plan: &changePlan{}, owner: bson.NewObjectID(), mine: true,
	}, nil
}
