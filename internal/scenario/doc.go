// Package scenario holds implementations of idempotency keys to what they should do, from
// outside: it reads scenarios, plays both the client and the origin behind the implementation,
// and compares what came back, byte for byte, and how often the origin ran. scenarios/README.md
// documents the format.
//
// Each run of a scenario has a token of its own, which is in its paths, its accounts and its
// keys. So scenarios run side by side, and again and again against the same target, and never
// meet.
package scenario
