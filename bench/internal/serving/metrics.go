package serving

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Metrics are the values of one scrape by their names with labels, as in
// `once_callbacks{source="rcs",state="pending"}`.
type Metrics map[string]float64

// Metrics reads what a server tells of itself.
func (s *Server) Metrics(ctx context.Context) (Metrics, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Admin+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read metrics: status %s", answer.Status)
	}
	return parseMetrics(answer.Body)
}

// parseMetrics reads the text format of Prometheus, version 0.0.4, without timestamps.
func parseMetrics(r io.Reader) (Metrics, error) {
	m := Metrics{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		if at < 0 {
			return nil, fmt.Errorf("read metrics: %.80q has no value", line)
		}
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("read metrics: %.80q: %w", line, err)
		}
		m[line[:at]] = v
	}
	return m, lines.Err()
}

// Callbacks returns the number of a source's callbacks in the given states.
func (m Metrics) Callbacks(source string, states ...string) int64 {
	return m.count("once_callbacks", "source", source, states)
}

// Effects returns the number of a destination's effects in the given states.
func (m Metrics) Effects(destination string, states ...string) int64 {
	return m.count("once_effects", "destination", destination, states)
}

func (m Metrics) count(family, label, value string, states []string) int64 {
	n := 0.0
	for _, state := range states {
		n += m[fmt.Sprintf("%s{%s=%q,state=%q}", family, label, value, state)]
	}
	return int64(n)
}
