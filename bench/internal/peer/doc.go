// Package peer holds the servers that once is compared with, all behind one handler: one that
// stores nothing, one that commits groups through database/sql, and one that hands each callback to
// riverqueue/river. And a destination that counts what it gets.
package peer
