package server

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/oncekit/once/flow"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/internal/metrics"
	"github.com/oncekit/once/oncesqlite"
	"github.com/oncekit/once/outbox"
	"github.com/oncekit/once/queue"
)

// build makes the destinations and the dispatcher.
func (s *Server) build() (err error) {
	s.metrics, err = metrics.New(metrics.Config{Counts: s.store.Counts, Open: s.isOpen,
		Paused: s.isPaused, Databases: s.areOpen, Records: s.recordCounts,
		Version: s.opts.Version, Logger: s.log})
	if err != nil {
		return err
	}
	if err := s.makeDatabases(); err != nil {
		return err
	}
	workers, err := s.handlerWorkers()
	if err != nil {
		return err
	}
	for i := range s.cfg.Destinations {
		d, err := s.destination(&s.cfg.Destinations[i])
		if err != nil {
			return err
		}
		s.metrics.DestinationPaused(d.Name, false) // shown from the start, for alerts
		s.destinations = append(s.destinations, d)
		workers = append(workers, s.effectWorker(d))
	}
	steps := []queue.Stepping{}
	if len(s.cfg.Machines) > 0 {
		steps = append(steps, s.flowStep())
	}
	s.dispatcher, err = queue.NewDispatcher(s.store, workers, steps, queue.Config{
		Poll: pollTime, Drain: s.cfg.Drain, Logger: s.log, Observe: s.observe, Tracer: s.tracer(),
	})
	return err
}

// flowStep works the callbacks of all flows: they share resources, so they share a lane.
func (s *Server) flowStep() queue.Stepping {
	blocks := map[string]bool{}
	for _, f := range s.cfg.FlowSettings {
		blocks[f.Name] = f.Block
	}
	block := func(row queue.Row) bool { return blocks[row.Flow] }
	return queue.Stepping{StepRequest: queue.StepRequest{
		Lane: flow.Lane, Max: 256, Block: block, Overdue: s.engine.Overdue, Settled: s.settled,
		Decide: func(v queue.View, row queue.Row) (queue.Settlement, error) {
			if t := s.opts.Tracing; t != nil {
				row.TraceParent, row.TraceState = t.Step(row)
			}
			set, err := s.engine.Decide(v, row)
			set.Block = block(row)
			return set, err
		},
	}}
}

// decode makes what a flow sees of a stored callback. Its nesting is as deep as any source may let
// in.
func (s *Server) decode(row queue.Row) (flow.Message, error) {
	body, err := inbox.DecodeBody(row.Meta, row.Body, config.MaxDepth)
	if err != nil {
		return flow.Message{}, fmt.Errorf("decode body: %w", err)
	}
	m := flow.Message{Body: body, Request: sync.OnceValues(func() (flow.Request, error) {
		r, err := inbox.DecodeMeta(row.Meta)
		if err != nil {
			return flow.Request{}, err
		}
		query, _ := url.ParseQuery(r.Query) // what can be read of it, as when it came
		return flow.Request{Header: lowerNames(r.Header), Query: query}, nil
	})}
	src := s.sources[row.Source]
	if src != nil && src.Each != nil || inbox.IsElement(row.Meta) {
		m.Item = sync.OnceValues(func() (any, error) { return itemOf(src, &row) })
	}
	return m, nil
}

// itemOf is the element that a stored callback is; src is nil where its source is gone.
func itemOf(src *inbox.Source, row *queue.Row) (any, error) {
	item, found, err := inbox.DecodeItem(row.Meta, config.MaxDepth)
	if err != nil || found || src == nil {
		return item, err
	}
	m, err := inbox.StoredMessage(src, row, config.MaxDepth)
	if err != nil {
		return nil, err
	}
	return m.Item, nil
}

// destination makes the sender of a destination. It connects to nothing.
func (s *Server) destination(c *config.DestinationConfig) (*outbox.Destination, error) {
	sender, err := s.sender(c)
	if err != nil {
		return nil, fmt.Errorf("destination %s: %w", c.Name, err)
	}
	s.describe(c)
	return &outbox.Destination{
		Name: c.Name, Sender: sender, Retry: c.Policy.Retry, HoldUnknown: c.Policy.HoldUnknown,
		Timeout: c.Policy.Timeout, Concurrency: c.Policy.Concurrency, Block: c.Policy.Block,
		Probe: c.Probe, Log: s.log,
	}, nil
}

func (s *Server) sender(c *config.DestinationConfig) (outbox.Sender, error) {
	switch {
	case c.MQTT != nil:
		return s.mqtt(c.Name, c.MQTT)
	case c.HTTP != nil:
		return s.http(c.HTTP, c.Policy)
	}
	return outbox.NewLog(s.opts.Effects, outbox.LogConfig{URL: c.Log.URL}), nil
}

func (s *Server) mqtt(name string, c *config.MQTTConfig) (outbox.Sender, error) {
	o := outbox.MQTTConfig{
		URL: c.URL, Version: c.Version, QoS: &c.QoS, ClientID: c.ClientID, User: c.User,
		Password: c.Password, MaxPacket: c.MaxPacket, MaxInFlight: c.MaxInFlight,
		KeepAlive: c.KeepAlive, NoSubscriberDone: c.NoSubscriberDone,
		Log: s.log.With("destination", name),
	}
	var err error
	if c.TLS != nil {
		if o.TLS, err = c.TLS.Load(); err != nil {
			return nil, err
		}
	}
	return outbox.NewMQTT(o)
}

func (s *Server) http(c *config.HTTPConfig, p config.Policy) (outbox.Sender, error) {
	o := outbox.HTTPConfig{
		URL: c.URL, Header: c.Header, Bearer: c.Bearer, User: c.User, Password: c.Password,
		MaxConns: p.Concurrency, MaxRetryAfter: p.Retry.Cap,
	}
	var err error
	if c.TLS != nil {
		if o.TLS, err = c.TLS.Load(); err != nil {
			return nil, err
		}
	}
	return outbox.NewHTTP(o)
}

// leaseMargin is how much longer than one try a lease is, so that it is renewed at leisure.
const leaseMargin = 20 * time.Second

// The points at which tests let the process end, beside those of the store.
const (
	// PointTaken: an effect's attempt is durable, and nothing was sent.
	PointTaken oncesqlite.Point = "taken"
	// PointSent: an effect was sent and acknowledged, and that is not in the store.
	PointSent oncesqlite.Point = "sent"
)

func (s *Server) probe(p oncesqlite.Point) {
	if s.opts.Probe != nil {
		s.opts.Probe(p)
	}
}

// effectWorker sends the effects of one destination.
func (s *Server) effectWorker(d *outbox.Destination) queue.Worker {
	return queue.Worker{
		Lane: queue.EffectLane(d.Name),
		Attempt: func(ctx context.Context, row queue.Row) queue.Settlement {
			s.probe(PointTaken)
			set := outbox.Attempt(ctx, d, row)
			s.probe(PointSent)
			_, paused := d.Paused()
			s.metrics.DestinationPaused(d.Name, paused)
			if set.State == queue.Done && row.Frees {
				set.Then = s.engine.Acknowledged
			}
			return set
		},
		Limit: d.Limit, Changed: d.Changed(), Concurrency: d.Concurrency,
		Lease: d.Timeout + leaseMargin, HoldLost: d.HoldUnknown, Block: d.Block,
		Backoff: queue.Backoff{Base: d.Retry.Base, Cap: d.Retry.Cap},
	}
}
