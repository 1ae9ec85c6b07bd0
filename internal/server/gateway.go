package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/gateway"
)

// answerRoom is what an answer's headers may take in a record, beside its body.
const answerRoom = 256 << 10

// openRecords opens where the gateway's records are kept: the store, a Redis, a PostgreSQL or a
// MongoDB.
func (s *Server) openRecords(ctx context.Context) error {
	g := s.cfg.Gateway
	if g == nil {
		return nil
	}
	if g.Records == "" {
		s.records = s.store.gatewayRecords()
		return nil
	}
	maxOutcome := s.maxOutcome()
	open := s.openRedisRecords
	switch {
	case g.InMongoDB():
		open = s.openMongoRecords
	case g.InPostgreSQL():
		open = s.openPostgresRecords
	}
	if err := open(ctx, g.Records, maxOutcome); err != nil {
		return fmt.Errorf("open records: %w", err)
	}
	return nil
}

// maxOutcome is the longest outcome that the gateway keeps; 0: the store's default.
func (s *Server) maxOutcome() int {
	most := 0
	if g := s.cfg.Gateway; g != nil {
		for i := range g.Routes {
			most = max(most, int(g.Routes[i].MaxAnswer)+answerRoom)
		}
	}
	return most
}

// makeGateway makes the gateway that the file describes.
func (s *Server) makeGateway() (err error) {
	if s.cfg.Gateway == nil {
		return nil
	}
	s.gateway, err = gateway.New(gateway.Config{Gateway: s.cfg.Gateway, Store: s.records,
		Proxies: s.cfg.Proxies, BodyTimeout: s.cfg.Limits.ReadTimeout, Observer: s.metrics,
		Logger: s.log})
	if err != nil {
		return err
	}
	s.closers = append([]closer{s.gateway}, s.closers...)
	for i := range s.cfg.Gateway.Routes { // shown from the start, for alerts
		s.metrics.Route(s.cfg.Gateway.Routes[i].Match)
	}
	return nil
}

// sendersHandler gives the inbox its own paths, and everything else to the gateway.
func (s *Server) sendersHandler(receiver http.Handler) http.Handler {
	if s.gateway == nil {
		return receiver
	}
	paths := map[string]bool{}
	for _, src := range s.cfg.Sources {
		for _, path := range src.Paths {
			paths[path] = true
		}
	}
	limit := s.cfg.Limits.IdleTimeout
	inbox := len(s.cfg.Sources) > 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pw := &pacedWriter{ResponseWriter: w, c: http.NewResponseController(w), limit: limit}
		pw.rest()        // that of the request before, on this connection
		defer pw.begin() // of what the server still sends: the end of a body
		if inbox && (strings.HasPrefix(r.URL.Path, "/in/") || paths[r.URL.Path]) {
			receiver.ServeHTTP(pw, r)
			return
		}
		s.gateway.ServeHTTP(pw, r)
	})
}

// pacedWriter gives each piece of an answer a deadline: a client that reads nothing must not keep
// its connection for ever, and one that reads slowly may take its time. None runs between two
// pieces: HTTP/2 resets a stream at its deadline although nothing waits to be written, such as
// while the service works, or an event stream is silent.
type pacedWriter struct {
	http.ResponseWriter
	c     *http.ResponseController
	limit time.Duration
}

// begin sets the deadline of a piece.
func (w *pacedWriter) begin() {
	_ = w.c.SetWriteDeadline(time.Now().Add(w.limit)) // where none can be set, none runs
}

// rest takes the deadline away.
func (w *pacedWriter) rest() { _ = w.c.SetWriteDeadline(time.Time{}) }

// WriteHeader implements http.ResponseWriter.
func (w *pacedWriter) WriteHeader(status int) {
	w.begin()
	defer w.rest()
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *pacedWriter) Write(p []byte) (int, error) {
	w.begin()
	defer w.rest()
	return w.ResponseWriter.Write(p)
}

// FlushError serves http.ResponseController.
func (w *pacedWriter) FlushError() error {
	w.begin()
	defer w.rest()
	return w.c.Flush()
}

// Unwrap serves http.ResponseController.
func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// endGateway ends the requests that did not end in time: their attempts are told to be lost, while
// the store can still be written.
func (s *Server) endGateway() {
	if s.gateway != nil && !s.gateway.End(stopGrace) {
		s.log.Error("requests did not end although they were told to; their attempts count as " +
			"lost at the next start")
	}
}

// recordCounts are the records by state, where counting costs nothing.
func (s *Server) recordCounts() map[once.RecordState]int64 {
	if s.cfg.Gateway == nil || s.cfg.Gateway.Records != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordsPingLimit)
	defer cancel()
	counts, err := s.store.RecordCounts(ctx)
	if err != nil {
		s.log.Debug("count the records", "error", err) // whoever asks for them meets it too
		return nil
	}
	return counts
}
