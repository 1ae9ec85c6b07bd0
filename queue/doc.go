// Package queue holds what callbacks and effects have in common: rows that wait, are taken under a
// lease, are tried, and end in a state that is kept.
//
// A callback that waits for its handler and an effect that waits for its destination are the same
// kind of row. The package defines that row ([Row]), what a store of rows has to offer ([Store] and
// a few optional interfaces), and the [Dispatcher] that takes due rows lane by lane and settles
// them.
//
// What is promised: a row is appended once per identity; it has at most one live owner, and each
// later write of an owner is conditional on its fence; rows of one order key are worked in the
// order in which they were accepted, one at a time; a settlement is applied whole or not at all.
// What is not: that two attempts never overlap in time after a lost lease.
package queue
