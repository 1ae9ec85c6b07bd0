package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// gate is the part of a destination that changes: whether it is paused.
type gate struct {
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

// PauseStatus says since when and why a destination is paused.
type PauseStatus struct {
	Since  time.Time
	Reason string
	// ProbeAt is when one row is tried to see whether the refusal still stands.
	ProbeAt time.Time
}

// Paused returns why the destination is paused; false: it isn't.
func (d *Destination) Paused() (PauseStatus, bool) {
	d.gate.mu.Lock()
	defer d.gate.mu.Unlock()
	g := &d.gate
	return PauseStatus{Since: g.since, Reason: g.reason, ProbeAt: g.probeAt}, g.paused
}

// Pauses counts how often the destination was paused since the start, for an alarm.
func (d *Destination) Pauses() int64 {
	d.gate.mu.Lock()
	defer d.gate.mu.Unlock()
	return d.gate.count
}

// Resume ends a pause; without one it does nothing.
func (d *Destination) Resume() {
	d.gate.mu.Lock()
	defer d.gate.mu.Unlock()
	d.resume()
}

// Open reports whether rows may be taken: the sender has its connection, and the destination isn't
// paused or is due for the probe that may end its pause. With Changed it makes the destination a
// Gate, whatever its sender is.
func (d *Destination) Open() bool { return d.Limit() > 0 }

// Limit is how many rows may be in hand now: 0 while closed, 1 when a pause is due for its probe,
// else the concurrency.
func (d *Destination) Limit() int {
	if s, ok := d.Sender.(Gate); ok && !s.Open() {
		return 0
	}
	d.gate.mu.Lock()
	defer d.gate.mu.Unlock()
	switch g := &d.gate; {
	case !g.paused:
		return d.concurrency()
	case !g.probing && !time.Now().Before(g.probeAt):
		return 1
	}
	return 0
}

// Changed returns a channel that receives a value after Open may have changed. Each call returns
// the same channel; it is never closed. Changes of the sender are told only while Run runs.
func (d *Destination) Changed() <-chan struct{} {
	d.gate.mu.Lock()
	defer d.gate.mu.Unlock()
	return d.gate.channel()
}

// Err says why the destination is closed; nil while it is open.
func (d *Destination) Err() error {
	if s, ok := d.Sender.(Gate); ok && !s.Open() {
		return senderErr(s)
	}
	if p, paused := d.Paused(); paused {
		return fmt.Errorf("paused: %s", p.Reason)
	}
	return nil
}

// Run keeps the sender's connection, if it has one, and passes its changes on. It blocks until ctx
// ends, or until the sender's Run fails.
func (d *Destination) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	if s, ok := d.Sender.(Gate); ok {
		wg.Go(func() { d.forward(ctx, s) })
	}
	if r, ok := d.Sender.(Runner); ok {
		err := r.Run(ctx)
		cancel()
		return err
	}
	<-ctx.Done()
	return nil
}

func (d *Destination) forward(ctx context.Context, s Gate) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.Changed():
			d.signal()
		}
	}
}

// begin asks whether a row may be tried now. probe is to be handed to end.
func (d *Destination) begin() (probe bool, err error) {
	if s, ok := d.Sender.(Gate); ok && !s.Open() {
		return false, senderErr(s)
	}
	d.gate.mu.Lock()
	defer d.gate.mu.Unlock()
	g := &d.gate
	switch {
	case !g.paused:
		return false, nil
	case g.probing || time.Now().Before(g.probeAt):
		return false, fmt.Errorf("paused: %s", g.reason)
	}
	g.probing = true
	return true, nil
}

// end takes the result of a try: a refusal pauses the destination, a probe that was not refused
// ends the pause. A probe that failed otherwise says nothing about the refusal.
func (d *Destination) end(probe bool, err error) {
	var class Class
	if err != nil {
		class, _ = classOf(err)
	}
	d.gate.mu.Lock()
	defer d.gate.mu.Unlock()
	g := &d.gate
	switch {
	case class == Pause && (probe || !g.paused):
		d.pause(printable(err.Error(), maxErrorChars))
	case probe && (err == nil || class == Permanent):
		d.resume()
	case probe:
		d.pause(g.reason)
	}
}

// pause starts or prolongs a pause. The caller holds the lock.
func (d *Destination) pause(reason string) {
	g := &d.gate
	now := time.Now()
	if !g.paused {
		g.paused, g.since = true, now
		g.count++
		d.log().Error("destination paused", "destination", d.Name, "reason", reason)
	}
	wait := d.Probe
	if wait <= 0 {
		wait = defaultProbe
	}
	g.reason, g.probing, g.probeAt = reason, false, now.Add(wait)
	if g.timer != nil {
		g.timer.Stop()
	}
	g.timer = time.AfterFunc(wait, d.signal)
	g.signal()
}

// resume ends a pause. The caller holds the lock.
func (d *Destination) resume() {
	g := &d.gate
	if !g.paused {
		return
	}
	g.paused, g.probing, g.reason = false, false, ""
	g.since, g.probeAt = time.Time{}, time.Time{}
	g.timer.Stop()
	d.log().Info("destination resumed", "destination", d.Name)
	g.signal()
}

func (d *Destination) signal() {
	d.gate.mu.Lock()
	defer d.gate.mu.Unlock()
	d.gate.signal()
}

func (g *gate) signal() {
	select {
	case g.channel() <- struct{}{}:
	default: // a signal is waiting already; it stands for this one too
	}
}

func (g *gate) channel() chan struct{} {
	if g.changed == nil {
		g.changed = make(chan struct{}, 1)
	}
	return g.changed
}

// senderErr says why a sender's gate is closed.
func senderErr(s Gate) error {
	if e, ok := s.(Explainer); ok {
		if err := e.Err(); err != nil {
			return err
		}
	}
	return errors.New("destination can't be reached now")
}
