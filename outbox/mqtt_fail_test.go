package outbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"go.uber.org/goleak"

	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/queue"
)

func TestQ01_MessageIsDoneOnlyWhenItsAcknowledgementHasCome(t *testing.T) {
	b := testserver.Mosquitto(t)
	versions(t, func(t *testing.T, version string) {
		for qos := 1; qos <= 2; qos++ {
			topic := fmt.Sprintf("%s/%d", version, qos)
			s := subscribe(t, b.Addr(), topic)
			p := testserver.NewProxy(t, b.Addr())
			q := startMQTT(t, MQTTConfig{
				URL: "mqtt://" + p.Addr(), Version: version, QoS: new(qos)})
			d := &Destination{Sender: q, HoldUnknown: true}
			awaitOpen(t, q)

			p.Hold() // the broker gets it, its PUBACK or PUBREC doesn't come through
			row := testRow(1)
			row.Meta, row.Body = []byte(`{"topic":"`+topic+`"}`), []byte("once")
			before := p.Forwarded()
			result := make(chan queue.Settlement)
			go func() { result <- Attempt(t.Context(), d, row) }()
			if qos == 1 {
				s.await(t, 1)
			} else {
				testserver.Until(t, patience, "it was sent", func() bool {
					return p.Forwarded() > before
				})
			}
			p.Refuse()
			start := time.Now()
			got := <-result
			// Well before the try's own deadline of 10 s: the end of the connection ends it.
			if took := time.Since(start); got.State != queue.Held || took > 8*time.Second {
				t.Fatalf("qos %d: %+v after %v", qos, got, took)
			}
			if got := Attempt(t.Context(), d, row); got.State != queue.Pending || !got.NotTried {
				t.Errorf("qos %d, while it is away: %+v", qos, got)
			}

			p.Restore()
			awaitOpen(t, q)
			if err := sendTo(t, q, toTopic(row.ID(), topic, "once")); err != nil {
				t.Fatal(err)
			}
			if qos == 2 || version == MQTT311 {
				continue // an unreleased message is no message; 3.1.1 carries no id
			}
			for i, m := range s.await(t, 2) {
				if m.Duplicate() || m.Properties.User.Get("Idempotency-Key") != row.ID() {
					t.Errorf("message %d: %v", i, m)
				}
			}
		}
	})
}

func TestMQTTBrokerRestartedInMidPublish(t *testing.T) {
	b := testserver.Mosquitto(t)
	versions(t, func(t *testing.T, version string) {
		q := startMQTT(t, MQTTConfig{URL: b.URL(), Version: version, NoSubscriberDone: true})
		awaitOpen(t, q)
		var ids, done atomic.Int64
		var wg sync.WaitGroup
		var stop atomic.Bool
		for range 8 {
			wg.Go(func() {
				for !stop.Load() {
					id := fmt.Sprint(ids.Add(1))
					testserver.Until(t, patience, "it is delivered", func() bool {
						err := sendTo(t, q, toTopic(id, "t", "x"))
						if class, _ := classOf(err); err != nil && class != Unknown &&
							!errors.Is(err, ErrNotConnected) {
							t.Errorf("%s: class %d: %v", id, class, err)
							return true
						}
						return err == nil
					})
					done.Add(1)
				}
			})
		}
		for _, end := range []func(){b.Kill, b.Stop} {
			n := done.Load()
			testserver.Until(t, patience, "some are delivered", func() bool {
				return done.Load() > n+20
			})
			end()
			testserver.Until(t, patience, "the gate is closed", func() bool { return !q.Open() })
			b.Start()
			awaitOpen(t, q)
		}
		stop.Store(true)
		wg.Wait()
		if done.Load() != ids.Load() {
			t.Errorf("%d of %d delivered", done.Load(), ids.Load())
		}
	})
}

