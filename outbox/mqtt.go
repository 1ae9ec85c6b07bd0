package outbox

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Versions of MQTT.
const (
	MQTT5   = "5"
	MQTT311 = "3.1.1"
)

// MQTTConfig configures an MQTT sender. Only URL is required.
type MQTTConfig struct {
	// URL of the broker: mqtt://host:1883 or mqtts://host:8883, without login.
	URL string
	// Version of MQTT, MQTT5 or MQTT311. Default MQTT5.
	Version string
	// ClientID must be unique at the broker. Default "once-" and 16 random hexadecimal digits.
	ClientID string
	// User and Password are the login. Default: none.
	User, Password string
	// TLS for mqtts. Default: the system's authorities.
	TLS *tls.Config
	// QoS is 0, 1 or 2. With 0 a message counts as done when it was written. Default 1.
	QoS *int
	// MaxPacket is the largest packet to send, in bytes; the broker's own limit counts as well,
	// where it tells it. Default: the protocol's, 268,435,460.
	MaxPacket int
	// MaxInFlight is how many messages may wait for their acknowledgement; the broker's Receive
	// Maximum counts as well. Default 64.
	MaxInFlight int
	// MaxDrops is how many times in a row the broker may end the connection upon the same message
	// before the message is given up. Default 5.
	MaxDrops int
	// NoSubscriberDone makes "no matching subscribers" (0x10) count as delivered. Default false.
	NoSubscriberDone bool
	// SystemTopics allows topics that begin with $. Default false.
	SystemTopics bool
	// KeepAlive is the interval of pings, to the second. Default 30s.
	KeepAlive time.Duration
	// ConnectTimeout bounds connecting, TLS and login included. Default 10s.
	ConnectTimeout time.Duration
	// ReconnectBase and ReconnectCap bound the wait between connections, which doubles while none
	// lasts. Default 250ms and 30s.
	ReconnectBase, ReconnectCap time.Duration
	// Log of connections made and lost. Default: discarded.
	Log *slog.Logger
}

// MQTT is a Sender that publishes messages to a broker over one connection, which Run keeps. The
// broker's session ends with the connection: the outbox is the memory, and nothing is sent again
// behind its back. MQTT 5 carries the message's id as user property Idempotency-Key; MQTT 3.1.1
// has no place for it but the payload. Safe for concurrent use.
type MQTT struct {
	cfg      MQTTConfig
	url      *url.URL
	qos      byte
	suspects *suspects
	changed  chan struct{}
	running  atomic.Bool

	mu   sync.Mutex
	link *link // nil: not connected
	err  error // why there is no link
}

// NewMQTT checks the configuration; it connects to nothing.
func NewMQTT(cfg MQTTConfig) (*MQTT, error) {
	u, err := brokerURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	qos := 1
	if cfg.QoS != nil {
		qos = *cfg.QoS
	}
	if qos < 0 || qos > 2 {
		return nil, fmt.Errorf("configure qos: %d is none of 0, 1, 2", qos)
	}
	if cfg.Version == "" {
		cfg.Version = MQTT5
	}
	if cfg.Version != MQTT5 && cfg.Version != MQTT311 {
		return nil, fmt.Errorf("configure version: %q is neither %s nor %s",
			cfg.Version, MQTT5, MQTT311)
	}
	if cfg.ClientID == "" {
		cfg.ClientID = fmt.Sprintf("once-%016x", rand.Uint64())
	}
	if err := checkLogin(cfg); err != nil {
		return nil, err
	}
	cfg.setDefaults()
	return &MQTT{
		cfg: cfg, url: u, qos: byte(qos),
		suspects: newSuspects(maxSuspects),
		changed:  make(chan struct{}, 1),
		err:      errors.New("not connected yet"),
	}, nil
}

// checkLogin refuses texts that no CONNECT packet can carry.
func checkLogin(cfg MQTTConfig) error {
	for name, s := range map[string]string{
		"client id": cfg.ClientID, "user": cfg.User, "password": cfg.Password,
	} {
		if err := checkText(s); err != nil {
			return fmt.Errorf("configure %s: %w", name, err)
		}
	}
	if cfg.Password != "" && cfg.User == "" {
		return errors.New("configure login: a password needs a user")
	}
	return nil
}

