//go:build !race

package config

// poolMisses is how many allocations more one message may make with the race detector.
const poolMisses = 0
