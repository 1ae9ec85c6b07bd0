package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/oncekit/once/queue"
)

// Paused returns why the destination is paused; false: it isn't.
func (d *Destination) Paused() (queue.PauseStatus, bool) { return d.gate.Paused() }

// Pauses counts how often the destination was paused since the start, for an alarm.
func (d *Destination) Pauses() int64 { return d.gate.Pauses() }

// Resume ends a pause; without one it does nothing.
func (d *Destination) Resume() { d.tell(false, d.gate.Resume(), nil) }

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
	return d.gate.Limit(d.concurrency())
}

// Changed returns a channel that receives a value after Open may have changed. Each call returns
// the same channel; it is never closed. Changes of the sender are told only while Run runs.
func (d *Destination) Changed() <-chan struct{} { return d.gate.Changed() }

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
			d.gate.Signal()
		}
	}
}

// begin asks whether a row may be tried now. probe is to be handed to end.
func (d *Destination) begin() (probe bool, err error) {
	if s, ok := d.Sender.(Gate); ok && !s.Open() {
		return false, senderErr(s)
	}
	return d.gate.Begin()
}

// end takes the result of a try. A message that was turned down for good got past the login.
func (d *Destination) end(probe bool, err error) {
	verdict, reason := queue.Admitted, ""
	if err != nil {
		switch class, _ := classOf(err); class {
		case Pause:
			verdict, reason = queue.Refused, printable(err.Error(), maxErrorChars)
		case Permanent:
		default:
			verdict = queue.Unsaid
		}
	}
	wait := d.Probe
	if wait <= 0 {
		wait = defaultProbe
	}
	began, ended := d.gate.End(probe, verdict, reason, wait)
	d.tell(began, ended, err)
}

// tell logs that a pause began, and why, or that it ended.
func (d *Destination) tell(began, ended bool, reason error) {
	switch {
	case began:
		d.log().Error("destination paused", "destination", d.Name, "error", queue.Public(reason))
	case ended:
		d.log().Info("destination resumed", "destination", d.Name)
	}
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