func (c *MQTTConfig) setDefaults() {
	c.MaxPacket = orDefault(c.MaxPacket, maxPacketBytes)
	c.MaxInFlight = min(orDefault(c.MaxInFlight, 64), maxInFlight)
	c.MaxDrops = orDefault(c.MaxDrops, 5)
	c.KeepAlive = min(max(orDefault(c.KeepAlive, 30*time.Second), time.Second), 65535*time.Second)
	c.ConnectTimeout = orDefault(c.ConnectTimeout, 10*time.Second)
	c.ReconnectBase = orDefault(c.ReconnectBase, 250*time.Millisecond)
	c.ReconnectCap = orDefault(c.ReconnectCap, 30*time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

func orDefault[T int | time.Duration](v, standard T) T {
	if v > 0 {
		return v
	}
	return standard
}

// brokerURL reads a broker's URL and adds the port where there is none.
func brokerURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("parse url: %w", err)
	}
	port := 0
	switch u.Scheme {
	case "mqtt", "tcp":
		port = 1883
	case "mqtts", "tls", "ssl":
		u.Scheme, port = "mqtts", 8883
	default:
		return nil, fmt.Errorf("parse url: scheme %q is neither mqtt nor mqtts", u.Scheme)
	}
	switch {
	case u.Hostname() == "":
		return nil, errors.New("parse url: the host is missing")
	case u.User != nil:
		return nil, errors.New("parse url: the login doesn't belong into the URL")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("parse url: a broker has no path or query")
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), strconv.Itoa(port))
	}
	return u, nil
}

// Open reports whether the broker is connected.
func (q *MQTT) Open() bool {
	l, _ := q.current()
	return l != nil
}

// Changed is signalled after a connection was made or lost.
func (q *MQTT) Changed() <-chan struct{} { return q.changed }

// Err says why the broker is not connected; nil: it is.
func (q *MQTT) Err() error {
	_, err := q.current()
	return err
}

// current returns the link, or why there is none.
func (q *MQTT) current() (*link, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.link != nil && q.link.ctx.Err() != nil { // Run has not noticed yet
		return nil, context.Cause(q.link.ctx)
	}
	return q.link, q.err
}

// Send publishes a message and waits for the broker's acknowledgement. Its failures are *Failure.
// A connection that goes before the acknowledgement gives Unknown at once. When ctx ends first,
// that is Unknown too, and the connection is made anew: what is unanswered would count against
// the broker's Receive Maximum for ever.
func (q *MQTT) Send(ctx context.Context, m Message) error {
	m.Meta.ContentType = m.contentType() // once: it looks at the whole payload
	if f := q.check(m); f != nil {
		return f
	}
	l, err := q.current()
	if l == nil {
		return failf(Transient, "publish: %w: %w", ErrNotConnected, err)
	}
	p, f := q.packet(l, m)
	if f != nil {
		return f
	}
	drops := q.suspects.count(m.ID)
	release, err := l.acquire(ctx, drops > 0)
	if err != nil {
		if l.ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", ErrNotConnected, context.Cause(l.ctx))
		}
		return failf(Transient, "publish: wait for a free place: %w", err)
	}
	defer release()
	if f := q.publish(ctx, l, m.ID, p); f != nil {
		return f
	}
	q.suspects.clear(m.ID)
	return nil
}

// publish sends the packet over the link and settles what came of it.
func (q *MQTT) publish(ctx context.Context, l *link, id string, p packet) *Failure {
	t := l.begin(id)
	defer l.finish(t)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The link's end is the publish's end; the publish's untimely end is the link's: the client
	// may be stuck in a write, and the message's place at the broker stays taken.
	defer context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })()
	defer context.AfterFunc(ctx, func() { l.fail(errPublishEnded, false) })()
	err := l.client.publish(ctx, t, p)
	var f *Failure
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f):
		if f.Class == Permanent {
			q.suspects.clear(id)
		}
		return f
	case l.ctx.Err() != nil:
		err = context.Cause(l.ctx)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	if !t.written.Load() {
		return failf(Transient, "publish: %w: %w", ErrNotConnected, err)
	}
	if n := q.suspects.count(id); n >= q.cfg.MaxDrops {
		q.suspects.clear(id)
		return failf(Permanent,
			"publish: broker disconnects whenever this message is sent (%d times): %w", n, err)
	}
	return failf(Unknown, "publish: no acknowledgement: %w", err)
}
