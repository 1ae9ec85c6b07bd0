package testserver_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/oncekit/once/internal/testserver"
)

const limit = 10 * time.Second

// mqttClient is connected over conn; it ends with the test.
func mqttClient(
	t *testing.T, conn net.Conn, cp *paho.Connect,
) (*paho.Client, *paho.Connack, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	client := paho.NewClient(paho.ClientConfig{Conn: conn, PacketTimeout: limit})
	cp.KeepAlive, cp.CleanStart = 30, true
	ack, err := client.Connect(ctx, cp)
	t.Cleanup(func() { _ = conn.Close() })
	return client, ack, err
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		t.Fatalf("dial %s: %v", addr, err)
	}
	return conn
}

func publish(t *testing.T, c *paho.Client, payload string) (*paho.PublishResponse, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return c.Publish(ctx, &paho.Publish{QoS: 1, Topic: "plc/roadway", Payload: []byte(payload)})
}

func TestABrokerAcknowledgesAPublish(t *testing.T) {
	b := testserver.Mosquitto(t)
	if want := "mqtt://" + b.Addr(); b.URL() != want {
		t.Errorf("URL is %s, want %s", b.URL(), want)
	}
	c, _, err := mqttClient(t, dial(t, b.Addr()), &paho.Connect{ClientID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	response, err := publish(t, c, "locked")
	if err != nil {
		t.Fatal(err)
	}
	// MQTT 5, 3.4.2.1: 0x10 is "no matching subscribers".
	if response.ReasonCode != 0x10 {
		t.Errorf("reason is %#x, want 0x10", response.ReasonCode)
	}
}

func TestTwoBrokersDoNotMeet(t *testing.T) {
	a, b := testserver.Mosquitto(t), testserver.Mosquitto(t)
	if a.Addr() == b.Addr() {
		t.Fatalf("both listen on %s", a.Addr())
	}
	a.Stop()
	if _, _, err := mqttClient(t, dial(t, b.Addr()), &paho.Connect{ClientID: "a"}); err != nil {
		t.Fatalf("the other broker went down too: %v", err)
	}
}

func TestABrokerComesBackOnItsPort(t *testing.T) {
	for name, end := range map[string]func(*testserver.Broker){
		"stopped": (*testserver.Broker).Stop,
		"killed":  (*testserver.Broker).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			b := testserver.Mosquitto(t)
			addr := b.Addr()
			end(b)
			if conn, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
				_ = conn.Close()
				t.Fatal("it still takes connections")
			}
			end(b) // twice is fine
			b.Start()
			b.Start()
			if b.Addr() != addr {
				t.Fatalf("it came back on %s, want %s", b.Addr(), addr)
			}
			if _, _, err := mqttClient(t, dial(t, addr), &paho.Connect{ClientID: "a"}); err != nil {
				t.Fatal(err)
			}
			if starts := strings.Count(b.Log(), " running"); starts != 2 {
				t.Errorf("the log shows %d starts, want 2:\n%s", starts, b.Log())
			}
		})
	}
}

func TestALoginIsAskedFor(t *testing.T) {
	b := testserver.Mosquitto(t, testserver.WithLogin("plant", "s3cret"))
	for _, c := range []struct {
		user, password string
		reason         byte // MQTT 5, 3.2.2.2: 0 success, 0x87 not authorized
	}{
		{"plant", "s3cret", 0},
		{"plant", "wrong", 0x87},
		{"", "", 0x87},
	} {
		_, ack, err := mqttClient(t, dial(t, b.Addr()), &paho.Connect{
			ClientID:     "a",
			Username:     c.user,
			UsernameFlag: c.user != "",
			Password:     []byte(c.password),
			PasswordFlag: c.password != "",
		})
		if ack == nil {
			t.Fatalf("%q: no CONNACK: %v", c.user, err)
		}
		if ack.ReasonCode != c.reason {
			t.Errorf("%q: reason %#x, want %#x", c.user, ack.ReasonCode, c.reason)
		}
	}
}

