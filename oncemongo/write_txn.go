package oncemongo

import (
	"context"

	"github.com/oncekit/once/write"
)

func (w *Writer) inTransaction(ctx context.Context, j *writeJob) (write.Result, error) {
	return w.inSteps(ctx, j)
}

func (w *Writer) batchInTransaction(ctx context.Context, b *batch, jobs []*writeJob) []*writeJob {
	return jobs
}
