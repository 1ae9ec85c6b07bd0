// Package tracing makes spans of OpenTelemetry of receipts, attempts and effects, and sends them
// out as the standard variables of the environment say.
//
// One callback is one trace, also over a restart: its row keeps the trace context of its receipt,
// and an effect's row that of the attempt that it comes from.
//
//	POST /in/rcs                 SERVER     the receipt, a child of the sender's span
//	└─ process rcs               CONSUMER   an attempt; a callback that is tried again has several
//	   ├─ send plant             PRODUCER   a try of an effect over MQTT
//	   └─ send wms               CLIENT     a try of an effect over HTTP
//
// An attempt is a child of the receipt and has a link to it. The messaging conventions of
// OpenTelemetry want the link, and allow the parent for what works one message at a time outside of
// any other span, which is what an attempt does: with it everything about a callback is found under
// one trace id. Whether a callback is traced is decided at its receipt and stored as the flag of
// its trace context; later spans look at the flag first.
//
// A flow's decision is a pure function that may be undone and made again. So its attempt gets a
// span whose id is made of the row and the moment of the try, and which is made once it is durable.
//
// Spans hold ids, names of the configuration, states and numbers. They hold no part of a message,
// no key, no topic, path or address that is made of a message, no answer, and no secret.
package tracing