func TestTLSIsVerifiedAgainstTheAuthorityOfTheTest(t *testing.T) {
	b := testserver.Mosquitto(t, testserver.WithTLS())
	if want := "mqtts://" + b.Addr(); b.URL() != want {
		t.Errorf("URL is %s, want %s", b.URL(), want)
	}
	conn, err := tls.Dial("tcp", b.Addr(), b.CA().Config())
	if err != nil {
		t.Fatal(err)
	}
	// Over TLS a packet is several writes, and the client's pings would fall between them.
	c, _, err := mqttClient(t, packets.NewThreadSafeConn(conn), &paho.Connect{ClientID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := publish(t, c, "locked"); err != nil {
		t.Fatal(err)
	}
	stranger := testserver.NewCA(t).Config()
	_, err = tls.Dial("tcp", b.Addr(), stranger)
	if unknown := (x509.UnknownAuthorityError{}); !errors.As(err, &unknown) {
		t.Errorf("another authority: %v, want an unknown authority", err)
	}
}

func TestAMessageLimitHolds(t *testing.T) {
	b := testserver.Mosquitto(t, testserver.WithMessageLimit(100))
	c, _, err := mqttClient(t, dial(t, b.Addr()), &paho.Connect{ClientID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := publish(t, c, strings.Repeat("x", 100)); err != nil {
		t.Fatalf("100 bytes: %v", err)
	}
	response, err := publish(t, c, strings.Repeat("x", 101))
	if err == nil && response.ReasonCode < 0x80 {
		t.Error("101 bytes were taken")
	}
}

func TestAPacketLimitIsToldToTheClient(t *testing.T) {
	b := testserver.Mosquitto(t, testserver.WithLine("max_packet_size 1000"))
	_, ack, err := mqttClient(t, dial(t, b.Addr()), &paho.Connect{ClientID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if size := ack.Properties.MaximumPacketSize; size == nil || *size != 1000 {
		t.Errorf("Maximum Packet Size is %v, want 1000", size)
	}
}

func TestPersistenceKeepsRetainedMessages(t *testing.T) {
	for name, c := range map[string]struct {
		options []testserver.BrokerOption
		kept    bool
	}{
		"on":  {[]testserver.BrokerOption{testserver.WithPersistence()}, true},
		"off": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := testserver.Mosquitto(t, c.options...)
			client, _, err := mqttClient(t, dial(t, b.Addr()), &paho.Connect{ClientID: "a"})
			if err != nil {
				t.Fatal(err)
			}
			message := &paho.Publish{QoS: 1, Retain: true, Topic: "x", Payload: []byte("kept")}
			if _, err := client.Publish(t.Context(), message); err != nil {
				t.Fatal(err)
			}
			b.Stop()
			b.Start()
			if got := retained(t, b, "x"); got != c.kept {
				t.Errorf("the message is there: %v, want %v", got, c.kept)
			}
		})
	}
}

// retained tells whether a broker hands out a retained message on a topic: it does so before it
// answers a message published after the subscription.
func retained(t *testing.T, b *testserver.Broker, topic string) bool {
	t.Helper()
	client, _, err := mqttClient(t, dial(t, b.Addr()), &paho.Connect{ClientID: "reader"})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 2)
	client.AddOnPublishReceived(func(r paho.PublishReceived) (bool, error) {
		got <- string(r.Packet.Payload)
		return true, nil
	})
	_, err = client.Subscribe(t.Context(), &paho.Subscribe{
		Subscriptions: []paho.SubscribeOptions{{Topic: topic, QoS: 0}},
	})
	if err != nil {
		t.Fatal(err)
	}
	message := &paho.Publish{Topic: topic, Payload: []byte("new")}
	if _, err := client.Publish(t.Context(), message); err != nil {
		t.Fatal(err)
	}
	select {
	case first := <-got:
		return first == "kept"
	case <-time.After(limit):
		t.Fatal("nothing received")
		return false
	}
}
