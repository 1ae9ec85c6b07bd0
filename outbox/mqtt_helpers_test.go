package outbox

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/oncekit/once/internal/testserver"
)

const patience = 20 * time.Second

// startMQTT runs a sender until the test ends and waits for it to end.
func startMQTT(t *testing.T, cfg MQTTConfig) *MQTT {
	t.Helper()
	if cfg.ReconnectBase == 0 {
		cfg.ReconnectBase, cfg.ReconnectCap = 10*time.Millisecond, 50*time.Millisecond
	}
	q, err := NewMQTT(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if q.Open() {
			t.Error("open after Run has ended")
		}
	})
	return q
}

func awaitOpen(t *testing.T, q *MQTT) {
	t.Helper()
	testserver.Until(t, patience, "the broker is connected", q.Open)
}

// sendTo sends a message, bounded in time.
func sendTo(t *testing.T, q *MQTT, m Message) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return q.Send(ctx, m)
}

func toTopic(id, topic, payload string) Message {
	return Message{ID: id, Meta: Meta{Topic: topic}, Payload: []byte(payload)}
}

// subscriber keeps what a broker hands out.
type subscriber struct {
	mu  sync.Mutex
	got []*paho.Publish
}

func subscribe(t *testing.T, addr, topic string) *subscriber {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &subscriber{}
	cli := paho.NewClient(paho.ClientConfig{Conn: conn,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){
			func(p paho.PublishReceived) (bool, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.got = append(s.got, p.Packet)
				return true, nil
			}}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := cli.Connect(ctx, &paho.Connect{CleanStart: true, KeepAlive: 30}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cli.Disconnect(&paho.Disconnect{}) })
	sub := &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{
		{Topic: topic, QoS: 2, RetainAsPublished: true}}}
	if _, err := cli.Subscribe(ctx, sub); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *subscriber) messages() []*paho.Publish {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*paho.Publish(nil), s.got...)
}

func (s *subscriber) await(t *testing.T, n int) []*paho.Publish {
	t.Helper()
	testserver.Until(t, patience, "the messages have arrived", func() bool {
		return len(s.messages()) >= n
	})
	return s.messages()
}

// script is a broker that does as a test wants: it takes every MQTT 5 client with a CONNACK of the
// given properties and hands each later packet to answer.
type script struct {
	mu       sync.Mutex
	connacks packets.Properties
	reason   byte
	answer   func(c net.Conn, p *packets.ControlPacket)
	conns    int
	connects []*packets.Connect
}

func startScript(t *testing.T, s *script) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return "mqtt://" + l.Addr().String()
}

func (s *script) serve(c net.Conn) {
	defer c.Close()
	for {
		p, err := packets.ReadPacket(c)
		if err != nil {
			return
		}
		switch body := p.Content.(type) {
		case *packets.Connect:
			s.mu.Lock()
			s.conns++
			s.connects = append(s.connects, body)
			props := s.connacks
			ack := &packets.Connack{ReasonCode: s.reason, Properties: &props}
			s.mu.Unlock()
			if _, err := ack.WriteTo(c); err != nil {
				return
			}
		case *packets.Pingreq: // the client sends one at once
			reply(c, &packets.Pingresp{})
		case *packets.Disconnect:
			return
		default:
			s.answer(c, p)
		}
	}
}

func (s *script) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

func reply(c net.Conn, p packets.Packet) { _, _ = p.WriteTo(c) }
