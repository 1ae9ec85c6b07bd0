package metrics_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/metrics"
	"github.com/oncekit/once/queue"
)

var (
	_ inbox.Observer     = (*metrics.Metrics)(nil)
	_ inbox.DropObserver = (*metrics.Metrics)(nil)
)

func newMetrics(t *testing.T, cfg metrics.Config) *metrics.Metrics {
	t.Helper()
	m, err := metrics.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// scrape returns the lines that a server would read.
func scrape(t *testing.T, m *metrics.Metrics) []string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return strings.Split(w.Body.String(), "\n")
}

func want(t *testing.T, m *metrics.Metrics, lines ...string) {
	t.Helper()
	got := scrape(t, m)
	for _, l := range lines {
		if !slices.Contains(got, l) {
			t.Errorf("there is no line %q in\n%s", l, strings.Join(ours(got), "\n"))
		}
	}
}

func ours(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
		return !strings.HasPrefix(l, "once_")
	})
}

func TestASourceIsThereBeforeItsFirstMessage(t *testing.T) {
	m := newMetrics(t, metrics.Config{})
	m.Source("rcs")
	want(t, m, `once_receipts_total{outcome="unavailable",source="rcs"} 0`)
}

func TestReceiptsAreCountedByOutcomeAndTimed(t *testing.T) {
	m := newMetrics(t, metrics.Config{})
	m.Receipt("rcs", queue.Accepted, 700*time.Microsecond)
	m.Receipt("rcs", queue.Accepted, 3*time.Second)
	m.Receipt("rcs", queue.Duplicate, time.Minute)
	m.Receipt("", queue.Invalid, 0)
	want(t, m,
		`once_receipts_total{outcome="accepted",source="rcs"} 2`,
		`once_receipts_total{outcome="duplicate",source="rcs"} 1`,
		`once_receipts_total{outcome="conflict",source="rcs"} 0`,
		`once_receipts_total{outcome="invalid",source=""} 1`,
		`once_ack_seconds_bucket{source="rcs",le="0.0005"} 0`,
		`once_ack_seconds_bucket{source="rcs",le="0.001"} 1`,
		`once_ack_seconds_bucket{source="rcs",le="5"} 2`,
		`once_ack_seconds_count{source="rcs"} 3`,
		`once_ack_seconds_sum{source="rcs"} 63.0007`,
	)
}

func TestTriesAreCountedByWhatCameOfThem(t *testing.T) {
	m := newMetrics(t, metrics.Config{})
	c := queue.Row{Kind: queue.Callback, Source: "rcs"}
	e := queue.Row{Kind: queue.Effect, Source: "wms"}
	m.Attempt(c, queue.Settlement{State: queue.Done}, 0)
	m.Attempt(c, queue.Settlement{State: queue.Pending}, time.Second)
	m.Attempt(c, queue.Settlement{State: queue.Pending, NotTried: true}, 0)
	m.Attempt(e, queue.Settlement{State: queue.Done}, 10*time.Millisecond)
	m.Attempt(e, queue.Settlement{State: queue.Held}, 20*time.Millisecond)
	want(t, m,
		`once_attempts_total{result="done",source="rcs"} 1`,
		`once_attempts_total{result="retry",source="rcs"} 1`,
		`once_attempts_total{result="not_tried",source="rcs"} 1`,
		`once_effects_total{destination="wms",result="done"} 1`,
		`once_effects_total{destination="wms",result="held"} 1`,
		`once_attempt_seconds_count{kind="callback",source="rcs"} 1`,
		`once_attempt_seconds_count{kind="effect",source="wms"} 2`,
		`once_attempt_seconds_bucket{kind="effect",source="wms",le="0.01"} 1`,
		`once_resource_conflicts_total 0`,
	)
}

