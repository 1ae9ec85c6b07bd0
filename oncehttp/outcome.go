package oncehttp

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/oncekit/once"
)

// Answer is what a person answers in the place of an attempt whose outcome nobody knew.
type Answer struct {
	// Status is 200 to 999.
	Status int
	// Header of the answer, without those that [DroppedHeaders] names and Content-Length.
	Header http.Header
	// Body must be empty where the status has none: 204 and 304.
	Body []byte
}

// Outcome is what the answer is to the store, in a once.Resolution of once.AnswerWith: repeats of
// the request that the identity belongs to get it as a replay. seal is the Config.Seal of the
// middleware that replays it; nil for none.
func (a Answer) Outcome(id once.Identity, seal *Sealer) (once.Outcome, error) {
	if a.Status < http.StatusOK || a.Status > maxStatus {
		return once.Outcome{}, fmt.Errorf("make outcome: status %d, want 200 to %d", a.Status,
			maxStatus)
	}
	if len(a.Body) > 0 && !bodyAllowed(a.Status) {
		return once.Outcome{}, fmt.Errorf("make outcome: an answer of status %d has no body",
			a.Status)
	}
	kept := answer{status: a.Status, body: a.Body}
	drop := (&Config{}).dropSet()
	for name, values := range a.Header {
		name = http.CanonicalHeaderKey(name)
		if drop[name] || name == "Content-Length" {
			return once.Outcome{}, fmt.Errorf("make outcome: %s is no header of an answer that is "+
				"kept: leave it out", name)
		}
		if len(values) > 0 {
			kept.headers = append(kept.headers, field{name, values})
		}
	}
	slices.SortFunc(kept.headers, func(a, b field) int { return strings.Compare(a.name, b.name) })
	data := kept.appendTo(nil)
	if seal != nil {
		data = seal.seal(id, data)
	}
	return once.Outcome{Kind: once.Kept, Data: data}, nil
}
