package demo

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

const (
	// standMost bounds the wait for tasks that stand in `running`; it is also no longer than a
	// tenth of the run.
	standMost = 2 * time.Second
	// standPoll is the time between two looks.
	standPoll = 20 * time.Millisecond
)

// running matches the kept counter of the tasks in `running`.
var running = regexp.MustCompile(`(?m)^once_tasks\{[^}\n]*state="running"[^}\n]*\} (\S+)$`)

// standing asks how many tasks stand in `running`.
func (a *admin) standing(ctx context.Context) (int, error) {
	b, err := a.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	m := running.FindSubmatch(b)
	if m == nil {
		return 0, nil
	}
	n, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	return int(n), nil
}

// awaitStanding waits a little for tasks that stand in `running`, so that a clock that is then put
// forward makes alarms due. There may be none in the end.
func (p *rehearsal) awaitStanding(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, min(standMost, p.cfg.Duration/10))
	defer cancel()
	for {
		n, err := p.server.client.standing(ctx)
		if err != nil || n >= min(2, p.cfg.Robots) || !pause(ctx, standPoll) {
			return
		}
	}
}