func TestD02_BrokerThatNeverAcknowledgesIsConnectedAnew(t *testing.T) {
	var mute atomic.Bool
	mute.Store(true)
	s := &script{connacks: packets.Properties{ReceiveMaximum: new(uint16(3))}}
	s.answer = func(c net.Conn, p *packets.ControlPacket) {
		if !mute.Load() {
			reply(c, &packets.Puback{PacketID: p.PacketID(), Properties: &packets.Properties{}})
		}
	}
	q := startMQTT(t, MQTTConfig{URL: startScript(t, s)})
	awaitOpen(t, q)
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			err := q.Send(ctx, toTopic(fmt.Sprint(i), "t", "x"))
			// Two of the five had no place and were not sent.
			if class, _ := classOf(err); class != Unknown && class != Transient {
				t.Errorf("class %d: %v", class, err)
			}
		})
	}
	wg.Wait()
	mute.Store(false)
	testserver.Until(t, patience, "another connection", func() bool { return s.connections() >= 2 })
	awaitOpen(t, q)
	for i := range 10 {
		if err := sendTo(t, q, toTopic(fmt.Sprint("later", i), "t", "x")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMQTTAnswerOfTheBrokerDecides(t *testing.T) {
	tests := []struct {
		name string
		qos  int
		code byte
		want Class
	}{
		{"success", 1, 0x00, 0},
		{"no subscribers", 1, 0x10, Transient},
		{"unspecified", 1, 0x80, Transient},
		{"implementation", 1, 0x83, Transient},
		{"not authorized", 1, 0x87, Pause},
		{"topic", 1, 0x90, Permanent},
		{"identifier in use", 1, 0x91, Transient},
		{"too large", 1, 0x95, Permanent},
		{"quota", 1, 0x97, Transient},
		{"payload", 1, 0x99, Permanent},
		{"success", 2, 0x00, 0},
		{"no subscribers", 2, 0x10, Transient},
		{"refused by PUBREC", 2, 0x87, Pause},
		{"refused by PUBREC", 2, 0x97, Transient},
		{"refused by PUBREC", 2, 0x90, Permanent},
	}
	var code atomic.Int32
	s := &script{answer: func(c net.Conn, p *packets.ControlPacket) {
		id, none, reason := p.PacketID(), &packets.Properties{}, byte(code.Load())
		switch m := p.Content.(type) {
		case *packets.Publish:
			if m.QoS == 1 {
				reply(c, &packets.Puback{PacketID: id, ReasonCode: reason, Properties: none})
			} else {
				reply(c, &packets.Pubrec{PacketID: id, ReasonCode: reason, Properties: none})
			}
		case *packets.Pubrel:
			reply(c, &packets.Pubcomp{PacketID: id, Properties: none})
		}
	}}
	url := startScript(t, s)
	senders := []*MQTT{
		nil, startMQTT(t, MQTTConfig{URL: url}), startMQTT(t, MQTTConfig{URL: url, QoS: new(2)}),
	}
	for _, test := range tests {
		name := fmt.Sprintf("%s, QoS %d, 0x%02x", test.name, test.qos, test.code)
		t.Run(name, func(t *testing.T) {
			q := senders[test.qos]
			awaitOpen(t, q)
			code.Store(int32(test.code))
			wantClass(t, sendTo(t, q, toTopic("a", "t", "x")), test.want)
		})
	}
	if n := s.connections(); n != 2 {
		t.Errorf("%d connections for two senders", n)
	}
	for _, c := range s.connects {
		if !c.CleanStart || c.Properties.SessionExpiryInterval != nil ||
			!strings.HasPrefix(c.ClientID, "once-") {
			t.Errorf("connect %v", c)
		}
	}
}

func TestMQTTBrokerThatBearsLess(t *testing.T) {
	s := &script{connacks: packets.Properties{
		MaximumQOS: new(byte(0)), RetainAvailable: new(byte(0)),
	}}
	s.answer = func(net.Conn, *packets.ControlPacket) {}
	url := startScript(t, s)
	q := startMQTT(t, MQTTConfig{URL: url})
	zero := startMQTT(t, MQTTConfig{URL: url, QoS: new(0)})
	awaitOpen(t, q)
	awaitOpen(t, zero)
	wantClass(t, sendTo(t, q, toTopic("a", "t", "x")), Pause)
	wantClass(t, sendTo(t, zero, toTopic("a", "t", "x")), 0)
	m := toTopic("a", "t", "x")
	m.Meta.Retain = true
	wantClass(t, sendTo(t, zero, m), Permanent)
}

func TestQ04_OnlyTheMessageThatEndsTheConnectionIsGivenUp(t *testing.T) {
	s := &script{}
	s.answer = func(c net.Conn, p *packets.ControlPacket) {
		// Both answers take their time, so that the others are in flight beside the bad one.
		if m, ok := p.Content.(*packets.Publish); ok && string(m.Payload) == "bad" {
			time.AfterFunc(20*time.Millisecond, func() {
				reply(c, &packets.Disconnect{ReasonCode: 0x82, Properties: &packets.Properties{}})
				_ = c.Close()
			})
			return
		}
		time.AfterFunc(60*time.Millisecond, func() {
			reply(c, &packets.Puback{PacketID: p.PacketID(), Properties: &packets.Properties{}})
		})
	}
	q := startMQTT(t, MQTTConfig{URL: startScript(t, s)})
	awaitOpen(t, q)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			payload, want := "good", Class(0)
			if i == 3 {
				payload, want = "bad", Permanent
			}
			var err error
			testserver.Until(t, patience, "it is settled", func() bool {
				err = sendTo(t, q, toTopic(fmt.Sprint(i), "t", payload))
				class, _ := classOf(err)
				return err == nil || class != Unknown && !errors.Is(err, ErrNotConnected)
			})
			wantClass(t, err, want)
		})
	}
	wg.Wait()
	if n := s.connections(); n < 5 || n > 6 {
		t.Errorf("%d connections; the message is to be given up after 5", n)
	}
}

