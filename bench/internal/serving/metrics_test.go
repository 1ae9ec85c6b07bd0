package serving

import (
	"strings"
	"testing"
)

func TestMetricsAreReadAndAdded(t *testing.T) {
	m, err := parseMetrics(strings.NewReader(`# HELP once_callbacks Callbacks in the store.
# TYPE once_callbacks gauge
once_callbacks{source="rcs",state="pending"} 12
once_callbacks{source="rcs",state="parked"} 3
once_callbacks{source="other",state="pending"} 100
once_effects{destination="wms",state="done"} 1e+06
`))
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Callbacks("rcs", "pending", "parked", "running"); got != 15 {
		t.Errorf("%d callbacks, want 15", got)
	}
	if got := m.Effects("wms", "done"); got != 1_000_000 {
		t.Errorf("%d effects, want 1000000", got)
	}
	for _, bad := range []string{"name", "name x"} {
		if m, err := parseMetrics(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: %v, want an error", bad, m)
		}
	}
}
