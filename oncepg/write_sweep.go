package oncepg

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Sweep forgets up to limit events whose retention is over, the oldest first, and returns how many.
// Call it now and then, for example every minute, again at once while it returns limit. Several may
// sweep at the same time.
func (w *Writer) Sweep(ctx context.Context, limit int) (int, error) {
	if limit <= 0 {
		return 0, nil
	}
	got, err := w.own.run(ctx, []query{{fmt.Sprintf(`
WITH old AS (SELECT id FROM %[1]s
	WHERE at < clock_timestamp() - $1::text::bigint * interval '1 microsecond'
	ORDER BY at LIMIT $2::text::bigint FOR UPDATE SKIP LOCKED
), gone AS (DELETE FROM %[1]s v USING old WHERE v.id = old.id RETURNING 1)
SELECT count(*)::text FROM gone`, w.events),
		[]any{
			strconv.FormatInt(int64(w.conf.Retention/time.Microsecond), 10), strconv.Itoa(limit),
		},
	}}, false)
	if err != nil {
		return 0, fmt.Errorf("sweep events: %w", unavailable(err))
	}
	n, err := strconv.Atoi(*got[0][0][0])
	if err != nil {
		return 0, fmt.Errorf("sweep events: %w", err)
	}
	return n, nil
}