func TestMQTTBrokerThatShutsDownBlamesNoMessage(t *testing.T) {
	s := &script{}
	s.answer = func(c net.Conn, _ *packets.ControlPacket) {
		reply(c, &packets.Disconnect{ReasonCode: 0x8B, Properties: &packets.Properties{}})
		_ = c.Close()
	}
	q := startMQTT(t, MQTTConfig{URL: startScript(t, s), MaxDrops: 1})
	for range 3 {
		awaitOpen(t, q)
		wantClass(t, sendTo(t, q, toTopic("a", "t", "x")), Unknown)
	}
}

func TestMQTTPublishStuckInAWriteEndsAtItsDeadline(t *testing.T) {
	block := make(chan struct{})
	s := &script{answer: func(net.Conn, *packets.ControlPacket) { <-block }} // reads no more
	q := startMQTT(t, MQTTConfig{URL: startScript(t, s), QoS: new(0)})
	t.Cleanup(func() { close(block) })
	awaitOpen(t, q)
	large := toTopic("a", "t", strings.Repeat("x", 1<<20))
	for i := range 100 { // as many as the buffers in between hold, and one more
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		start := time.Now()
		err := q.Send(ctx, large)
		cancel()
		if class, _ := classOf(err); err == nil || class == Transient {
			continue // a slow machine may use up the time before the write
		}
		took := time.Since(start)
		if class, _ := classOf(err); class != Unknown || took > 10*time.Second {
			t.Errorf("send %d: class %d after %v: %v", i, class, took, err)
		}
		return
	}
	t.Error("nothing got stuck")
}

func TestMQTTRunsOnceAtATime(t *testing.T) {
	b := testserver.Mosquitto(t)
	q := startMQTT(t, MQTTConfig{URL: b.URL()})
	awaitOpen(t, q)
	if err := q.Run(t.Context()); err == nil {
		t.Error("a second Run was accepted")
	}
}

func TestSuspectsAreBounded(t *testing.T) {
	s := newSuspects(2)
	s.add("a")
	s.add("a")
	s.add("b")
	s.add("c") // the earliest goes
	s.clear("x")
	if s.count("a") != 0 || s.count("b") != 1 || s.count("c") != 1 {
		t.Errorf("a %d, b %d, c %d", s.count("a"), s.count("b"), s.count("c"))
	}
	s.clear("b")
	s.add("d")
	if s.count("b") != 0 || s.count("c") != 1 || s.count("d") != 1 || s.order.Len() != 2 {
		t.Errorf("b %d, c %d, d %d", s.count("b"), s.count("c"), s.count("d"))
	}
}

func TestMQTTLeavesNothingRunning(t *testing.T) {
	b := testserver.Mosquitto(t)
	versions(t, func(t *testing.T, version string) {
		before := goleak.IgnoreCurrent()
		t.Run("", func(t *testing.T) { // its end is the end of Run
			q := startMQTT(t, MQTTConfig{URL: b.URL(), Version: version, NoSubscriberDone: true})
			awaitOpen(t, q)
			wantClass(t, sendTo(t, q, toTopic("a", "t", "x")), 0)
			b.Kill()
			testserver.Until(t, patience, "the gate is closed", func() bool { return !q.Open() })
			b.Start()
			awaitOpen(t, q)
			wantClass(t, sendTo(t, q, toTopic("b", "t", "x")), 0)
		})
		goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction(
			"github.com/oncekit/once/internal/child.start.func1")) // the broker
	})
}
