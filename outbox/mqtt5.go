package outbox

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/oncekit/once/queue"
)

// User properties that we set; a message's own header can't.
const (
	propertyKey   = "Idempotency-Key"
	propertyFence = "fence"
	propertyTrace = "traceparent"
	propertyState = "tracestate"
)

// What we take from a broker: we subscribe to nothing, so it has no reason to send us messages.
const (
	ourReceiveMaximum = 8
	ourMaxPacket      = 64 << 10
)

// publishLimit bounds a publish whose context has no deadline.
const publishLimit = 10 * time.Minute

// goodbye bounds the writing of a DISCONNECT.
const goodbye = time.Second

// client5 is a connection that speaks MQTT 5.
type client5 struct {
	cli  *paho.Client
	link *link
	cfg  *MQTTConfig
}

// connect5 logs in over the link's connection. The library's client lives as long as the
// connection: its session, and what it has in flight, go with it.
func (q *MQTT) connect5(ctx context.Context, l *link) error {
	conn := l.conn
	if q.url.Scheme == "mqtts" {
		conn = packets.NewThreadSafeConn(conn) // TLS takes one writer at a time
	}
	cli := paho.NewClient(paho.ClientConfig{
		ClientID:           q.cfg.ClientID,
		Conn:               conn,
		Session:            newSession5(l),
		PacketTimeout:      publishLimit,
		OnServerDisconnect: func(*paho.Disconnect) {}, // the session was told
	})
	connect := &paho.Connect{
		ClientID:   q.cfg.ClientID,
		CleanStart: true,
		KeepAlive:  uint16(q.cfg.KeepAlive / time.Second),
		Properties: &paho.ConnectProperties{
			ReceiveMaximum:    new(uint16(ourReceiveMaximum)),
			MaximumPacketSize: new(uint32(ourMaxPacket)),
		},
	}
	if q.cfg.User != "" {
		connect.UsernameFlag, connect.Username = true, q.cfg.User
	}
	if q.cfg.Password != "" {
		connect.PasswordFlag, connect.Password = true, []byte(q.cfg.Password)
	}
	ack, err := cli.Connect(ctx, connect)
	switch {
	case err != nil && ack != nil && ack.ReasonCode >= 0x80:
		text := ""
		if ack.Properties != nil {
			text = ack.Properties.ReasonString
		}
		return fmt.Errorf("%s", reasonText("broker refuses the login", ack.ReasonCode, text))
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("log in: %w", ctx.Err())
	case err != nil:
		return fmt.Errorf("log in: %w", err)
	}
	l.limits = limits5(ack.Properties)
	l.client = &client5{cli: cli, link: l, cfg: &q.cfg}
	return nil
}

// limits5 reads what the broker bears (MQTT 5.0, section 3.2.2.3).
func limits5(p *paho.ConnackProperties) limits {
	l := limits{packet: maxPacketBytes, inFlight: maxTextBytes, qos: 2, retain: true}
	if p == nil {
		return l
	}
	if p.MaximumPacketSize != nil {
		l.packet = int(min(*p.MaximumPacketSize, maxPacketBytes))
	}
	if p.ReceiveMaximum != nil && *p.ReceiveMaximum > 0 {
		l.inFlight = int(*p.ReceiveMaximum)
	}
	if p.MaximumQoS != nil {
		l.qos = *p.MaximumQoS
	}
	l.retain = p.RetainAvailable
	return l
}

// packet5 makes the PUBLISH packet of a message.
func packet5(m Message, qos byte) *paho.Publish {
	user := paho.UserProperties{{Key: propertyKey, Value: m.ID}}
	if m.Fence != 0 {
		user.Add(propertyFence, strconv.FormatInt(m.Fence, 10))
	}
	if m.TraceParent != "" {
		user.Add(propertyTrace, m.TraceParent)
		if m.TraceState != "" {
			user.Add(propertyState, m.TraceState)
		}
	}
	names := make([]string, 0, len(m.Meta.Header))
	for name := range m.Meta.Header {
		own := strings.EqualFold(name, propertyKey) || strings.EqualFold(name, propertyFence) ||
			strings.EqualFold(name, propertyTrace) || strings.EqualFold(name, propertyState)
		if !own {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		user.Add(name, m.Meta.Header[name])
	}
	return &paho.Publish{
		QoS: qos, Retain: m.Meta.Retain, Topic: m.Meta.Topic, Payload: m.Payload,
		Properties: &paho.PublishProperties{ContentType: m.contentType(), User: user},
	}
}

// size5 is the packet's size on the wire, in bytes.
func size5(p *paho.Publish) int {
	rest := 0
	for _, b := range p.Packet().Buffers() {
		rest += len(b)
	}
	return withHeader(rest)
}

// publish implements client.
func (c *client5) publish(ctx context.Context, t *track, p packet) error {
	m := p.(*paho.Publish)
	if m.QoS == 0 {
		t.written.Store(true) // there is no telling how much a failed write has written
	}
	resp, err := c.cli.Publish(context.WithValue(ctx, trackKey{}, t), m)
	if resp == nil || m.QoS == 0 {
		return err
	}
	// A refusal by PUBREC comes without an error, so the code alone decides.
	code := resp.ReasonCode
	queue.Answered(ctx, int(code))
	if code == 0 && t.unheard.Load() {
		code = noSubscribers
	}
	text := ""
	if resp.Properties != nil {
		text = resp.Properties.ReasonString
	}
	if f := answer5(code, text, c.cfg.NoSubscriberDone); f != nil {
		return f
	}
	return nil
}

// stop implements client.
func (c *client5) stop() {
	_ = c.link.conn.SetWriteDeadline(time.Now().Add(goodbye))
	_ = c.cli.Disconnect(&paho.Disconnect{})
}
