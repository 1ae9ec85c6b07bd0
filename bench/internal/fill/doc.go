// Package fill writes large stores: a million effects that wait, ten million callbacks that are
// done and whose bodies were swept. Through the program itself that would take the better part of
// an hour, so the rows are written by SQL, into a file that package oncesqlite has made, with its
// indexes dropped before and made again after. What goes with the rows is written too: lanes,
// counters, what is left of tasks. The search index is written by the store itself.
//
// The tests of this package, and the benchmark itself, check that package oncesqlite takes the rows
// for its own: they are counted, found by every term, known as duplicates, and worked.
package fill
