package oncepg

import "time"

// Advance moves the store's clock: what is added to the database's time.
func (r *Records) Advance(d time.Duration) { r.offset.us.Add(d.Microseconds()) }

// KeepClock gives a store the clock of the one before it.
func (r *Records) KeepClock(before *Records) { r.offset.us.Store(before.offset.us.Load()) }
