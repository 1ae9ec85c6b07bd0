// Package metrics counts what once does and shows it in the format of Prometheus.
//
// Counters are raised where something happens; the gauges of callbacks, effects and tasks are read
// from the counters that the store keeps, so that a scrape scans nothing. Everything is in a
// registry of its own: a program may hold several.
package metrics

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// Config says what is shown. The zero value works.
type Config struct {
	// Counts reads the kept counters, once a scrape. Default: there are none.
	Counts func(context.Context) (queue.Counts, error)
	// Open says which destinations effects are sent to, once a scrape. Default: there are none.
	Open func() map[string]bool
	// Paused says of which sources the service or the database refuses us, once a scrape. Default:
	// there are none.
	Paused func() map[string]bool
	// Databases says which databases answer, once a scrape. Default: there are none.
	Databases func() map[string]bool
	// Records counts the gateway's records by state, once a scrape; nil where nobody counts them.
	// Default: nobody does.
	Records func() map[once.RecordState]int64
	// Version of the program. Default "unknown".
	Version string
	// Logger gets failed scrapes. Default: discards.
	Logger *slog.Logger
}

// Metrics counts. Its methods are safe for concurrent use, take well under a microsecond and
// allocate nothing once a label was seen. Its labels are names of the configuration, so there are
// as many of them as there are sources, destinations and flows.
type Metrics struct {
	reg *prometheus.Registry
	log *slog.Logger

	receipts, elements, attempts, tries, dropped *prometheus.CounterVec
	ack, seconds                                 *prometheus.HistogramVec
	paused                                       *prometheus.GaugeVec
	conflicts                                    prometheus.Counter
	ready                                        prometheus.Gauge

	requests, requestEnds *prometheus.CounterVec
	requestTime           *prometheus.HistogramVec

	sources table[string, *sourceHandles]
	results table[resultKey, *resultHandles]
}

type sourceHandles struct {
	ack      prometheus.Observer
	outcomes map[queue.Outcome]prometheus.Counter
}

type resultKey struct {
	kind           queue.Kind
	source, result string
}

type resultHandles struct {
	n       prometheus.Counter
	seconds prometheus.Observer
}

// New returns a Metrics with a registry of its own. It does no I/O.
func New(cfg Config) (*Metrics, error) {
	m := &Metrics{reg: prometheus.NewRegistry(), log: cfg.Logger}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	m.receipts, m.attempts = counters(nameReceipts), counters(nameAttempts)
	m.elements = counters(nameElements)
	m.tries, m.dropped = counters(nameEffectTries), counters(nameDropped)
	m.ack, m.seconds = times(nameAck, ackBuckets()), times(nameAttemptTime, attemptBuckets())
	m.paused = gauges(namePaused)
	m.requests, m.requestEnds = counters(nameRequests), counters(nameRequestEnds)
	m.requestTime = times(nameRequestTime, requestBuckets())
	conflicts, ready, build := counters(nameConflicts), gauges(nameReady), gauges(nameBuild)
	m.conflicts, m.ready = conflicts.WithLabelValues(), ready.WithLabelValues()
	build.WithLabelValues(cmp.Or(cfg.Version, "unknown"), runtime.Version()).Set(1)
	for _, c := range []prometheus.Collector{
		m.receipts, m.elements, m.attempts, m.tries, m.dropped, m.ack, m.seconds, m.paused,
		m.requests, m.requestEnds, m.requestTime, conflicts, ready, build, newKept(cfg, m.log),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := m.reg.Register(c); err != nil {
			return nil, fmt.Errorf("make metrics: %w", err)
		}
	}
	return m, nil
}

func counters(name string) *prometheus.CounterVec {
	f := family(name)
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.Name, Help: f.Help}, f.Labels)
}

func gauges(name string) *prometheus.GaugeVec {
	f := family(name)
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: f.Name, Help: f.Help}, f.Labels)
}

func times(name string, buckets []float64) *prometheus.HistogramVec {
	f := family(name)
	opts := prometheus.HistogramOpts{Name: f.Name, Help: f.Help, Buckets: buckets}
	return prometheus.NewHistogramVec(opts, f.Labels)
}

