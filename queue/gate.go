package queue

import (
	"fmt"
	"sync"
	"time"
)

// Gate pauses a lane whose other side refuses us and not the row that was tried (401, 403): all
// others would fare the same. After a wait one row is tried to see whether the refusal still
// stands. The zero value is open. Its methods are safe for concurrent use; it must not be copied.
type Gate struct {
	mu      sync.Mutex
	paused  bool
	since   time.Time
	reason  string
	probeAt time.Time
	probing bool
	timer   *time.Timer
	count   int64
	changed chan struct{}
}

// PauseStatus says since when and why a lane is paused.
type PauseStatus struct {
	Since  time.Time
	Reason string
	// ProbeAt is when one row is tried to see whether the refusal still stands.
	ProbeAt time.Time
}

// Verdict is what a try said of a refusal.
type Verdict uint8

// The verdicts.
const (
	// Unsaid: the try failed for another reason, so the refusal may stand or not.
	Unsaid Verdict = iota
	// Refused: the other side refuses us.
	Refused
	// Admitted: the other side looked at the row, even if it turned that down.
	Admitted
)

// Paused returns why the lane is paused; false: it isn't.
func (g *Gate) Paused() (PauseStatus, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return PauseStatus{Since: g.since, Reason: g.reason, ProbeAt: g.probeAt}, g.paused
}

// Pauses counts how often the lane was paused since the start, for an alarm.
func (g *Gate) Pauses() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count
}

// Limit is how many rows may be in hand now: 0 while paused, 1 when a pause is due for its probe,
// else full. It makes a Worker's Limit.
func (g *Gate) Limit(full int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !g.paused:
		return full
	case !g.probing && !time.Now().Before(g.probeAt):
		return min(1, full)
	}
	return 0
}

// Changed returns a channel that receives a value after Limit may have changed. Each call returns
// the same channel; it is never closed.
func (g *Gate) Changed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.channel()
}

// Signal tells Changed of a change that the gate does not know of.
func (g *Gate) Signal() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.signal()
}

// Begin asks whether a row may be tried now; if not, the error says why. probe is to be handed to
// End, which has to be called after each try that was begun.
func (g *Gate) Begin() (probe bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !g.paused:
		return false, nil
	case g.probing || time.Now().Before(g.probeAt):
		return false, fmt.Errorf("paused: %s", g.reason)
	}
	g.probing = true
	return true, nil
}

// End takes the result of a try: a refusal pauses the lane until it is probed after wait, a probe
// that was admitted ends the pause. A probe that failed otherwise says nothing about the refusal,
// and the pause goes on for another wait. It reports whether a pause began or ended.
func (g *Gate) End(probe bool, v Verdict, reason string, wait time.Duration) (began, ended bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case v == Refused && (probe || !g.paused):
		return g.pause(reason, wait), false
	case probe && v == Admitted:
		return false, g.resume()
	case probe && g.paused: // unless somebody has ended it meanwhile
		return g.pause(g.reason, wait), false
	}
	return false, false
}

// Resume ends a pause and reports whether there was one.
func (g *Gate) Resume() (ended bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.resume()
}

// pause starts or prolongs a pause, and reports whether it began.
func (g *Gate) pause(reason string, wait time.Duration) (began bool) {
	now := time.Now()
	if began = !g.paused; began {
		g.paused, g.since = true, now
		g.count++
	}
	g.reason, g.probing, g.probeAt = reason, false, now.Add(wait)
	if g.timer != nil {
		g.timer.Stop()
	}
	g.timer = time.AfterFunc(wait, g.Signal)
	g.signal()
	return began
}

func (g *Gate) resume() (ended bool) {
	if !g.paused {
		return false
	}
	g.paused, g.probing, g.reason = false, false, ""
	g.since, g.probeAt = time.Time{}, time.Time{}
	g.timer.Stop()
	g.signal()
	return true
}

func (g *Gate) signal() {
	select {
	case g.channel() <- struct{}{}:
	default: // a signal is waiting already; it stands for this one too
	}
}

func (g *Gate) channel() chan struct{} {
	if g.changed == nil {
		g.changed = make(chan struct{}, 1)
	}
	return g.changed
}
