// Package write is idempotent writing: an event changes a document or a row once, however often it
// arrives. It holds what all databases share: events, changes, results, and the rules by which a
// wrong one is refused before anything is written. Packages oncemongo, oncepg and oncesqlite write.
package write
