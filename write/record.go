package write

import "github.com/oncekit/once"

// Record is what a database remembers of an event. It is for writers.
type Record struct {
	// Digest is the one of what the event did at the first time.
	Digest once.Fingerprint
	// First says what it did, Numbers what the incremented members became.
	First   First
	Numbers Fields
}

// Answer is the result of an event that is remembered: a Duplicate, or a Conflict where the digest
// is another one.
func (r Record) Answer(digest once.Fingerprint) Result {
	first := r.First
	if r.Digest != digest {
		return Result{Outcome: Conflict, First: &first}
	}
	return Result{Outcome: Duplicate, Numbers: r.Numbers, First: &first}
}
