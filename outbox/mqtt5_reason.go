package outbox

import (
	"fmt"
)

// Reason codes that decide something (MQTT 5.0, section 2.4).
const (
	noSubscribers       = 0x10
	malformedPacket     = 0x81
	protocolError       = 0x82
	implementationError = 0x83
	notAuthorized       = 0x87
	topicInvalid        = 0x90
	packetIDNotFound    = 0x92
	receiveMaxExceeded  = 0x93
	topicAliasInvalid   = 0x94
	packetTooLarge      = 0x95
	quotaExceeded       = 0x97
	payloadInvalid      = 0x99
	retainNotSupported  = 0x9A
	qosNotSupported     = 0x9B
)

// answer5 says what the code of a PUBACK, PUBREC or PUBCOMP means; nil: delivered.
func answer5(code byte, text string, noSubscriberDone bool) *Failure {
	class := Transient
	switch code {
	case noSubscribers:
		if noSubscriberDone {
			return nil
		}
	case notAuthorized:
		class = Pause
	case topicInvalid, payloadInvalid, packetTooLarge, retainNotSupported, qosNotSupported,
		malformedPacket:
		class = Permanent
	case packetIDNotFound:
		// The broker had taken the message and has forgotten it since (PUBCOMP).
		class = Unknown
	default:
		if code < 0x80 {
			return nil
		}
	}
	f := failf(class, "publish: %s", reasonText("broker answers", code, text))
	f.Shown = "publish: " + reasonText("broker answers", code, "")
	return f
}

// blamesMessage reports whether a broker that ends the connection with this code may do so because
// of a message.
func blamesMessage(code byte) bool {
	switch code {
	case 0x80, malformedPacket, protocolError, implementationError, notAuthorized, topicInvalid,
		receiveMaxExceeded, topicAliasInvalid, packetTooLarge, quotaExceeded, payloadInvalid,
		retainNotSupported, qosNotSupported:
		return true
	}
	return false
}

// reasonText writes a reason code for people.
func reasonText(what string, code byte, text string) string {
	s := fmt.Sprintf("%s: 0x%02X %s", what, code, reasonName(code))
	if text != "" {
		s += " (" + printable(text, errorTextChars) + ")"
	}
	return s
}

// reasonName is the name of a reason code (MQTT 5.0, section 2.4), as far as a publisher meets it.
func reasonName(code byte) string {
	switch code {
	case 0x00:
		return "success"
	case noSubscribers:
		return "no matching subscribers"
	case 0x80:
		return "unspecified error"
	case malformedPacket:
		return "malformed packet"
	case protocolError:
		return "protocol error"
	case implementationError:
		return "implementation specific error"
	case 0x84:
		return "unsupported protocol version"
	case 0x85:
		return "client identifier not valid"
	case 0x86:
		return "bad user name or password"
	case notAuthorized:
		return "not authorized"
	case 0x88:
		return "server unavailable"
	case 0x89:
		return "server busy"
	case 0x8A:
		return "banned"
	case 0x8B:
		return "server shutting down"
	case 0x8C:
		return "bad authentication method"
	case 0x8D:
		return "keep alive timeout"
	case 0x8E:
		return "session taken over"
	}
	return reasonNameHigh(code)
}

func reasonNameHigh(code byte) string {
	switch code {
	case topicInvalid:
		return "topic name invalid"
	case 0x91:
		return "packet identifier in use"
	case packetIDNotFound:
		return "packet identifier not found"
	case receiveMaxExceeded:
		return "receive maximum exceeded"
	case topicAliasInvalid:
		return "topic alias invalid"
	case packetTooLarge:
		return "packet too large"
	case 0x96:
		return "message rate too high"
	case quotaExceeded:
		return "quota exceeded"
	case 0x98:
		return "administrative action"
	case payloadInvalid:
		return "payload format invalid"
	case retainNotSupported:
		return "retain not supported"
	case qosNotSupported:
		return "QoS not supported"
	case 0x9C:
		return "use another server"
	case 0x9D:
		return "server moved"
	case 0x9F:
		return "connection rate exceeded"
	}
	return "unknown reason"
}
