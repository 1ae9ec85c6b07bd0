package oncemongo

import "time"

// Advance moves the store's clock: what is added to the server's time.
func (r *Records) Advance(d time.Duration) { r.offset.Add(d.Milliseconds()) }

// KeepClock gives a store the clock of the one before it.
func (r *Records) KeepClock(before *Records) { r.offset.Store(before.offset.Load()) }
