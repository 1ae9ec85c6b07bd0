package outbox

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho/log"
	"github.com/eclipse/paho.golang/paho/session"
)

// trackKey is the key of a publish's *track in its context.
type trackKey struct{}

// session5 is what the MQTT 5 client knows about messages in flight. It is one for a publisher
// whose session ends with its connection, in place of the library's: that one lets a publish hang
// when the connection goes, and sends again what we have long settled. How many messages are in
// flight is bounded by the link.
type session5 struct {
	link *link

	mu   sync.Mutex
	conn io.Writer // nil: not connected yet, or not any more
	wait map[uint16]waiting
	last uint16
}

// waiting is a message that waits for its acknowledgement.
type waiting struct {
	answer chan<- packets.ControlPacket
	track  *track // nil for what is no publish of ours
}

var _ session.SessionManager = (*session5)(nil)

func newSession5(l *link) *session5 {
	return &session5{link: l, wait: map[uint16]waiting{}}
}

// ConAckReceived begins the session.
func (s *session5) ConAckReceived(w io.Writer, _ *packets.Connect, _ *packets.Connack) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = w
	return nil
}

// ConnectionLost ends the session and everything that waits in it. The link learns of it first, so
// that who wakes up finds the reason there.
func (s *session5) ConnectionLost(p *packets.Disconnect) error {
	if p != nil {
		text := ""
		if p.Properties != nil {
			text = p.Properties.ReasonString
		}
		s.link.refused(p.ReasonCode, text)
	} else {
		s.link.lost(errLost)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = nil
	for id, w := range s.wait {
		w.answer <- packets.ControlPacket{} // has room for one; the zero packet means the end
		delete(s.wait, id)
	}
	return nil
}

// AddToSession gives the packet an id. The packet is written right after.
func (s *session5) AddToSession(
	ctx context.Context, p session.Packet, answer chan<- packets.ControlPacket,
) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return session.ErrNoConnection
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(s.wait) >= maxTextBytes {
		return session.ErrPacketIdentifiersExhausted
	}
	for {
		s.last++
		if _, taken := s.wait[s.last]; s.last != 0 && !taken {
			break
		}
	}
	t, _ := ctx.Value(trackKey{}).(*track)
	if t != nil {
		t.written.Store(true)
	}
	s.wait[s.last] = waiting{answer: answer, track: t}
	p.SetIdentifier(s.last)
	return nil
}

// PacketReceived takes an acknowledgement (MQTT 5.0, section 4.3).
func (s *session5) PacketReceived(p *packets.ControlPacket, _ chan<- *packets.Publish) error {
	switch ack := p.Content.(type) {
	case *packets.Puback:
		s.done(ack.PacketID, p)
	case *packets.Pubcomp:
		s.done(ack.PacketID, p)
	case *packets.Pubrec:
		if ack.ReasonCode >= 0x80 {
			s.done(ack.PacketID, p)
			return nil
		}
		return s.release(ack)
	}
	return nil // we subscribe to nothing; whatever else comes is not for us
}

// release answers a PUBREC with a PUBREL.
func (s *session5) release(ack *packets.Pubrec) error {
	s.mu.Lock()
	w, known := s.wait[ack.PacketID]
	conn := s.conn
	s.mu.Unlock()
	if conn == nil {
		return nil
	}
	rel := packets.Pubrel{PacketID: ack.PacketID}
	if !known {
		rel.ReasonCode = packetIDNotFound
	} else if ack.ReasonCode == noSubscribers && w.track != nil {
		w.track.unheard.Store(true)
	}
	if _, err := rel.WriteTo(conn); err != nil {
		return fmt.Errorf("write PUBREL: %w", err)
	}
	return nil
}

func (s *session5) done(id uint16, p *packets.ControlPacket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, ok := s.wait[id]; ok {
		w.answer <- *p // has room for one
		delete(s.wait, id)
	}
}

// Ack is for messages that we receive: none.
func (s *session5) Ack(*packets.Publish) error { return nil }

// Close ends the session.
func (s *session5) Close() error { return s.ConnectionLost(nil) }

// SetErrorLogger does nothing.
func (s *session5) SetErrorLogger(log.Logger) {}

// SetDebugLogger does nothing.
func (s *session5) SetDebugLogger(log.Logger) {}
