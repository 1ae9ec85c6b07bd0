package metrics

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// countsTimeout bounds the reading of the kept counters, which are in memory.
const countsTimeout = 5 * time.Second

// kept shows what is read at a scrape: the counters that the store keeps, which destinations are
// open, which sources are paused, and which databases answer.
type kept struct {
	counts                                  func(context.Context) (queue.Counts, error)
	isOpen, isPaused, areOpen               func() map[string]bool
	records                                 func() map[once.RecordState]int64
	log                                     *slog.Logger
	callbacks, effects, tasks, open, paused *prometheus.Desc
	byState, databases                      *prometheus.Desc
}

func newKept(cfg Config, log *slog.Logger) *kept {
	return &kept{
		counts: cfg.Counts, isOpen: cfg.Open, isPaused: cfg.Paused, log: log,
		records: cfg.Records, byState: desc(nameRecords),
		areOpen: cfg.Databases, databases: desc(nameDatabase),
		open: desc(nameOpen), paused: desc(nameSourcePause),
		callbacks: desc(nameCallbacks), effects: desc(nameEffects), tasks: desc(nameTasks),
	}
}

func desc(name string) *prometheus.Desc {
	f := family(name)
	return prometheus.NewDesc(f.Name, f.Help, f.Labels, nil)
}

// Describe implements prometheus.Collector.
func (k *kept) Describe(out chan<- *prometheus.Desc) {
	out <- k.callbacks
	out <- k.effects
	out <- k.tasks
	out <- k.open
	out <- k.paused
	out <- k.byState
	out <- k.databases
}

// Collect implements prometheus.Collector. Without an answer of the store the gauges are missing:
// an old number would look like a fact.
func (k *kept) Collect(out chan<- prometheus.Metric) {
	for d, ask := range map[*prometheus.Desc]func() map[string]bool{
		k.open: k.isOpen, k.paused: k.isPaused, k.databases: k.areOpen,
	} {
		if ask == nil {
			continue
		}
		for name, is := range ask() {
			out <- gauge(d, int64(oneIf(is)), name)
		}
	}
	k.collectRecords(out)
	if k.counts == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), countsTimeout)
	defer cancel()
	c, err := k.counts(ctx)
	if err != nil {
		k.log.Error("read kept counters", "error", err)
		return
	}
	seen := map[queue.RowCount]bool{}
	for one := range c.Rows {
		of := queue.RowCount{Kind: one.Kind, Source: one.Source}
		if seen[of] {
			continue
		}
		seen[of] = true
		k.rows(out, of, c.Rows)
	}
	for of, n := range c.Tasks {
		out <- gauge(k.tasks, n, of.Flow, of.State)
	}
}

// rows shows every state of a source, those without rows too, so that no line of a graph breaks
// off.
func (k *kept) rows(out chan<- prometheus.Metric, of queue.RowCount, all map[queue.RowCount]int64) {
	d := k.callbacks
	if of.Kind == queue.Effect {
		d = k.effects
	}
	for _, s := range queue.States(of.Kind) {
		of.State = s
		out <- gauge(d, all[of], of.Source, string(s))
	}
}

func gauge(d *prometheus.Desc, n int64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
}

// collectRecords shows every state, also those without records, where they are counted.
func (k *kept) collectRecords(out chan<- prometheus.Metric) {
	if k.records == nil {
		return
	}
	counts := k.records()
	if counts == nil {
		return
	}
	for _, state := range []once.RecordState{once.InFlight, once.Completed, once.Released,
		once.Lost, once.Held} {
		out <- gauge(k.byState, counts[state], string(state))
	}
}
