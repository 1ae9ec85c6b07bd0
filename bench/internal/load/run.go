package load

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of a run.
const (
	// drainTime is how long the last replies may take.
	drainTime = 20 * time.Second
	// tick is the shortest pause of an open loop: above 4,000 requests a second they leave in
	// small groups.
	tick = 250 * time.Microsecond
	// events that one look at the connections may tell.
	maxEvents = 512
)

// run is a plan under way. It belongs to one thread.
type run struct {
	plan      Plan
	want      []byte
	templates []template
	conns     []*conn
	idle      []*conn // free connections of an open loop
	epoll     int
	timer     int  // timerfd of an open loop; -1: none
	rang      bool // the timer has to be set anew

	begin, measure, end time.Time
	next                int64 // requests begun
	due                 int64 // requests of an open loop that were due
	measured            int64
	hist                histogram
	result              Result
}

// Run carries a plan out. It returns an error where nothing could be measured; replies that were
// wrong are told in the result. It takes the thread it is called on for itself.
func Run(ctx context.Context, plan Plan) (Result, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nothing is allocated while it runs
	r := &run{plan: plan, want: []byte(plan.Want), timer: -1}
	defer r.close()
	if err := r.open(); err != nil {
		return Result{}, fmt.Errorf("begin load: %w", err)
	}
	before := cpu()
	if err := r.loop(ctx); err != nil {
		return Result{}, fmt.Errorf("load: %w", err)
	}
	return r.finish(cpu() - before), nil
}

func (r *run) open() (err error) {
	addr, err := r.plan.check()
	if err != nil {
		return err
	}
	r.templates = r.plan.templates()
	if r.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	for range r.plan.Conns {
		c, err := dial(addr)
		if err != nil {
			return err
		}
		if err := r.watch(c.fd, len(r.conns)); err != nil {
			return err
		}
		r.conns = append(r.conns, c)
	}
	if r.plan.Rate == 0 {
		return nil
	}
	r.idle = append(r.idle, r.conns...)
	r.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return err
	}
	if err := r.watch(r.timer, len(r.conns)); err != nil {
		return err
	}
	return r.ring(tick)
}

// watch tells epoll to report a descriptor as number i.
func (r *run) watch(fd, i int) error {
	return unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, fd,
		&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)})
}

// ring sets the timer of an open loop.
func (r *run) ring(in time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(in, tick)))}
	return unix.TimerfdSettime(r.timer, 0, &spec, nil)
}

func (r *run) close() {
	for _, c := range r.conns {
		c.close()
	}
	if r.timer >= 0 {
		_ = unix.Close(r.timer)
	}
	if r.epoll > 0 {
		_ = unix.Close(r.epoll)
	}
}

// finish puts the result together.
func (r *run) finish(used time.Duration) Result {
	out := r.result
	out.Sent = r.next
	if r.plan.Rate > 0 {
		out.Unsent = r.due - r.next
	}
	if out.Measured > 0 {
		out.Rate = float64(r.measured) / out.Measured.Seconds()
	}
	out.P50, out.P90 = r.hist.quantile(.5), r.hist.quantile(.9)
	out.P99, out.P999, out.Max = r.hist.quantile(.99), r.hist.quantile(.999), r.hist.max
	if out.Answered > 0 {
		out.CPU = used / time.Duration(out.Answered)
	}
	return out
}

// cpu returns the processor time of this process.
func cpu() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
