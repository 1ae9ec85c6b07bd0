// Package peer holds the servers that once is compared with. Three of them are behind one handler:
// one that stores nothing, one that commits groups through database/sql, and one that inserts each
// callback into PostgreSQL by itself; the one that hands each callback to riverqueue/river is in
// bench/river. Of idempotency keys there are the standard library's proxy, and the middleware that
// one writes first. And there are what once stands before: a destination that counts what it gets,
// and an API.
package peer
