package oncemongo

import (
	"context"

	"github.com/oncekit/once/write"
)

func (w *Writer) inTransaction(ctx context.Context, j *writeJob) (write.Result, error) {
	return w.inSteps(ctx, j)
}
func (w *Writer) WriteAll(ctx context.Context, events []write.Event) ([]write.Result, error) {
	return nil, nil
}