func TestACallbackThatFindsItsResourceTakenIsCountedOnce(t *testing.T) {
	m := newMetrics(t, metrics.Config{})
	busy, early := []string{"resource/roadway/R1"}, []string{"task/transport/T1"}
	parked := func(waits []string) queue.Settlement {
		return queue.Settlement{State: queue.Parked, Park: &queue.Park{Waits: waits}}
	}
	for _, c := range []struct {
		had []string
		set queue.Settlement
	}{
		{nil, parked(busy)},
		{busy, parked(busy)}, // woken, and taken again by another
		{early, parked(busy)},
		{nil, parked(early)},
		{nil, queue.Settlement{State: queue.Dead, DeadCause: queue.CauseCircle}},
		{busy, queue.Settlement{State: queue.Dead, DeadCause: queue.CauseCircle}},
		{busy, queue.Settlement{State: queue.Dead, DeadCause: queue.CauseWaited}},
		{nil, queue.Settlement{State: queue.Dead, DeadCause: queue.CauseIllegal}},
		{busy, queue.Settlement{State: queue.Done}},
	} {
		m.Attempt(queue.Row{Kind: queue.Callback, Source: "rcs", Waits: c.had}, c.set, 0)
	}
	want(t, m, "once_resource_conflicts_total 3")
}

func TestKeptCountersAreShownWithEveryState(t *testing.T) {
	scrapes := 0
	m := newMetrics(t, metrics.Config{Counts: func(context.Context) (queue.Counts, error) {
		scrapes++
		return queue.Counts{
			Rows: map[queue.RowCount]int64{
				{Kind: queue.Callback, Source: "rcs", State: queue.Dead}:    3,
				{Kind: queue.Callback, Source: "rcs", State: queue.Done}:    1 << 40,
				{Kind: queue.Effect, Source: "plant", State: queue.Sending}: 2,
			},
			Tasks: map[queue.TaskCount]int64{{Flow: "transport", State: "running"}: 7},
		}, nil
	}})
	want(t, m,
		`once_callbacks{source="rcs",state="dead"} 3`,
		`once_callbacks{source="rcs",state="done"} 1.099511627776e+12`,
		`once_callbacks{source="rcs",state="held"} 0`,
		`once_effects{destination="plant",state="sending"} 2`,
		`once_effects{destination="plant",state="expired"} 0`,
		`once_tasks{flow="transport",state="running"} 7`,
	)
	if scrapes != 1 {
		t.Errorf("the store was asked %d times for one scrape", scrapes)
	}
}

