// Package peer holds the servers that once is compared with, all behind one handler: one that
// stores nothing, and one that commits groups through database/sql. The one that hands each callback
// to riverqueue/river is in bench/river. And a destination that counts what it gets, an API for once to
// stand before, the standard library's proxy, and the middleware for idempotency keys that one
// writes first.
package peer
