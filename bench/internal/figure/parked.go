package figure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/oncekit/once/bench/internal/load"
	"github.com/oncekit/once/bench/internal/serving"
)

// wakes is how many parked rows are woken, one after the other.
const wakes = 100

// parked parks many events that came before their predecessors, looks at what the idle process
// costs, and wakes some of them.
func parked(ctx context.Context, b *Bench) error {
	return b.withSink(ctx, func(sink *serving.Server) error {
		return b.with(ctx, "once", "", sink.Addr, func(s *serving.Server) error {
			empty, err := b.idle(ctx, s)
			if err != nil {
				return err
			}
			plan, err := b.park(ctx, s)
			if err != nil {
				return err
			}
			cost, err := b.idle(ctx, s)
			if err != nil {
				return err
			}
			times, err := wake(ctx, s, plan)
			if err != nil {
				return err
			}
			b.logf("idle: %.1f ms a second, empty %.1f; wakes: %v to %v", cost, empty,
				short(times[0]), short(times[len(times)-1]))
			b.add("parked.cpu", cost)
			b.add("parked.cpu-empty", empty)
			b.add("parked.cpu-more", cost-empty)
			b.add("parked.wake", ms(times[len(times)-1]))
			b.add("parked.wake-median", ms(times[len(times)/2]))
			return nil
		})
	})
}

// park sends events whose tasks have not begun.
func (b *Bench) park(ctx context.Context, s *serving.Server) (load.Plan, error) {
	p := b.plan(s, 256)
	p.Events, p.Warm, p.Measure, p.Count = []string{"station"}, 0, 0, b.Parked
	if _, err := b.Load(ctx, p); err != nil {
		return p, err
	}
	var failed error
	err := s.Until(ctx, workedTime, 100*time.Millisecond, func() bool {
		m, err := s.Metrics(ctx)
		failed = err
		return err != nil || m.Callbacks("rcs", "parked") == b.Parked
	})
	return p, errors.Join(err, failed)
}

// idleTime is how long an idle process is looked at. Processor times come in steps of 10 ms.
const idleTime = 10 * time.Second

// idle returns the processor time that a server takes while nothing happens, in milliseconds a
// second.
func (b *Bench) idle(ctx context.Context, s *serving.Server) (float64, error) {
	const settle = 3 * time.Second // for what the load left behind: checkpoint, search index
	if err := sleep(ctx, settle); err != nil {
		return 0, err
	}
	before, err := s.CPU()
	if err != nil {
		return 0, err
	}
	if err := sleep(ctx, idleTime); err != nil {
		return 0, err
	}
	after, err := s.CPU()
	return ms(after-before) / idleTime.Seconds(), err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wake sends predecessors of parked events. A time is from the answer, which follows the commit of
// the predecessor's arrival, until the task shows that the parked event was applied: it holds the
// working of the predecessor, the wake, and the working of the woken row. They come sorted.
func wake(ctx context.Context, s *serving.Server, parked load.Plan) ([]time.Duration, error) {
	const far = 50_000_000 // beyond the numbers of what is parked
	var times []time.Duration
	for i := range int64(wakes) {
		_, task, _ := parked.Callback(parked.First + i*(parked.Count/wakes))
		body := fmt.Sprintf(`{"reqCode":"REQ-%015d","taskCode":%q,"callbackMethod":"startFE"}`,
			parked.First+far+i, task)
		if _, err := request(ctx, http.MethodPost, "http://"+s.Addr+"/in/rcs", body); err != nil {
			return nil, err
		}
		begun := time.Now()
		var state string
		for state != "at_station" {
			if time.Since(begun) > time.Minute {
				return nil, fmt.Errorf("task %s is %s and was not woken", task, state)
			}
			answer, err := request(ctx, http.MethodGet,
				"http://"+s.Admin+"/api/v1/tasks/transport/"+task, "")
			var missing *statusError
			if errors.As(err, &missing) && missing.status == http.StatusNotFound {
				continue // the predecessor is not worked yet
			}
			if err != nil {
				return nil, err
			}
			var got struct{ State string }
			if err := json.Unmarshal(answer, &got); err != nil {
				return nil, fmt.Errorf("read task: %w", err)
			}
			state = got.State
		}
		times = append(times, time.Since(begun))
	}
	slices.Sort(times)
	return times, nil
}

// statusError is an answer that is no success.
type statusError struct {
	status int
	text   string
}

// Error returns the status and the begin of the body.
func (e *statusError) Error() string { return fmt.Sprintf("status %d: %.300s", e.status, e.text) }

// request sends a request and returns the body of its answer.
func request(ctx context.Context, method, url, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	defer answer.Body.Close()
	const most = 64 << 20
	b, err := io.ReadAll(io.LimitReader(answer.Body, most))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %w", method, url, &statusError{answer.StatusCode, string(b)})
	}
	return b, err
}
