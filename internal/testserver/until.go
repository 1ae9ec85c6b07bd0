package testserver

import (
	"testing"
	"time"
)

// pollEvery is how often Until asks: often enough to be no part of a measured time.
const pollEvery = 2 * time.Millisecond

// Until polls a condition until it holds, and fails the test if that takes longer than limit. The
// condition runs in the test's goroutine; what names it in the failure.
func Until(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain until %s", limit, what)
		}
		time.Sleep(pollEvery)
	}
}
