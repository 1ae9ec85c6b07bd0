package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"golang.org/x/net/netutil"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/api"
	"github.com/oncekit/once/queue"
)

// listener is an address and what is served on it.
type listener struct {
	net  net.Listener
	http *http.Server
}

// Addr returns the address on which senders are served: the host as it was configured, and the port
// that it became.
func (s *Server) Addr() string { return shown(s.cfg.Listen, s.senders.net) }

// AdminAddr returns the address of the operator's listener, like Addr.
func (s *Server) AdminAddr() string { return shown(s.cfg.Admin.Listen, s.admin.net) }

func shown(configured string, l net.Listener) string {
	host, _, err := net.SplitHostPort(configured)
	_, port, perr := net.SplitHostPort(l.Addr().String())
	if err != nil || perr != nil {
		return l.Addr().String()
	}
	if host == "" { // all addresses of this machine
		host = "0.0.0.0"
	}
	return net.JoinHostPort(host, port)
}

func (s *Server) serveSenders() error {
	cfg := inbox.Config{MaxInFlightBytes: s.cfg.Limits.Bodies, Observer: s.metrics, Logger: s.log,
		Proxies: s.cfg.Proxies}
	if s.opts.Tracing != nil {
		cfg.Tracer = s.opts.Tracing
	}
	receiver, err := inbox.New(s.store, s.cfg.Sources, cfg)
	if err != nil {
		return err
	}
	for _, src := range s.cfg.Sources {
		s.metrics.Source(src.Name)
	}
	s.senders.net = netutil.LimitListener(s.senders.net, s.cfg.Limits.Connections)
	s.senders.http = s.server(s.sendersHandler(receiver))
	if s.cfg.TLS != nil {
		s.senders.http.TLSConfig, err = senderTLS(s.cfg.TLS, s.log)
	}
	return err
}

// serve answers until the listener is closed, with TLS if it has what it takes.
func (l listener) serve() error {
	if l.http.TLSConfig != nil {
		return l.http.ServeTLS(l.net, "", "")
	}
	return l.http.Serve(l.net)
}

func (s *Server) serveAdmin() error {
	records, err := s.recordsAPI()
	if err != nil {
		return err
	}
	nodes, _ := s.store.(queue.NodeLister) // not each store has several, or tells
	handler, err := api.New(api.Config{
		Records: records,
		Browser: s.store, Operator: s.store, Transactor: s.store, Engine: s.engine,
		Ping: s.ready, Route: s.route, Metrics: s.metrics, Destinations: s.status,
		Sources: s.standing, Nodes: nodes,
		Token: s.cfg.Admin.Token, Hosts: s.cfg.Admin.Hosts, Listen: s.cfg.Admin.Listen,
		Logger: s.log, Version: s.opts.Version,
	})
	if err != nil {
		return err
	}
	s.admin.http = s.server(handler)
	return nil
}

// listen takes an address. The name of the field stands in the error.
func listen(field, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err == nil {
		return l, nil
	}
	var op *net.OpError
	if errors.As(err, &op) { // its text has the address, too
		err = op.Err
	}
	flag := map[string]string{"listen": "--listen", "admin.listen": "--admin"}[field]
	return nil, fmt.Errorf("%s %s: %w (is another server running? name another address: %s ADDR, "+
		"or %s in the file)", field, addr, err, flag, field)
}

// server answers with h, within the limits.
func (s *Server) server(h http.Handler) *http.Server {
	limits := s.cfg.Limits
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: limits.ReadTimeout,
		ReadTimeout:       limits.ReadTimeout,
		IdleTimeout:       limits.IdleTimeout,
		MaxHeaderBytes:    limits.Headers,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}