func TestAStoreThatDoesNotAnswerCostsOnlyItsGauges(t *testing.T) {
	var log strings.Builder
	m := newMetrics(t, metrics.Config{
		Counts: func(context.Context) (queue.Counts, error) {
			return queue.Counts{}, errors.New("gone")
		},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	m.StoreReady(false)
	want(t, m, "once_store_ready 0")
	if got := strings.Join(scrape(t, m), "\n"); strings.Contains(got, "once_callbacks") {
		t.Error("old or empty gauges are shown")
	}
	if !strings.Contains(log.String(), "gone") {
		t.Error("the failure is not logged")
	}
}

func TestPausesDropsAndTheVersionAreShown(t *testing.T) {
	m := newMetrics(t, metrics.Config{Version: "1.2.3"})
	m.DestinationPaused("plant", true)
	m.DestinationPaused("wms", true)
	m.DestinationPaused("wms", false)
	m.RejectedDropped("rcs")
	m.Elements("rms", queue.Accepted, 2)
	m.Elements("rms", queue.Accepted, 3)
	m.Receipt("rms", queue.Probe, 0)
	m.StoreReady(true)
	want(t, m,
		`once_elements_total{outcome="accepted",source="rms"} 5`,
		`once_receipts_total{outcome="probe",source="rms"} 1`,
		`once_destination_paused{destination="plant"} 1`,
		`once_destination_paused{destination="wms"} 0`,
		`once_rejected_dropped_total{source="rcs"} 1`,
		`once_store_ready 1`,
		`once_build_info{goversion="`+runtime.Version()+`",version="1.2.3"} 1`,
	)
}

// Each row of the table is shown as it says, and what is shown has a row.
func TestTheTableIsCompleteInCodeAndDocumentation(t *testing.T) {
	m := newMetrics(t, metrics.Config{Counts: func(context.Context) (queue.Counts, error) {
		return queue.Counts{
			Rows: map[queue.RowCount]int64{{Kind: queue.Callback, Source: "s"}: 1,
				{Kind: queue.Effect, Source: "d"}: 1},
			Tasks: map[queue.TaskCount]int64{{Flow: "f", State: "s"}: 1},
		}, nil
	}, Open: func() map[string]bool { return map[string]bool{"d": true, "away": false} },
		Paused:    func() map[string]bool { return map[string]bool{"s": true, "well": false} },
		Databases: func() map[string]bool { return map[string]bool{"up": true, "down": false} },
		Records: func() map[once.RecordState]int64 {
			return map[once.RecordState]int64{once.Held: 2}
		}})
	m.Request("POST /", "first", 0)
	m.RequestAttempt("POST /", once.EventCompleted)
	m.Receipt("s", queue.Accepted, 0)
	m.RejectedDropped("s")
	m.Elements("s", queue.Accepted, 1)
	m.DestinationPaused("d", false)
	m.Attempt(queue.Row{Kind: queue.Callback, Source: "s"}, queue.Settlement{State: queue.Done}, 1)
	m.Attempt(queue.Row{Kind: queue.Effect, Source: "s"}, queue.Settlement{State: queue.Done}, 1)
	shown := map[string]string{}
	lines := scrape(t, m)
	for _, want := range []string{`once_destination_open{destination="d"} 1`,
		`once_destination_open{destination="away"} 0`, `once_source_paused{source="s"} 1`,
		`once_source_paused{source="well"} 0`,
		`once_database_open{database="up"} 1`, `once_database_open{database="down"} 0`, `once_records{state="held"} 2`,
		`once_records{state="completed"} 0`,
		`once_requests_total{outcome="first",route="POST /"} 1`} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %s", want)
		}
	}
	for _, l := range lines {
		if rest, ok := strings.CutPrefix(l, "# TYPE once_"); ok {
			name, kind, _ := strings.Cut(rest, " ")
			shown["once_"+name] = kind
		}
	}
	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range metrics.Families() {
		if shown[f.Name] != f.Type {
			t.Errorf("%s is shown as %q, the table says %q", f.Name, shown[f.Name], f.Type)
		}
		labels := strings.Join(f.Labels, ", ")
		row := "| `" + f.Name + "` | " + f.Type + " | " + labels + " | " + f.Help + " |"
		if !strings.Contains(string(text), row) {
			t.Errorf("docs/api.md lacks the row %s", row)
		}
		delete(shown, f.Name)
	}
	if len(shown) > 0 {
		t.Errorf("not in the table: %v", shown)
	}
}

func TestCountingAllocatesNothingAndLosesNothing(t *testing.T) {
	m := newMetrics(t, metrics.Config{})
	row, done := queue.Row{Kind: queue.Callback, Source: "rcs"}, queue.Settlement{State: queue.Done}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				m.Receipt("rcs", queue.Accepted, time.Millisecond)
				m.Attempt(row, done, time.Millisecond)
			}
		})
	}
	wg.Wait()
	want(t, m, `once_receipts_total{outcome="accepted",source="rcs"} 8000`,
		`once_attempts_total{result="done",source="rcs"} 8000`)
	receipt := testing.AllocsPerRun(100, func() {
		m.Receipt("rcs", queue.Accepted, time.Millisecond)
	})
	attempt := testing.AllocsPerRun(100, func() { m.Attempt(row, done, time.Millisecond) })
	if receipt != 0 || attempt != 0 {
		t.Errorf("a receipt allocates %v times, an attempt %v times", receipt, attempt)
	}
}

func BenchmarkReceipt(b *testing.B) {
	m, err := metrics.New(metrics.Config{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		m.Receipt("rcs", queue.Accepted, time.Millisecond)
	}
}
