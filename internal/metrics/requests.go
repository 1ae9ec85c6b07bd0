package metrics

import (
	"time"

	"github.com/oncekit/once"
)

// Request counts one request to the gateway and what came of it. With RequestAttempt it
// makes a Metrics a gateway.Observer.
func (m *Metrics) Request(route, what string, took time.Duration) {
	m.requests.WithLabelValues(route, what).Inc()
	m.requestTime.WithLabelValues(route).Observe(took.Seconds())
}

// RequestAttempt counts how a guarded attempt ended.
func (m *Metrics) RequestAttempt(route string, kind once.EventKind) {
	m.requestEnds.WithLabelValues(route, string(kind)).Inc()
}

// Route shows the counters of a route that people set alarms on, before anything was counted.
func (m *Metrics) Route(route string) {
	for _, what := range []string{"first", "replay", "unguarded", "fail-open", "held", "mismatch",
		"in-flight", "store-unavailable"} {
		m.requests.WithLabelValues(route, what)
	}
	for _, kind := range []once.EventKind{once.EventCompleted, once.EventLost,
		once.EventNotStored} {
		m.requestEnds.WithLabelValues(route, string(kind))
	}
}
