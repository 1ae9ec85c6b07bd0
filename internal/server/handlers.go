package server

import (
	"context"
	"fmt"
	"net/http"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/queue"
)

// handlerWorkers work the callbacks of sources that are not worked by a flow.
func (s *Server) handlerWorkers() ([]queue.Worker, error) {
	var lanes []string
	policies := map[string]map[string]inbox.HandlerConfig{} // by lane and source
	first := map[string]inbox.HandlerConfig{}
	for _, src := range s.cfg.SourceSettings {
		h := src.Handler
		if h == nil {
			continue
		}
		cfg, err := s.handlerConfig(src.Name, h)
		if err != nil {
			return nil, err
		}
		if policies[h.Lane] == nil {
			lanes = append(lanes, h.Lane)
			policies[h.Lane], first[h.Lane] = map[string]inbox.HandlerConfig{}, cfg
		}
		policies[h.Lane][src.Name] = cfg
	}
	var out []queue.Worker
	for _, lane := range lanes {
		out = append(out, laneWorker(lane, first[lane], policies[lane]))
	}
	return out, nil
}

// laneWorker works the callbacks of a lane, each by the policy of its source: sources that name one
// handler share its lane. One whose source is gone from the file is worked by another's policy.
func laneWorker(lane string, other inbox.HandlerConfig,
	policies map[string]inbox.HandlerConfig,
) queue.Worker {
	w := inbox.NewWorker(lane, other)
	of := func(row queue.Row) inbox.HandlerConfig {
		if cfg, ok := policies[row.Source]; ok {
			return cfg
		}
		return other
	}
	w.Attempt = func(ctx context.Context, row queue.Row) queue.Settlement {
		return inbox.Attempt(ctx, of(row), row)
	}
	w.CommitFailed = func(row queue.Row, err error) queue.Settlement {
		return inbox.CommitFailed(of(row), row, err)
	}
	for _, cfg := range policies {
		w.Concurrency = max(w.Concurrency, cfg.Concurrency)
		w.HoldLost = w.HoldLost || cfg.HoldUnknown
		w.Block = w.Block || cfg.Block
	}
	return w
}

func (s *Server) handlerConfig(source string, h *config.Handler) (inbox.HandlerConfig, error) {
	handler, err := s.handler(source, h)
	return inbox.HandlerConfig{
		Name: h.Lane, Handler: handler, Timeout: h.Policy.Timeout,
		Retry: inbox.Retry(h.Policy.Retry), HoldUnknown: h.Policy.HoldUnknown,
		Block: h.Policy.Block, Concurrency: h.Policy.Concurrency, Logger: s.log,
	}, err
}

func (s *Server) handler(source string, h *config.Handler) (inbox.Handler, error) {
	if h.HTTP != nil {
		handler, err := s.httpHandler(source, h)
		if err != nil {
			return nil, fmt.Errorf("source %s: %w", source, err)
		}
		return handler, nil
	}
	return s.opts.Handlers[h.Name], nil // it is there: Lacks says nothing
}

// httpHandler hands callbacks to a service in any language.
func (s *Server) httpHandler(source string, h *config.Handler) (*inbox.HTTPHandler, error) {
	c := h.HTTP
	cfg := inbox.HTTPConfig{URL: c.URL, Header: http.Header{}, RetryCap: h.Policy.Retry.Cap,
		Probe: h.Probe, Logger: s.log.With("source", source)}
	for name, v := range c.Header {
		cfg.Header.Set(name, v)
	}
	if c.Bearer != "" {
		cfg.Header.Set("Authorization", "Bearer "+c.Bearer)
	}
	if c.TLS != nil {
		var err error
		if cfg.TLS, err = c.TLS.Load(); err != nil {
			return nil, err
		}
	}
	if t := s.opts.Tracing; t != nil {
		t.Service(source, c.URL)
	}
	handler, err := inbox.NewHTTPHandler(cfg)
	if err == nil {
		s.closers = append(s.closers, handler)
		s.services[source] = handler
	}
	return handler, err
}
