// Package server puts the parts together: the store, the receiver, the flows, the destinations and
// the operator's listener, as one configuration names them.
package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/flow"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/internal/gateway"
	"github.com/oncekit/once/internal/metrics"
	"github.com/oncekit/once/internal/tracing"
	"github.com/oncekit/once/oncesqlite"
	"github.com/oncekit/once/outbox"
	"github.com/oncekit/once/queue"
	"github.com/oncekit/once/write"
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
	// NoFile says that the configuration comes from flags alone.
	NoFile bool
	// Version is told in metrics and by the API.
	Version string
	// Tracing makes spans. The server tells it of its destinations, and closes it at its end.
	// Default: there are none.
	Tracing *tracing.Tracing
	// Probe is called at each Point, for tests of what a process loses that ends there. Default:
	// nobody is called.
	Probe func(oncesqlite.Point)
	// Records wraps where the gateway's records are kept, for tests of stores that fail. Default:
	// nothing.
	Records func(once.Store) once.Store
	// Writer wraps what writes documents into databases, for tests of databases that fail. Default:
	// nothing.
	Writer func(write.Writer) write.Writer
	// DatabaseWait is how long Open waits for databases that don't answer. Default 5 s.
	DatabaseWait time.Duration
	// Now is the store's clock, for tests and demonstrations of what happens days later. Default:
	// the machine's.
	Now func() time.Time
}

// Server is one running configuration.
type Server struct {
	opts   Options
	cfg    *config.Config
	log    *slog.Logger
	store  store
	engine *flow.Engine
	// sources by name.
	sources      map[string]*inbox.Source
	destinations []*outbox.Destination
	// services that callbacks are handed to, and databases that they are written to, by source.
	services map[string]pausable
	// databases in which callbacks change documents.
	databases  []*database
	metrics    *metrics.Metrics
	dispatcher *queue.Dispatcher
	// records are the gateway's; nil: there is no gateway.
	records once.Store
	// recordsReady asks where the records are kept, if that is not the store; nil: it is.
	recordsReady func(context.Context) error
	// recordsSweep removes what is past its retention where the records are kept; nil: that is done
	// there already.
	recordsSweep once.Sweeper
	gateway      *gateway.Gateway
	closers      []closer // closed at the end
	senders      listener
	admin        listener
}

type closer = io.Closer

// pausable is left alone while it refuses us.
type pausable interface {
	Paused() (queue.PauseStatus, bool)
}

// Open opens the store, compares it with the configuration, and listens. Nothing is served before
// Run. The error says what to do; it is a *config.Error where the file has to change.
func Open(ctx context.Context, o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: o, cfg: o.Config, log: o.Logger, sources: map[string]*inbox.Source{},
		services: map[string]pausable{}}
	for _, src := range s.cfg.Sources {
		s.sources[src.Name] = src
	}
	lacks := append(Unfit(o.Config), Lacks(o.Config, o.Handlers)...)
	if len(lacks) > 0 {
		return nil, &config.Error{Problems: lacks}
	}
	for _, p := range s.cfg.Warnings {
		s.log.Warn("configuration: "+p.Msg, "file", p.File, "line", p.Line, "column", p.Column)
	}
	if err := s.open(ctx); err != nil {
		s.flush(time.Now().Add(flushLimit))
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *Server) open(ctx context.Context) (err error) {
	// Before the store: one that nobody can be served from would be left behind.
	if s.senders.net, err = listen("listen", s.cfg.Listen); err != nil {
		return err
	}
	if s.admin.net, err = listen("admin.listen", s.cfg.Admin.Listen); err != nil {
		return err
	}
	if s.store, err = s.openStore(ctx); err != nil {
		return err
	}
	if s.store.Created() {
		s.warnNew()
	}
	if s.engine, err = flow.New(s.cfg.Machines, s.cfg.Kinds, s.decode, flow.Config{}); err != nil {
		return err
	}
	if err := s.adopt(ctx); err != nil {
		return err
	}
	if err := s.build(); err != nil {
		return err
	}
	if err := s.openDatabases(ctx); err != nil {
		return err
	}
	if s.opts.Records != nil && s.records != nil {
		s.records = s.opts.Records(s.records)
	}
	if err := s.makeGateway(); err != nil {
		return err
	}
	if err := s.serveSenders(); err != nil {
		return err
	}
	return s.serveAdmin()
}

// warnNew tells what a new store has forgotten. Where no file was written nobody can change it.
func (s *Server) warnNew() {
	what := "callbacks"
	switch g := s.cfg.Gateway; {
	case g == nil:
	case len(s.cfg.Sources) > 0 && g.Records == "":
		what = "callbacks and keys"
	case g.Records == "":
		what = "keys"
	case len(s.cfg.Sources) == 0: // they are elsewhere
		return
	}
	refuses := "; `create: false` refuses this"
	if s.opts.NoFile {
		refuses = ""
	}
	s.log.Warn("a NEW, EMPTY store was made: nothing is remembered of earlier "+what+refuses,
		"store", s.cfg.Store.Name())
}

// Created reports whether the store was made by Open.
func (s *Server) Created() bool { return s.store.Created() }

// Run serves until ctx ends, then drains: no new connection, running answers and tries end within
// the configured time, everything else stays in the store. It closes the store.
func (s *Server) Run(ctx context.Context) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var wg sync.WaitGroup
	failed := make(chan error, 2)
	for _, l := range []listener{s.senders, s.admin} {
		wg.Go(func() {
			if err := l.serve(); !errors.Is(err, http.ErrServerClosed) {
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
	for _, d := range s.databases {
		links.Go(func() { d.run(keep) })
	}
	wg.Go(func() { s.dispatcher.Run(work) })
	if s.recordsSweep != nil {
		wg.Go(func() { once.RunSweeper(work, s.recordsSweep, sweepTime, s.log) })
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.log.Info("draining", "limit", s.cfg.Drain)
	until := time.Now().Add(s.cfg.Drain)
	stop()
	s.shutdown()
	s.endGateway()
	s.await(&wg, until)
	drop()
	links.Wait()
	s.flush(until)
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

// await waits for the tries that run, until the end of the draining and a little longer. One that
// does not obey its context is left behind: its row is taken up again at the next start.
func (s *Server) await(tries *sync.WaitGroup, until time.Time) {
	ended := make(chan struct{})
	go func() {
		tries.Wait()
		close(ended)
	}()
	limit := time.NewTimer(time.Until(until) + stopGrace)
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
		if l.net == nil {
			continue
		}
		if err := l.net.Close(); !errors.Is(err, net.ErrClosed) { // not served, or not yet
			errs = append(errs, err)
		}
		if l.http != nil {
			errs = append(errs, l.http.Close())
		}
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

// sweepTime is how often records past their retention are looked for in a store that does not do
// that by itself.
const sweepTime = time.Minute

// pollTime is how often lanes are looked at that nothing rang for.
const pollTime = time.Second
