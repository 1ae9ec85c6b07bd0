package load

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// loop sends and receives until the plan is carried out and the last replies are there.
func (r *run) loop(ctx context.Context) error {
	r.begin = time.Now()
	r.measure = r.begin.Add(r.plan.Warm)
	r.end = r.measure.Add(r.plan.Measure)
	if r.plan.Measure == 0 {
		r.end = r.begin.Add(24 * time.Hour) // until Count
	}
	if r.plan.Rate == 0 {
		for _, c := range r.conns {
			r.send(c, time.Now())
		}
	}
	events := make([]unix.EpollEvent, maxEvents)
	var limit time.Time // of the drain
	for {
		n, err := unix.EpollWait(r.epoll, events, 100)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		now := time.Now()
		for _, e := range events[:max(n, 0)] {
			if int(e.Fd) == len(r.conns) {
				r.silence()
				continue
			}
			r.reply(r.conns[e.Fd], now)
		}
		if err := r.sendDue(now); err != nil {
			return err
		}
		if !r.over(now) && ctx.Err() == nil {
			continue
		}
		if limit.IsZero() {
			limit = now.Add(drainTime)
			r.result.Measured = r.span(now)
		}
		if r.quiet() || now.After(limit) {
			return r.ended()
		}
	}
}

// span is the time that was measured until now.
func (r *run) span(now time.Time) time.Duration {
	if now.After(r.end) {
		now = r.end
	}
	return max(now.Sub(r.measure), 0)
}

// over reports whether no further request is begun.
func (r *run) over(now time.Time) bool {
	return !now.Before(r.end) || r.plan.Count > 0 && r.next >= r.plan.Count || r.alive() == 0
}

func (r *run) alive() int {
	if r.result.Errors == 0 {
		return len(r.conns)
	}
	n := 0
	for _, c := range r.conns {
		if c.open {
			n++
		}
	}
	return n
}

// quiet reports whether nothing is on its way and nothing due is left.
func (r *run) quiet() bool {
	for _, c := range r.conns {
		if c.busy {
			return false
		}
	}
	return r.plan.Rate == 0 || r.next >= r.due || r.alive() == 0
}

// ended counts what was never answered.
func (r *run) ended() error {
	for _, c := range r.conns {
		if c.busy {
			r.fail(c, errors.New("no reply came"))
		}
	}
	return nil
}

// silence makes the timer quiet until it is set anew.
func (r *run) silence() {
	var b [8]byte
	_, _ = unix.Read(r.timer, b[:]) // how often it rang does not matter
	r.rang = true
}

// sendDue sends what is due of an open loop on connections that are free. What finds none stays due
// from its time on.
func (r *run) sendDue(now time.Time) error {
	if r.plan.Rate == 0 {
		return nil
	}
	last := now
	if !last.Before(r.end) {
		last = r.end.Add(-1)
	}
	r.due = int64(last.Sub(r.begin).Seconds()*r.plan.Rate) + 1
	if r.plan.Count > 0 {
		r.due = min(r.due, r.plan.Count)
	}
	for r.next < r.due && len(r.idle) > 0 {
		c := r.idle[0] // in turn: a connection that is never used is closed by the server
		r.idle = append(r.idle[:0], r.idle[1:]...)
		r.send(c, r.dueAt(r.next))
	}
	if !r.rang || !now.Before(r.end) {
		return nil
	}
	r.rang = false
	return r.ring(r.dueAt(r.due).Sub(now))
}

// dueAt is when a request of an open loop is due.
func (r *run) dueAt(n int64) time.Time {
	return r.begin.Add(time.Duration(float64(n) / r.plan.Rate * float64(time.Second)))
}

// send begins the next request on a connection.
func (r *run) send(c *conn, due time.Time) {
	if !c.open || r.plan.Count > 0 && r.next >= r.plan.Count {
		return
	}
	n := r.plan.First + r.next
	if r.plan.Distinct > 0 {
		n = r.plan.First + r.next%r.plan.Distinct
	}
	r.next++
	c.out, c.id = r.plan.encode(r.templates, c.out, n)
	if err := c.send(due); err != nil {
		r.fail(c, err)
	}
}

// reply reads from a connection. In a closed loop the next request follows.
func (r *run) reply(c *conn, now time.Time) {
	if !c.open {
		return
	}
	got, done, err := c.receive()
	if err != nil {
		r.fail(c, err)
		return
	}
	if !done {
		return
	}
	r.result.Answered++
	if got.replay {
		r.result.Replayed++
	}
	if err := checkReply(got, r.plan.Status, r.want, c.id); err != nil {
		r.fail(c, err)
		return
	}
	r.note(c.due, now)
	if r.plan.Rate > 0 {
		r.idle = append(r.idle, c)
	} else if now.Before(r.end) {
		r.send(c, now)
	}
}

// note counts a reply: in a closed loop those that came in the measured time, in an open loop those
// whose request was due in it, however late they came.
func (r *run) note(due, now time.Time) {
	at := now
	if r.plan.Rate > 0 {
		at = due
	}
	if at.Before(r.measure) || !at.Before(r.end) {
		return
	}
	r.measured++
	r.hist.add(now.Sub(due))
}

// fail counts an error and gives the connection up.
func (r *run) fail(c *conn, err error) {
	if r.result.Errors == 0 {
		r.result.FirstError = err.Error()
	}
	r.result.Errors++
	c.close()
}
