//go:build race

package config

// poolMisses is how many allocations more one message may make here: with the race detector
// sync.Pool drops a part of what it is given, at random.
const poolMisses = 8
