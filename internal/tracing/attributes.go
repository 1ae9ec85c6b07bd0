package tracing

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/oncekit/once/queue"
)

// The attributes that are our own. Beside them stand those of the HTTP and messaging conventions of
// OpenTelemetry, where they say something of which nothing is made of a message.
const (
	keyCallback    = attribute.Key("once.callback.id")
	keyCallbacks   = attribute.Key("once.callback.ids")
	keyEffect      = attribute.Key("once.effect.id")
	keyEffectName  = attribute.Key("once.effect.name")
	keySource      = attribute.Key("once.source")
	keyDestination = attribute.Key("once.destination")
	keyEvent       = attribute.Key("once.event")
	keyFlow        = attribute.Key("once.flow")
	keyTask        = attribute.Key("once.task.id")
	keyAttempt     = attribute.Key("once.attempt")
	keyOutcome     = attribute.Key("once.outcome")
	keyState       = attribute.Key("once.state")
	keyDeadCause   = attribute.Key("once.dead_cause")
	keyCause       = attribute.Key("once.cause")
	keyReasonCode  = attribute.Key("once.mqtt.reason_code")
)

// about are the attributes that callbacks and their attempts share; empty ones are left out.
func about(event, flow, task string) []attribute.KeyValue {
	out := make([]attribute.KeyValue, 0, 3)
	for _, kv := range []attribute.KeyValue{
		keyEvent.String(event), keyFlow.String(flow), keyTask.String(task),
	} {
		if kv.Value.AsString() != "" {
			out = append(out, kv)
		}
	}
	return out
}

// ofRow are the attributes of a try that are known before it.
func ofRow(row *queue.Row) []attribute.KeyValue {
	const own = 8
	out := make([]attribute.KeyValue, 0, own)
	out = append(out, keyAttempt.Int(row.Attempt))
	if row.Kind == queue.Callback {
		out = append(out, keyCallback.String(row.ID()), keySource.String(row.Source),
			attribute.String("messaging.system", "once"),
			attribute.String("messaging.operation.type", "process"),
			attribute.String("messaging.operation.name", "process"),
			attribute.String("messaging.destination.name", row.Source),
			attribute.String("messaging.message.id", row.ID()))
		return append(out, about(row.Event, row.Flow, row.Task)...)
	}
	out = append(out, keyEffect.String(row.ID()), keyEffectName.String(row.Event),
		keyDestination.String(row.Source))
	if row.CausedByCallback() {
		out = append(out, keyCallback.String(row.Cause))
	} else if row.Cause != "" {
		out = append(out, keyCause.String(row.Cause))
	}
	return append(out, about("", row.Flow, row.Task)...)
}
