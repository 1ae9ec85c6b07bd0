package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/testserver"
)

func versions(t *testing.T, test func(t *testing.T, version string)) {
	t.Helper()
	for _, v := range []string{MQTT5, MQTT311} {
		t.Run(v, func(t *testing.T) { test(t, v) })
	}
}

func TestMQTTDeliversAtEachQoSAndKeepsNothingBehind(t *testing.T) {
	b := testserver.Mosquitto(t)
	versions(t, func(t *testing.T, version string) {
		for qos := range 3 {
			topic := fmt.Sprintf("v%s/q%d", version, qos)
			s := subscribe(t, b.Addr(), topic)
			q := startMQTT(t, MQTTConfig{URL: b.URL(), Version: version, QoS: new(qos)})
			awaitOpen(t, q)
			for i := range 20 {
				if err := sendTo(t, q, toTopic(fmt.Sprint(i), topic, fmt.Sprint(i))); err != nil {
					t.Fatalf("qos %d: %v", qos, err)
				}
			}
			got := s.await(t, 20)
			for i, m := range got {
				if string(m.Payload) != fmt.Sprint(i) || m.Retain || int(m.QoS) != qos {
					t.Errorf("qos %d, message %d: %v", qos, i, m)
				}
			}
			if late := subscribe(t, b.Addr(), topic); len(late.messages()) != 0 {
				t.Error("the broker kept a message")
			}
		}
	})
}

func TestQ02_MessageCarriesItsIDAndFenceAndIsNoDuplicateOfOurs(t *testing.T) {
	b := testserver.Mosquitto(t)
	s := subscribe(t, b.Addr(), "t")
	q := startMQTT(t, MQTTConfig{URL: b.URL()})
	awaitOpen(t, q)
	m := toTopic("0a1b", "t", `{"a":1}`)
	m.Fence, m.TraceParent, m.TraceState = 12, "00-1-2-01", "a=1"
	m.Meta.Header = map[string]string{"site": "north", "Fence": "99", "idempotency-key": "no"}
	m.Meta.Retain = true
	if err := sendTo(t, q, m); err != nil {
		t.Fatal(err)
	}
	got := s.await(t, 1)[0]
	want := "Idempotency-Key=0a1b fence=12 traceparent=00-1-2-01 tracestate=a=1 site=north"
	var have []string
	for _, u := range got.Properties.User {
		have = append(have, u.Key+"="+u.Value)
	}
	if strings.Join(have, " ") != want || got.Properties.ContentType != "application/json" ||
		!got.Retain || got.Duplicate() || got.Properties.MessageExpiry != nil {
		t.Errorf("got %q, %v", have, got)
	}
}

func TestMQTTTellsWhenNobodyHasSubscribed(t *testing.T) {
	b := testserver.Mosquitto(t)
	q := startMQTT(t, MQTTConfig{URL: b.URL()})
	done := startMQTT(t, MQTTConfig{URL: b.URL(), NoSubscriberDone: true})
	awaitOpen(t, q)
	awaitOpen(t, done)
	err := sendTo(t, q, toTopic("a", "nobody", "x"))
	wantClass(t, err, Transient)
	if err == nil || !strings.Contains(err.Error(), "0x10 no matching subscribers") {
		t.Errorf("got %v", err)
	}
	wantClass(t, sendTo(t, done, toTopic("a", "nobody", "x")), 0)
}

func TestMQTTRefusesWhatNoBrokerTakes(t *testing.T) {
	b := testserver.Mosquitto(t)
	long := strings.Repeat("a", 65536)
	versions(t, func(t *testing.T, version string) {
		q := startMQTT(t, MQTTConfig{URL: b.URL(), Version: version, NoSubscriberDone: true})
		awaitOpen(t, q)
		for _, topic := range []string{"", "a/+/b", "a/#", "a\x00b", "a\xff", long, "$SYS/x"} {
			wantClass(t, sendTo(t, q, toTopic("a", topic, "x")), Permanent)
		}
		if version == MQTT5 {
			m := toTopic("a", "t", "x")
			m.Meta.ContentType = long
			wantClass(t, sendTo(t, q, m), Permanent)
			m = toTopic("a", "t", "x")
			m.Meta.Header = map[string]string{"a": "\x00"}
			wantClass(t, sendTo(t, q, m), Permanent)
			m.Meta.Header = nil
			m.TraceParent = "\xff"
			wantClass(t, sendTo(t, q, m), Permanent)
		}
		wantClass(t, sendTo(t, q, toTopic("a", strings.Repeat("a", 65535), "x")), 0)
	})
	if strings.Contains(b.Log(), "protocol error") || strings.Contains(b.Log(), "malformed") {
		t.Errorf("the broker was sent what it refuses:\n%s", b.Log())
	}
	system, err := NewMQTT(MQTTConfig{URL: b.URL(), SystemTopics: true})
	if err != nil {
		t.Fatal(err)
	}
	err = sendTo(t, system, toTopic("a", "$x", ""))
	if !errors.Is(err, ErrNotConnected) {
		t.Errorf("got %v", err)
	}
	wantClass(t, err, Transient)
}

