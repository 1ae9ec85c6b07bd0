package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/oncekit/once/internal/testserver"
)

// plant is a broker with a listener, and a warehouse system: what robots.yaml speaks to.
type plant struct {
	broker *testserver.Broker
	heard  *subscriber
	wms    *testserver.HTTPSink
}

func newPlant(t *testing.T) *plant {
	t.Helper()
	p := &plant{broker: testserver.Mosquitto(t), wms: testserver.NewHTTPSink(t)}
	p.heard = subscribe(t, p.broker.Addr())
	return p
}

// config is robots.yaml with the addresses of the plant. The broker's may be that of a proxy.
func (p *plant) config(t *testing.T, broker string, edits ...string) string {
	t.Helper()
	return example(t, "robots.yaml", append([]string{
		"mqtt://127.0.0.1:1883", "mqtt://" + broker,
		"http://127.0.0.1:9000", p.wms.URL(),
	}, edits...)...)
}

// quick are edits that make robots.yaml try again soon.
func quick() []string {
	return []string{
		"qos: 1}, retry: {base: 500ms, cap: 1m}", "qos: 1}, retry: {base: 10ms, cap: 100ms}",
		"timeout: 5s}, retry: {base: 500ms, cap: 5m, attempts: 20}",
		"timeout: 5s}, retry: {base: 10ms, cap: 100ms}",
	}
}

// event is a callback of a robot, with further members of its body.
func event(req, task, method, members string) string {
	return fmt.Sprintf(`{"reqCode":%q,"taskCode":%q,"callbackMethod":%q%s}`, req, task, method,
		members)
}

func roadway(name string) string { return fmt.Sprintf(`,"data":{"roadway":%q}`, name) }

// heardMessage is an MQTT message.
type heardMessage struct {
	topic   string
	key     string // its user property Idempotency-Key
	fence   string // its user property fence
	trace   string // its user property traceparent
	retain  bool
	payload map[string]any
}

// subscriber keeps what a broker hands out.
type subscriber struct {
	t   *testing.T
	mu  sync.Mutex
	got []heardMessage
}

// subscribe listens to every topic of a broker until the test ends.
func subscribe(t *testing.T, addr string) *subscriber {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &subscriber{t: t}
	client := paho.NewClient(paho.ClientConfig{Conn: conn,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){s.take}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := client.Connect(ctx, &paho.Connect{CleanStart: true, KeepAlive: 60}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(&paho.Disconnect{}) }) // the broker may be gone
	if _, err := client.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{
		{Topic: "#", QoS: 2, RetainAsPublished: true}}}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *subscriber) take(p paho.PublishReceived) (bool, error) {
	m := heardMessage{topic: p.Packet.Topic, retain: p.Packet.Retain,
		key:   p.Packet.Properties.User.Get("Idempotency-Key"),
		fence: p.Packet.Properties.User.Get("fence"),
		trace: p.Packet.Properties.User.Get("traceparent")}
	err := json.Unmarshal(p.Packet.Payload, &m.payload)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.t.Errorf("a message on %s is no JSON: %v", m.topic, err)
	}
	s.got = append(s.got, m)
	return true, nil
}

func (s *subscriber) messages() []heardMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]heardMessage(nil), s.got...)
}

// awaitIDs waits for messages with n different ids and returns all messages.
func (s *subscriber) awaitIDs(n int) []heardMessage {
	s.t.Helper()
	testserver.Until(s.t, patience, fmt.Sprintf("messages with %d ids were heard", n), func() bool {
		ids := map[string]bool{}
		for _, m := range s.messages() {
			ids[m.key] = true
		}
		return len(ids) >= n
	})
	return s.messages()
}

// await waits for n messages and returns all.
func (s *subscriber) await(n int) []heardMessage {
	s.t.Helper()
	testserver.Until(s.t, patience, fmt.Sprintf("%d messages were heard", n), func() bool {
		return len(s.messages()) >= n
	})
	return s.messages()
}
