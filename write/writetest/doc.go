// Package writetest holds every writer of package write to the same promises: a writer's own test
// opens one over a database of its own and calls [Run].
//
// The suite writes into two targets, which the harness makes:
//
//	accounts  key: a text; members: n, version (integers, 64 bits), amount (a number with a
//	          fraction), name, state, tag (texts), at (a time), list (a list)
//	counters  key: an integer; member: n (an integer)
//
// A SQL table has a column for each, all of which but the key may be NULL; a member that a document
// lacks and a column that is NULL are the same to the suite.
package writetest