func TestQ04_TooLargeIsRefusedAndTheNextMessageIsDelivered(t *testing.T) {
	told := testserver.Mosquitto(t, testserver.WithLine("max_packet_size 2048"))
	untold := testserver.Mosquitto(t, testserver.WithMessageLimit(2048))
	for name, test := range map[string]struct {
		b    *testserver.Broker
		cfg  MQTTConfig
		text string
	}{
		"told by CONNACK": {told, MQTTConfig{}, "larger than the 2048 bytes allowed"},
		"told by PUBACK":  {untold, MQTTConfig{}, "packet too large"},
		"configured": {untold, MQTTConfig{MaxPacket: 1000},
			"larger than the 1000 bytes allowed"},
		"configured, 3.1.1": {told, MQTTConfig{Version: MQTT311, MaxPacket: 2048},
			"larger than the 2048"},
		"told by nothing but the end, 3.1.1": {told, MQTTConfig{Version: MQTT311, MaxDrops: 3},
			"broker disconnects whenever this message is sent (3 times)"},
	} {
		t.Run(name, func(t *testing.T) {
			s := subscribe(t, test.b.Addr(), "small/"+name)
			test.cfg.URL = test.b.URL()
			q := startMQTT(t, test.cfg)
			var err error
			for range 10 {
				awaitOpen(t, q)
				err = sendTo(t, q, toTopic("large", "large", strings.Repeat("x", 4096)))
				if class, _ := classOf(err); class != Unknown && !errors.Is(err, ErrNotConnected) {
					break
				}
			}
			wantClass(t, err, Permanent)
			if err != nil && !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v", err)
			}
			awaitOpen(t, q)
			if err := sendTo(t, q, toTopic("small", "small/"+name, "0123456789")); err != nil {
				t.Error(err)
			}
			s.await(t, 1)
		})
	}
}

func TestMQTTWithTheWrongLoginStaysClosedAndSaysWhy(t *testing.T) {
	b := testserver.Mosquitto(t, testserver.WithLogin("robot", "right"))
	versions(t, func(t *testing.T, version string) {
		var log bytes.Buffer
		q := startMQTT(t, MQTTConfig{URL: b.URL(), Version: version, User: "robot",
			Password: "wrong-secret", Log: slog.New(slog.NewTextHandler(&log, nil))})
		<-q.Changed()
		err := q.Err()
		if q.Open() || err == nil ||
			!strings.Contains(strings.ToLower(err.Error()), "not authori") {
			t.Errorf("open %v: %v", q.Open(), err)
		}
		wantClass(t, sendTo(t, q, toTopic("a", "t", "x")), Transient)
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%v tells the password", err)
		}
		right := startMQTT(t, MQTTConfig{URL: b.URL(), Version: version, User: "robot",
			Password: "right", NoSubscriberDone: true})
		awaitOpen(t, right)
		wantClass(t, sendTo(t, right, toTopic("a", "t", "x")), 0)
	})
}

func TestMQTTTrustsItsOwnAuthorityAlone(t *testing.T) {
	b := testserver.Mosquitto(t, testserver.WithTLS())
	config, err := TLSFiles{CA: b.CA().File()}.Load()
	if err != nil {
		t.Fatal(err)
	}
	versions(t, func(t *testing.T, version string) {
		q := startMQTT(t, MQTTConfig{
			URL: b.URL(), Version: version, TLS: config, NoSubscriberDone: true})
		awaitOpen(t, q)
		wantClass(t, sendTo(t, q, toTopic("a", "t", "x")), 0)

		other := startMQTT(t, MQTTConfig{URL: b.URL(), Version: version})
		<-other.Changed()
		if err := other.Err(); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("got %v", err)
		}
	})
}

func TestMQTTConfigurationIsChecked(t *testing.T) {
	good := "mqtt://127.0.0.1"
	for name, cfg := range map[string]MQTTConfig{
		"no URL": {}, "scheme": {URL: "http://h"}, "no host": {URL: "mqtt://:1883"},
		"login in the URL": {URL: "mqtt://u:secret@h"}, "path": {URL: "mqtt://h/topic"},
		"qos": {URL: good, QoS: new(3)}, "version": {URL: good, Version: "3.1"},
		"user": {URL: good, User: "a\x00"}, "password alone": {URL: good, Password: "x"},
	} {
		if _, err := NewMQTT(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v tells the password", name, err)
		}
	}
	q, err := NewMQTT(MQTTConfig{URL: "mqtts://[::1]"})
	if err != nil || q.url.Host != "[::1]:8883" || q.qos != 1 {
		t.Errorf("%v, %+v", err, q)
	}
}
