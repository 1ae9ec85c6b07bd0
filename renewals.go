package once

import (
	"sync"
	"time"
)

// renewals are the attempts of a guard that wait for their first renewal, the next one first. Most
// end before it: so they share one timer, which is set once for many of them, and an attempt costs
// no timer of its own. The zero value works.
type renewals struct {
	mu          sync.Mutex
	first, last *Work
	timer       *time.Timer // nil until the first attempt
	armed       bool        // the timer will fire, at that time
	at          time.Time
}

// add lets an attempt be renewed at a time. All attempts of a guard wait equally long, so that the
// place of a new one is at the end, or nearly.
func (r *renewals) add(w *Work, due time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.due, w.listed = due, true
	after := r.last
	for after != nil && after.due.After(due) {
		after = after.before
	}
	w.before = after
	if after == nil {
		w.after, r.first = r.first, w
	} else {
		w.after, after.after = after.after, w
	}
	if w.after == nil {
		r.last = w
	} else {
		w.after.before = w
	}
	if !r.armed || due.Before(r.at) {
		r.arm()
	}
}

// arm sets the timer for the first one.
func (r *renewals) arm() {
	r.armed, r.at = true, r.first.due
	if wait := time.Until(r.at); r.timer == nil {
		r.timer = time.AfterFunc(wait, r.fire)
	} else {
		r.timer.Reset(wait)
	}
}

// remove is for an attempt that ended. The timer may fire for nothing.
func (r *renewals) remove(w *Work) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.listed {
		r.unlink(w)
	}
}

func (r *renewals) unlink(w *Work) {
	if w.before == nil {
		r.first = w.after
	} else {
		w.before.after = w.after
	}
	if w.after == nil {
		r.last = w.before
	} else {
		w.after.before = w.before
	}
	w.before, w.after, w.listed = nil, nil, false
}

// fire renews what is due, each in a goroutine of its own.
func (r *renewals) fire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for now := time.Now(); r.first != nil && !r.first.due.After(now); {
		w := r.first
		r.unlink(w)
		go w.renew()
	}
	if r.armed = r.first != nil; r.armed {
		r.arm()
	}
}