// Bounds of the scrapes.
const (
	maxScrapes    = 4 // at the same moment
	scrapeTimeout = 10 * time.Second
)

// Handler returns what a Prometheus server scrapes.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.reg, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(m.log.Handler(), slog.LevelError),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTimeout,
	})
}

// Receipt counts one message that was answered. It makes a Metrics an inbox.Observer.
func (m *Metrics) Receipt(source string, o queue.Outcome, d time.Duration) {
	h := m.sources.get(source, m.source)
	h.ack.Observe(d.Seconds())
	if c := h.outcomes[o]; c != nil {
		c.Inc()
		return
	}
	m.receipts.WithLabelValues(source, string(o)).Inc()
}

// Source shows the counters of a source before its first message, so that an alarm on the rise of
// one sees the first that it counts.
func (m *Metrics) Source(name string) { m.sources.get(name, m.source) }

func (m *Metrics) source(name string) *sourceHandles {
	h := &sourceHandles{
		ack:      m.ack.WithLabelValues(name),
		outcomes: make(map[queue.Outcome]prometheus.Counter),
	}
	for _, o := range []queue.Outcome{
		queue.Accepted, queue.Duplicate, queue.Conflict, queue.Invalid, queue.Unauthorized,
		queue.Unavailable, queue.Probe,
	} {
		h.outcomes[o] = m.receipts.WithLabelValues(name, string(o))
	}
	return h
}

// Elements counts what came of elements of one message. It makes a Metrics an
// inbox.ElementObserver.
func (m *Metrics) Elements(source string, o queue.Outcome, n int) {
	m.elements.WithLabelValues(source, string(o)).Add(float64(n))
}

// RejectedDropped counts a refused message that was not kept. It makes a Metrics an
// inbox.DropObserver.
func (m *Metrics) RejectedDropped(source string) { m.dropped.WithLabelValues(source).Inc() }

// Attempt counts one try and what came of it. It fits queue.Config.Observe; of a row that was
// decided inside the store's transaction no time is known, and d is 0.
func (m *Metrics) Attempt(row queue.Row, set queue.Settlement, d time.Duration) {
	h := m.results.get(resultKey{row.Kind, row.Source, result(&set)}, m.result)
	h.n.Inc()
	if d > 0 {
		h.seconds.Observe(d.Seconds())
	}
	if row.Kind == queue.Callback && foundTaken(&row, &set) {
		m.conflicts.Inc()
	}
}

func (m *Metrics) result(k resultKey) *resultHandles {
	vec := m.attempts
	if k.kind == queue.Effect {
		vec = m.tries
	}
	return &resultHandles{
		n:       vec.WithLabelValues(k.source, k.result),
		seconds: m.seconds.WithLabelValues(k.kind.String(), k.source),
	}
}

// result is the new state, but "retry" for another try and "not_tried" for one that was not begun.
func result(set *queue.Settlement) string {
	switch {
	case set.NotTried:
		return "not_tried"
	case set.State == queue.Pending:
		return "retry"
	}
	return string(set.State)
}

// foundTaken reports whether a callback has to wait for a resource, or may not. One that waits on
// after it was woken is not counted again.
func foundTaken(row *queue.Row, set *queue.Settlement) bool {
	if waitsForResource(row.Waits) {
		return false
	}
	return set.State == queue.Dead &&
		(set.DeadCause == queue.CauseCircle || set.DeadCause == queue.CauseBusy) ||
		set.State == queue.Parked && set.Park != nil && waitsForResource(set.Park.Waits)
}

func waitsForResource(waits []string) bool {
	return slices.ContainsFunc(waits, func(w string) bool {
		_, _, ok := queue.WaitedResource(w)
		return ok
	})
}

// DestinationPaused says whether a destination is paused because it refuses us. Called with false
// at the start it shows the destination from the start.
func (m *Metrics) DestinationPaused(destination string, paused bool) {
	m.paused.WithLabelValues(destination).Set(oneIf(paused))
}

// StoreReady says whether the store can be written.
func (m *Metrics) StoreReady(ready bool) { m.ready.Set(oneIf(ready)) }

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
