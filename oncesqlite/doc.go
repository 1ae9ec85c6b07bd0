// Package oncesqlite keeps callbacks, effects, tasks and resources, and the records of guards, in
// one SQLite file.
//
// One goroutine writes (writer.go). It takes everything that waits, runs it in one transaction in
// which the failure of one operation undoes nothing of another, flushes once, and only then
// answers: many acknowledgements share one flush, and none leaves before it. Readers use
// connections of their own and block nobody. The tables are in schema.sql and records.sql.
//
// What is promised: what was acknowledged is on the disk (synchronous=FULL); one process has the
// file at a time, held by a lock of the operating system, so leases of an earlier process are void
// at start. What is not: that counts of duplicates survive a crash to the last one; they are
// written behind, at most a second late.
package oncesqlite
