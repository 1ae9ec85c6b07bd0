package testserver_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/oncekit/once/internal/testserver"
)

// The two cuts that the proxy is for: the broker has the message and its sender can't know, and
// the broker has half a message.
func TestACutInPublishing(t *testing.T) {
	b := testserver.Mosquitto(t)
	got := received(t, b)

	t.Run("between the message and its acknowledgement", func(t *testing.T) {
		p := testserver.NewProxy(t, b.Addr())
		lost := publishing(t, p, p.Hold, "locked")
		if payload := await(t, got); payload != "locked" {
			t.Errorf("the broker handed out %d bytes, want locked", len(payload))
		}
		p.Cut()
		if err := await(t, lost); !errors.Is(err, context.Canceled) {
			t.Errorf("the publish ended with %v, want a lost connection", err)
		}
	})
	t.Run("within the message", func(t *testing.T) {
		p := testserver.NewProxy(t, b.Addr())
		cut := func() { p.CutAfter(5_000) }
		lost := publishing(t, p, cut, strings.Repeat("x", 10_000))
		if err := await(t, lost); err == nil {
			t.Error("the publish was acknowledged")
		}
		p.Restore()
		publishing(t, p, func() {}, "next")
		if payload := await(t, got); payload != "next" {
			t.Errorf("the broker handed out %d bytes, want next", len(payload))
		}
	})
}

// received gives the payloads that a broker hands out.
func received(t *testing.T, b *testserver.Broker) <-chan string {
	t.Helper()
	got := make(chan string, 10)
	reader, _, err := mqttClient(t, dial(t, b.Addr()), &paho.Connect{ClientID: "reader"})
	if err != nil {
		t.Fatal(err)
	}
	reader.AddOnPublishReceived(func(r paho.PublishReceived) (bool, error) {
		got <- string(r.Packet.Payload)
		return true, nil
	})
	all := []paho.SubscribeOptions{{Topic: "#", QoS: 1}}
	if _, err := reader.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: all}); err != nil {
		t.Fatal(err)
	}
	return got
}

// publishing connects through a proxy, disturbs it, publishes, and gives the publish's error.
func publishing(t *testing.T, p *testserver.Proxy, disturb func(), payload string) <-chan error {
	t.Helper()
	writer, _, err := mqttClient(t, dial(t, p.Addr()), &paho.Connect{ClientID: "writer"})
	if err != nil {
		t.Fatal(err)
	}
	disturb()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-writer.Done() // a cut connection does not end a running Publish by itself
		cancel()
	}()
	lost := make(chan error, 1)
	go func() {
		message := &paho.Publish{QoS: 1, Topic: "plc/roadway", Payload: []byte(payload)}
		_, err := writer.Publish(ctx, message)
		lost <- err
	}()
	return lost
}

func await[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(limit):
		t.Fatalf("nothing came within %v", limit)
		panic("unreachable")
	}
}
