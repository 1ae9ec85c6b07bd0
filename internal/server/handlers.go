package server

import (
	"fmt"
	"net/http"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/queue"
	"github.com/oncekit/once/write"
)

// handlerWorkers work the callbacks of sources that are not worked by a flow, each source in a lane
// of its own: sources that name one handler share nothing else.
func (s *Server) handlerWorkers() ([]queue.Worker, error) {
	var out []queue.Worker
	for _, src := range s.cfg.SourceSettings {
		if src.Handler == nil {
			continue
		}
		cfg, err := s.handlerConfig(src.Name, src.Handler)
		if err != nil {
			return nil, err
		}
		out = append(out, inbox.NewWorker(src.Handler.Lane, cfg))
	}
	return out, nil
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
	switch {
	case h.HTTP != nil:
		handler, err := s.httpHandler(source, h)
		if err != nil {
			return nil, fmt.Errorf("source %s: %w", source, err)
		}
		return handler, nil
	case h.Document != nil:
		handler, err := s.documentHandler(source, h)
		if err != nil {
			return nil, fmt.Errorf("source %s: %w", source, err)
		}
		return handler, nil
	}
	return s.opts.Handlers[h.Name], nil // it is there: Lacks says nothing
}

// documentHandler writes callbacks into a database.
func (s *Server) documentHandler(source string, h *config.Handler) (inbox.Handler, error) {
	src := s.sources[source]
	handler, err := inbox.NewWriteHandler(inbox.WriteConfig{
		Writer: s.database(h.Document.Database),
		Event: func(c inbox.Callback) (write.Event, error) {
			m, err := inbox.MessageOf(src, c, config.MaxDepth)
			if err != nil {
				return write.Event{}, err
			}
			return h.Document.Event(m)
		},
		Refuses: refusesLogin, Probe: h.Probe, Logger: s.log.With("source", source),
	})
	if err != nil {
		return nil, err
	}
	s.services[source] = handler
	return handler, nil
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
