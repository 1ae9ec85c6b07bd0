package outbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// lasting is how long a connection has to live for the next one to be made without a wait that
// grows.
const lasting = 10 * time.Second

// Run keeps the connection until ctx ends, and returns nil then, with nothing left running. It
// must not be called while it runs.
func (q *MQTT) Run(ctx context.Context) error {
	if !q.running.CompareAndSwap(false, true) {
		return errors.New("run mqtt sender: it runs already")
	}
	defer q.running.Store(false)
	wait := Retry{Base: q.cfg.ReconnectBase, Cap: q.cfg.ReconnectCap}
	short := 0 // connections in a row that failed or did not last
	for ctx.Err() == nil {
		lived := q.connection(ctx)
		if short++; lived >= lasting {
			short = 1
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait.Backoff(short, rand.Int64N)):
		}
	}
	q.closed(errStopped)
	return nil
}

// connection makes one connection, stays with it to its end, and returns how long it lived.
func (q *MQTT) connection(ctx context.Context) time.Duration {
	l, err := q.connect(ctx)
	if err != nil {
		if ctx.Err() == nil {
			q.closed(err)
		}
		return 0
	}
	start := time.Now()
	q.opened(l)
	select {
	case <-l.ctx.Done():
	case <-ctx.Done():
		l.end(errStopped, false) // the client closes it, with a goodbye
	}
	q.closed(context.Cause(l.ctx))
	l.client.stop()
	return time.Since(start)
}

// connect dials, logs in and returns the link.
func (q *MQTT) connect(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, q.cfg.ConnectTimeout)
	defer cancel()
	conn, err := q.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to broker: %w", err)
	}
	l := newLink(conn, q.suspects)
	// The libraries look at the context only while they wait for an answer.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if q.cfg.Version == MQTT5 {
		err = q.connect5(ctx, l)
	} else {
		err = q.connect3(ctx, l)
	}
	if err != nil {
		_ = conn.Close()
		l.cancel(err)
		return nil, fmt.Errorf("connect to broker: %w", err)
	}
	l.limits.packet = min(l.limits.packet, q.cfg.MaxPacket)
	l.slots = make(chan struct{}, min(l.limits.inFlight, q.cfg.MaxInFlight))
	return l, nil
}

func (q *MQTT) dial(ctx context.Context) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", q.url.Host)
	if err != nil || q.url.Scheme != "mqtts" {
		return conn, err
	}
	return handshake(ctx, conn, q.cfg.TLS, q.url.Host)
}

// packet makes the message's packet and checks it against the link's limits.
func (q *MQTT) packet(l *link, m Message) (packet, *Failure) {
	if q.cfg.Version == MQTT5 {
		p := packet5(m, q.qos)
		return p, l.limits.fits(size5(p), q.qos, m.Meta.Retain)
	}
	p := &packet3{topic: m.Meta.Topic, payload: m.Payload, retain: m.Meta.Retain, qos: q.qos}
	return p, l.limits.fits(p.size(), q.qos, m.Meta.Retain)
}

func (q *MQTT) opened(l *link) {
	q.mu.Lock()
	q.link, q.err = l, nil
	q.mu.Unlock()
	q.cfg.Log.Info("connected to broker", "broker", q.url.Host, "version", q.cfg.Version)
	q.signal()
}

// closed closes the gate. The same reason in a row is logged once.
func (q *MQTT) closed(reason error) {
	q.mu.Lock()
	news := q.link != nil || q.err == nil || q.err.Error() != reason.Error()
	q.link, q.err = nil, reason
	q.mu.Unlock()
	if !news {
		return
	}
	if errors.Is(reason, errStopped) {
		q.cfg.Log.Info("disconnected from broker", "broker", q.url.Host)
	} else {
		q.cfg.Log.Warn("no connection to broker", "broker", q.url.Host, "error", reason)
	}
	q.signal()
}

func (q *MQTT) signal() {
	select {
	case q.changed <- struct{}{}:
	default: // a signal is waiting already; it stands for this one too
	}
}
