package tracing

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncekit/once/outbox"
	"github.com/oncekit/once/queue"
)

// Protocol is how a peer is spoken to.
type Protocol uint8

// The protocols of peers.
const (
	// Local: nothing leaves the process, such as effects that are printed.
	Local Protocol = iota
	// HTTP: a request a try.
	HTTP
	// MQTT: a message a try.
	MQTT
)

// peer is the other side of tries.
type peer struct {
	protocol Protocol
	known    []attribute.KeyValue
}

// peers are the other sides by what is sent to them.
type peers struct {
	destinations map[string]peer // by name
	services     map[string]peer // by source
}

// Destination says how the effects of a destination are sent, and to which URL; it may be empty. It
// is called before anything is traced.
func (t *Tracing) Destination(name string, p Protocol, address string) {
	t.peers.destinations[name] = newPeer(p, address)
}

// Service says to which URL the callbacks of a source are handed. It is called before anything is
// traced.
func (t *Tracing) Service(source, address string) {
	t.peers.services[source] = newPeer(HTTP, address)
}

// newPeer takes host and port of a URL. The rest of it stays out: a path can be a secret.
func newPeer(p Protocol, address string) peer {
	out := peer{protocol: p}
	if u, err := url.Parse(address); err == nil && u.Hostname() != "" {
		out.known = append(out.known, attribute.String("server.address", u.Hostname()))
		if port, err := strconv.Atoi(u.Port()); err == nil {
			out.known = append(out.known, attribute.Int("server.port", port))
		}
	}
	if p == MQTT {
		out.known = append(out.known, attribute.String("messaging.system", "mqtt"),
			attribute.String("messaging.operation.type", "send"),
			attribute.String("messaging.operation.name", "publish"))
	}
	return out
}

// find returns who is on the other side of a row's tries.
func (p *peers) find(row *queue.Row) peer {
	if row.Kind == queue.Effect {
		return p.destinations[row.Source]
	}
	return p.services[row.Source]
}

// of returns the attributes of the other side, and how it is spoken to.
func (p *peers) of(row *queue.Row) []attribute.KeyValue {
	other := p.find(row)
	if other.protocol != HTTP {
		return other.known
	}
	method := http.MethodPost
	if m, err := outbox.NewMessage(*row); row.Kind == queue.Effect && err == nil {
		method = cmp.Or(m.Meta.Method, method)
	}
	return append([]attribute.KeyValue{
		attribute.String("http.request.method", knownMethod(method)),
	}, other.known...)
}

// kind is the kind of the span of an effect. A message has no answer but the broker's, and what it
// carries is the context of this span: a producer's.
func (p *peers) kind(destination string) trace.SpanKind {
	switch p.destinations[destination].protocol {
	case HTTP:
		return trace.SpanKindClient
	case MQTT:
		return trace.SpanKindProducer
	}
	return trace.SpanKindInternal
}

// answer is the attribute of a code with which the other side answered.
func (p *peers) answer(row *queue.Row, code int) attribute.KeyValue {
	if p.find(row).protocol == MQTT {
		return keyReasonCode.Int(code)
	}
	return attribute.Int("http.response.status_code", code)
}
