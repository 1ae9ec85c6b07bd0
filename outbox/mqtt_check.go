package outbox

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of the protocol (MQTT 5.0, sections 1.5.4, 1.5.5 and 3.3.4), and one of ours.
const (
	maxTextBytes   = 65535
	maxRemaining   = 268_435_455
	maxPacketBytes = maxRemaining + 5 // with the fixed header
	maxInFlight    = 4096
)

// check refuses what no broker takes, and what one would disconnect upon.
func (q *MQTT) check(m Message) *Failure {
	if err := checkTopic(m.Meta.Topic, q.cfg.SystemTopics); err != nil {
		return failf(Permanent, "publish: topic: %w", err)
	}
	if q.cfg.Version != MQTT5 {
		return nil
	}
	if err := checkText(m.contentType()); err != nil {
		return failf(Permanent, "publish: content type: %w", err)
	}
	if err := errors.Join(checkText(m.TraceParent), checkText(m.TraceState)); err != nil {
		return failf(Permanent, "publish: trace context: %w", err)
	}
	for name, value := range m.Meta.Header {
		if err := errors.Join(checkText(name), checkText(value)); err != nil {
			return failf(Permanent, "publish: property %q: %w", printable(name, 50), err)
		}
	}
	return nil
}

// checkTopic refuses what is no topic name (MQTT 5.0, sections 3.3.2.1 and 4.7).
func checkTopic(topic string, system bool) error {
	switch {
	case topic == "":
		return errors.New("is missing")
	case strings.ContainsAny(topic, "+#"):
		return fmt.Errorf("%q holds a wildcard", printable(topic, 100))
	case topic[0] == '$' && !system:
		return fmt.Errorf("%q belongs to the broker (system topics are not allowed)",
			printable(topic, 100))
	}
	return checkText(topic)
}

// checkText refuses what is no UTF-8 encoded string of MQTT (5.0, section 1.5.4).
func checkText(s string) error {
	switch {
	case len(s) > maxTextBytes:
		return fmt.Errorf("is longer than %d bytes", maxTextBytes)
	case !utf8.ValidString(s):
		return errors.New("is no valid UTF-8")
	case strings.ContainsRune(s, 0):
		return errors.New("holds a NUL")
	case strings.ContainsFunc(s, unfit):
		return errors.New("holds a control character or a noncharacter")
	}
	return nil
}

// unfit reports the characters that a receiver may take for a malformed packet, upon which it
// disconnects (MQTT 5.0, section 1.5.4).
func unfit(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Noncharacter_Code_Point, r)
}

// limits are what the broker said when it took the connection.
type limits struct {
	packet   int  // bytes
	inFlight int  // messages
	qos      byte // the highest
	retain   bool
}

// fits checks a message of size bytes, fixed header included, against the limits.
func (l limits) fits(size int, qos byte, retain bool) *Failure {
	switch {
	case size > l.packet:
		return failf(Permanent, "publish: packet of %d bytes is larger than the %d bytes allowed",
			size, l.packet)
	case retain && !l.retain:
		return failf(Permanent, "publish: broker takes no retained messages")
	case qos > l.qos:
		return failf(Pause, "publish: broker takes QoS %d at most, configured is %d", l.qos, qos)
	}
	return nil
}

// withHeader adds the size of the fixed header to that of the rest of a packet.
func withHeader(rest int) int {
	n := 2
	for r := rest; r > 127; r >>= 7 {
		n++
	}
	return rest + n
}
