package demo

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncekit/once/internal/demo/model"
)

// What a robot is seen doing.
const (
	idle int32 = iota
	driving
	docked    // at a station
	resending // its controller has no answer
	robotStates
)

// robot drives one task after the other, and its controller sends what happens.
type robot struct {
	n     int
	rng   *rand.Rand
	lay   layout
	send  *sender
	book  *ledger
	start time.Time
	every time.Duration // between two events
	doing atomic.Int32
	// behind is how long after its time by the timetable the last event was acknowledged, in
	// nanoseconds.
	behind atomic.Int64
}

// newRobot makes a robot. rate is the number of requests a second of all robots together.
func newRobot(n int, p *rehearsal) *robot {
	every := float64(time.Second) * copiesMean * float64(p.cfg.Robots) / float64(p.cfg.Rate)
	return &robot{n: n, rng: rand.New(rand.NewPCG(p.cfg.Seed, uint64(n)+1000)), lay: p.lay,
		send: p.sender, book: p.book, start: p.start, every: time.Duration(every)}
}

// run drives until the load ends. The task that it is about is then sent to its end without a
// pace. It keeps to a timetable: whatever holds it up, it makes up for.
func (r *robot) run(ctx, load context.Context) {
	due := r.start.Add(time.Duration(r.rng.Float64() * float64(r.every)))
	for n := 0; load.Err() == nil && ctx.Err() == nil; n++ {
		for i, m := range script(r.rng, r.lay, r.n, n) {
			at := due
			if pause(load, time.Until(at)) {
				due = due.Add(time.Duration((0.6 + 0.8*r.rng.Float64()) * float64(r.every)))
			} else if i == 0 {
				return // it has not begun
			}
			r.see(m.Event)
			r.deliver(ctx, m)
			if ctx.Err() != nil {
				return
			}
			if load.Err() == nil {
				r.behind.Store(int64(time.Since(at)))
			}
		}
		r.doing.Store(idle)
	}
}

// see shows where the robot is.
func (r *robot) see(event string) {
	switch event {
	case "station":
		r.doing.Store(docked)
	case "startFE", "finishFE":
		r.doing.Store(driving)
	case "finish", "cancel":
		r.doing.Store(idle)
	}
}

// deliver sends a callback and its copies, again and again until one is answered, as controllers
// do.
func (r *robot) deliver(ctx context.Context, m *move) {
	r.book.begin(m.Callback)
	was := r.doing.Load()
	wait := resendAfter
	for try := 0; ctx.Err() == nil; try++ {
		first := how{why: "first", cut: m.cut}
		if try > 0 {
			first = how{why: "again"}
		}
		r.copies(ctx, m, first, try)
		if r.book.acknowledged(m.Callback) {
			break
		}
		r.doing.Store(resending)
		_ = pause(ctx, wait)
		wait = min(2*wait, resendMost)
	}
	r.doing.Store(was)
	if m.change && ctx.Err() == nil {
		r.send.post(ctx, m.Callback, how{why: "changed", changed: true})
	}
}

// copies sends one try, and with the first one the copies that come at the same moment.
func (r *robot) copies(ctx context.Context, m *move, first how, try int) {
	if try > 0 || m.extra == 0 {
		r.send.post(ctx, m.Callback, first)
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { r.send.post(ctx, m.Callback, first) })
	for range m.extra {
		wg.Go(func() { r.send.post(ctx, m.Callback, how{why: "at the same time"}) })
	}
	wg.Wait()
}

// late repeats callbacks that were acknowledged hours ago by the server's clock: what a controller
// does that was switched off with something in its queue.
func late(ctx context.Context, s *sender, old []*model.Callback, every time.Duration) {
	for _, c := range old {
		for try := 0; try < lateTries && ctx.Err() == nil; try++ {
			if s.post(ctx, c, how{why: model.WhyLate}) {
				break
			}
			_ = pause(ctx, resendMost)
		}
		if !pause(ctx, every) {
			return
		}
	}
}

// lateTries bounds how often a late repeat is sent that is not answered.
const lateTries = 5

// pause waits and reports whether ctx lived so long.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
