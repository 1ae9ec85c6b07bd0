package cli

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/oncekit/once/internal/client"
)

// endless lists things without an end.
func endless() *lister[int] {
	return &lister[int]{
		id: func(n *int) string { return strconv.Itoa(*n) },
		fetch: func(_ context.Context, _ *client.Client, q client.Query) (client.Page[int], error) {
			from, _ := strconv.Atoi(q.Cursor) // 0 on the first page
			page := client.Page[int]{Next: strconv.Itoa(from + q.Limit),
				Items: make([]client.Item[int], q.Limit)}
			for i := range page.Items {
				page.Items[i].Value = from + i
			}
			return page, nil
		},
	}
}

func TestAChangeOfManyHasABound(t *testing.T) {
	t.Parallel()
	q := client.Query{Limit: client.MaxLimit}
	ids, err := endless().gather(t.Context(), nil, &q, countPages)
	if err != nil || len(ids) != 10_000 || ids[9_999] != "9999" || q.Cursor != "10000" {
		t.Errorf("%d ids, %v, cursor %s", len(ids), err, q.Cursor)
	}
	_, err = endless().gather(t.Context(), nil, &q, allPages)
	var said *statusError
	if !errors.As(err, &said) || said.status != statusUsage || !errors.Is(err, errMany) {
		t.Errorf("without an end: %v", err)
	}
}
