package outbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// writeLimit bounds the writing of one MQTT 3.1.1 packet.
const writeLimit = 5 * time.Second

// client3 is a connection that speaks MQTT 3.1.1.
type client3 struct {
	cli  mqtt.Client
	link *link
	wg   sync.WaitGroup // hand-overs to the library
}

// packet3 is a message of MQTT 3.1.1.
type packet3 struct {
	topic   string
	payload []byte
	retain  bool
	qos     byte
}

// size is the packet's size on the wire, in bytes (MQTT 3.1.1, section 3.3).
func (p *packet3) size() int {
	rest := 2 + len(p.topic) + len(p.payload)
	if p.qos > 0 {
		rest += 2
	}
	return withHeader(rest)
}

// connect3 logs in over the link's connection. The library's client lives as long as the
// connection and doesn't reconnect by itself: it would send again what we have long settled, and
// let its tokens wait meanwhile.
func (q *MQTT) connect3(ctx context.Context, l *link) error {
	scheme := "tcp"
	if q.url.Scheme == "mqtts" {
		scheme = "ssl"
	}
	opts := mqtt.NewClientOptions()
	opts.Servers = []*url.URL{{Scheme: scheme, Host: q.url.Host}}
	opts.SetProtocolVersion(4).SetClientID(q.cfg.ClientID).SetCleanSession(true)
	opts.SetAutoReconnect(false).SetConnectRetry(false).SetOrderMatters(false)
	opts.SetUsername(q.cfg.User).SetPassword(q.cfg.Password)
	opts.SetKeepAlive(q.cfg.KeepAlive).SetPingTimeout(q.cfg.ConnectTimeout)
	opts.SetConnectTimeout(q.cfg.ConnectTimeout).SetWriteTimeout(writeLimit)
	opts.SetCustomOpenConnectionFn(func(*url.URL, mqtt.ClientOptions) (net.Conn, error) {
		return l.conn, nil
	})
	opts.SetConnectionLostHandler(func(_ mqtt.Client, err error) {
		l.lost(fmt.Errorf("%w: %w", errLost, err))
	})
	cli := mqtt.NewClient(opts)
	token := cli.Connect()
	<-token.Done() // bounded: the connection is closed when ctx ends
	if err := token.Error(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("log in: %w", err)
	}
	l.limits = limits{packet: maxPacketBytes, inFlight: maxTextBytes, qos: 2, retain: true}
	l.client = &client3{cli: cli, link: l}
	return nil
}

// publish implements client. A token that completes without an error means an acknowledgement only
// as long as its connection lives; the library is not believed beyond that.
func (c *client3) publish(ctx context.Context, t *track, p packet) error {
	m := p.(*packet3)
	if !c.cli.IsConnectionOpen() {
		return mqtt.ErrNotConnected
	}
	t.written.Store(true)
	handed := make(chan mqtt.Token, 1)
	c.wg.Go(func() { // it blocks until the library has taken the packet, at most writeLimit
		handed <- c.cli.Publish(m.topic, m.qos, m.retain, m.payload)
	})
	var token mqtt.Token
	select {
	case token = <-handed:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-token.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	switch err := token.Error(); {
	case errors.Is(err, mqtt.ErrNotConnected):
		t.written.Store(false)
		return err
	case err != nil:
		// The library tells the tokens of a lost connection before it tells the link.
		c.link.lost(fmt.Errorf("%w: %w", errLost, err))
		return err
	case c.link.ctx.Err() != nil:
		return errors.New("the connection went with the acknowledgement")
	}
	return nil
}

// stop implements client.
func (c *client3) stop() {
	c.cli.Disconnect(uint(goodbye / time.Millisecond))
	_ = c.link.conn.Close()
	c.wg.Wait()
}
