// Package server puts the parts together: the store, the receiver, the flows, the destinations and
// the operator's listener, as one configuration names them.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/oncekit/once/flow"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/api"
	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/internal/metrics"
	"github.com/oncekit/once/oncesqlite"
	"github.com/oncekit/once/outbox"
	"github.com/oncekit/once/queue"
)

// Options say what is served, and with what.
type Options struct {
	// Config is required.
	Config *config.Config
	// Handlers in Go by the name that `to: {handler: NAME}` gives. Default: none.
	Handlers map[string]inbox.Handler
	// Effects gets the lines of destinations of type log. Required if there is one.
	Effects io.Writer
	// Logger gets what an operator should know. Default: discards.
	Logger *slog.Logger
	// Version is told in metrics and by the API.
	Version string
	// Probe is called at each Point, for tests of what a process loses that ends there. Default:
	// nobody is called.
	Probe func(oncesqlite.Point)
}

// Server is one running configuration.
type Server struct {
	opts   Options
	cfg    *config.Config
	log    *slog.Logger
	store  *oncesqlite.Store
	engine *flow.Engine
	// sources by name.
	sources      map[string]*inbox.Source
	destinations []*outbox.Destination
	metrics      *metrics.Metrics
	dispatcher   *queue.Dispatcher
	closers      []io.Closer // closed at the end
	senders      listener
	admin        listener
}

// listener is an address and what is served on it.
type listener struct {
	net  net.Listener
	http *http.Server
}

// Open opens the store, compares it with the configuration, and listens. Nothing is served before
// Run. The error says what to do; it is a *config.Error where the file has to change.
func Open(ctx context.Context, o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: o, cfg: o.Config, log: o.Logger, sources: map[string]*inbox.Source{}}
	for _, src := range s.cfg.Sources {
		s.sources[src.Name] = src
	}
	if s.cfg.Gateway != nil {
		return nil, errors.New("the file has a `gateway`, which this version does not serve yet: " +
			"remove it, or serve the inbox and the gateway from files of their own")
	}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *Server) open(ctx context.Context) (err error) {
	if s.store, err = oncesqlite.Open(ctx, oncesqlite.Config{
		Path: s.cfg.Store.Path, NoCreate: !s.cfg.Store.Create, Logger: s.log,
		RejectedPerSource: s.cfg.Limits.Rejected, Probe: s.opts.Probe,
	}); err != nil {
		return err
	}
	if s.store.Created() {
		s.log.Warn("a NEW, EMPTY store was made: nothing is remembered of earlier callbacks; "+
			"`create: false` refuses this", "store", s.cfg.Store.Path)
	}
	if err := s.adopt(ctx); err != nil {
		return err
	}
	if err := s.build(); err != nil {
		return err
	}
	if s.senders, err = s.listenSenders(); err != nil {
		return err
	}
	s.admin, err = s.listenAdmin()
	return err
}

// Addr returns the address on which senders are served, host:port.
func (s *Server) Addr() string { return s.senders.net.Addr().String() }

// AdminAddr returns the address of the operator's listener, host:port.
func (s *Server) AdminAddr() string { return s.admin.net.Addr().String() }

// Created reports whether the store was made by Open.
func (s *Server) Created() bool { return s.store.Created() }

func (s *Server) listenSenders() (listener, error) {
	receiver, err := inbox.New(s.store, s.cfg.Sources, inbox.Config{
		MaxInFlightBytes: s.cfg.Limits.Bodies, Observer: s.metrics, Logger: s.log,
	})
	if err != nil {
		return listener{}, err
	}
	l, err := s.listen("listen", s.cfg.Listen, receiver)
	if err == nil {
		l.net = netutil.LimitListener(l.net, s.cfg.Limits.Connections)
	}
	return l, err
}

func (s *Server) listenAdmin() (listener, error) {
	handler, err := api.New(api.Config{
		Browser: s.store, Operator: s.store, Transactor: s.store, Engine: s.engine,
		Ping: s.store.Ping, Route: s.route, Metrics: s.metrics, Destinations: s.status,
		Token: s.cfg.Admin.Token, Hosts: s.cfg.Admin.Hosts, Listen: s.cfg.Admin.Listen,
		Logger: s.log, Version: s.opts.Version,
	})
	if err != nil {
		return listener{}, err
	}
	return s.listen("admin.listen", s.cfg.Admin.Listen, handler)
}

func (s *Server) listen(field, addr string, h http.Handler) (listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return listener{}, fmt.Errorf("%s %s: %w (is another server running? "+
			"name another address)", field, addr, err)
	}
	limits := s.cfg.Limits
	return listener{net: l, http: &http.Server{
		Handler:           h,
		ReadHeaderTimeout: limits.ReadTimeout,
		ReadTimeout:       limits.ReadTimeout,
		IdleTimeout:       limits.IdleTimeout,
		MaxHeaderBytes:    limits.Headers,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}}, nil
}

// Run serves until ctx ends, then drains: no new connection, running answers and tries end within
// the configured time, everything else stays in the store. It closes the store.
func (s *Server) Run(ctx context.Context) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var wg sync.WaitGroup
	failed := make(chan error, 2)
	for _, l := range []listener{s.senders, s.admin} {
		wg.Go(func() {
			if err := l.http.Serve(l.net); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	keep, drop := context.WithCancel(context.WithoutCancel(ctx))
	var links sync.WaitGroup
	for _, d := range s.destinations {
		links.Go(func() {
			if err := d.Run(keep); err != nil && keep.Err() == nil {
				s.log.Error("a destination ended", "destination", d.Name, "error", err)
			}
		})
	}
	wg.Go(func() { s.dispatcher.Run(work) })
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.log.Info("draining", "limit", s.cfg.Drain)
	stop()
	s.shutdown()
	s.await(&wg)
	drop()
	links.Wait()
	err = errors.Join(err, s.close())
	s.log.Info("ended")
	return err
}

// shutdown ends the listeners: answers that are under way go out, within the limit.
func (s *Server) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Drain)
	defer cancel()
	var wg sync.WaitGroup
	for _, l := range []listener{s.senders, s.admin} {
		wg.Go(func() {
			if err := l.http.Shutdown(ctx); err != nil {
				s.log.Warn("connections were cut: their requests did not end in time",
					"listener", l.net.Addr(), "error", errors.Join(err, l.http.Close()))
			}
		})
	}
	wg.Wait()
}

// stopGrace is how long tries that were told to stop may take to do so.
const stopGrace = 5 * time.Second

// await waits for the tries that run. One that does not obey its context is left behind: its row is
// taken up again at the next start.
func (s *Server) await(tries *sync.WaitGroup) {
	ended := make(chan struct{})
	go func() {
		tries.Wait()
		close(ended)
	}()
	limit := time.NewTimer(s.cfg.Drain + stopGrace)
	defer limit.Stop()
	select {
	case <-ended:
	case <-limit.C:
		s.log.Error("a handler does not end although its context has; its callback is worked " +
			"again after the next start")
	}
}

// close ends what is open. It is called once, by Run or by an Open that failed.
func (s *Server) close() error {
	var errs []error
	for _, l := range []listener{s.senders, s.admin} {
		if l.http == nil {
			continue
		}
		if err := l.net.Close(); !errors.Is(err, net.ErrClosed) { // not served, or not yet
			errs = append(errs, err)
		}
		errs = append(errs, l.http.Close())
	}
	for _, d := range s.destinations {
		if c, ok := d.Sender.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	for _, c := range s.closers {
		errs = append(errs, c.Close())
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	return errors.Join(errs...)
}

// pollTime is how often lanes are looked at that nothing rang for.
const pollTime = time.Second
