package peer

import (
	"fmt"
	"io"
	"net/http"
	"sync"
)

// sink is a destination: it counts requests and tells them apart by their Idempotency-Key.
type sink struct {
	mu   sync.Mutex
	seen map[string]int
	all  int64
}

// ServeHTTP counts an effect. GET tells how many there were, and how many different ones.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		s.mu.Lock()
		all, distinct := s.all, len(s.seen)
		s.mu.Unlock()
		_, _ = fmt.Fprintf(w, "sink_requests_total %d\nsink_effects_total %d\n", all, distinct)
		return
	}
	_, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxBody))
	key := r.Header.Get("Idempotency-Key")
	if err != nil || key == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.seen[key]++
	s.all++
	s.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}
