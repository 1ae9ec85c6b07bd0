package api_test

import (
	"context"

	"github.com/oncekit/once/queue"
)

// refuser is a store that is asked for no change.
type refuser struct {
	queue.Operator
	queue.Transactor
}

// nothing answers every question with nothing.
type nothing struct{}

func (nothing) Rows(context.Context, queue.RowQuery) (queue.RowPage, error) {
	return queue.RowPage{}, nil
}

func (nothing) Row(context.Context, queue.Kind, string) (queue.RowDetail, error) {
	return queue.RowDetail{}, nil
}

func (nothing) Task(_ context.Context, flow, id string) (queue.Task, []queue.HistoryEntry, error) {
	return queue.Task{Flow: flow, ID: id}, nil, nil
}

func (nothing) Tasks(context.Context, queue.TaskQuery) (queue.TaskPage, error) {
	return queue.TaskPage{}, nil
}

func (nothing) Resources(context.Context, queue.ResourceQuery) (queue.ResourcePage, error) {
	return queue.ResourcePage{}, nil
}

func (nothing) Rejected(context.Context, string, int) ([]queue.Rejected, error) { return nil, nil }

func (nothing) Counts(context.Context) (queue.Counts, error) { return queue.Counts{}, nil }
