package inbox

import (
	"cmp"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

const (
	// maxReason bounds the reason of a refusal, in bytes.
	maxReason = 512

	// maxScratch bounds the buffer that is kept for later messages, in bytes.
	maxScratch = 16 << 10
)

// intake is the work on one message. It is reused, so that a message costs few allocations.
type intake struct {
	rc  *Receiver
	src *source
	msg Message
	followed
	reserved int64 // bytes of the memory for bodies
	verified bool
	read     reading
	arrivals []queue.Arrival // made anew for each message: the store may hold on to it
	receipts []queue.Receipt
	scratch  []byte // for the encoded request and for built-in replies
}

// reading is what a message says.
type reading struct {
	key         once.Key
	fingerprint once.Fingerprint
	event       string
	route       Route
}

// verdict is what becomes of a message.
type verdict struct {
	outcome queue.Outcome
	status  int // overrides the reply's own; 0: it does not
	reason  string
	reply   *reply // takes the place of the outcome's own; nil: it does not
	// broken is true after a panic: the intake is not reused.
	broken bool
}

func invalid(reason string) verdict {
	return verdict{outcome: queue.Invalid, reason: reason}
}

func (in *intake) begin(rc *Receiver, src *source, r *http.Request) {
	in.rc, in.src = rc, src
	in.msg = Message{
		Source: src.Name, Method: r.Method, Path: r.URL.Path, Peer: r.RemoteAddr, Header: r.Header,
		RawQuery: r.URL.RawQuery, Host: r.Host, TLS: r.TLS, url: r.URL, publicURL: src.PublicURL,
		in: in,
	}
	if len(rc.proxies) > 0 {
		if f := rc.proxies.resolve(r); f != nil {
			in.msg.forwarded, in.msg.Peer = f, f.peer
		}
	}
	if r.URL.RawQuery != "" {
		in.msg.Query = r.URL.Query()
	}
}

func (in *intake) reset() {
	scratch := in.scratch[:0]
	if cap(scratch) > maxScratch {
		scratch = nil
	}
	*in = intake{scratch: scratch}
}

// judge works a message up to its outcome: nothing is answered yet.
func (in *intake) judge(w http.ResponseWriter, r *http.Request) (v verdict) {
	defer func() {
		if p := recover(); p != nil {
			if in.rc.logs.allow(time.Now()) {
				in.rc.log.Error("source panicked", "source", in.src.Name,
					"panic", queue.PanicText(p), "stack", string(debug.Stack()))
			}
			v = verdict{outcome: queue.Unavailable, reason: "internal error", broken: true}
		}
	}()
	if r.Method != http.MethodPost {
		w.Header()["Allow"] = in.rc.allow
		return in.refuse(r, verdict{
			outcome: queue.Invalid, status: http.StatusMethodNotAllowed,
			reason: "method is not POST",
		})
	}
	if v, ok := in.verify(r, in.src.before); !ok {
		return in.refuse(r, v)
	}
	in.verified = in.src.after == nil
	if v, ok := in.readBody(w, r); !ok {
		return in.refuse(r, v)
	}
	if v, ok := in.verify(r, in.src.after); !ok {
		return in.refuse(r, v)
	}
	in.verified = true
	return in.judgeContent(r)
}

// judgeContent works a message whose body is read and whose sender is verified.
func (in *intake) judgeContent(r *http.Request) verdict {
	content, err := in.msg.Content()
	if err != nil {
		return in.refuse(r, in.msg.fault.verdict)
	}
	if p := in.src.textProbe(content); p != nil {
		return in.probed(p)
	}
	if reason := typeProblem(r.Header, in.src.Form, content); reason != "" {
		return in.refuse(r, invalid(reason))
	}
	if v, ok := in.reserveDecoded(content); !ok {
		return in.refuse(r, v)
	}
	if in.msg.Body, err = decodeContent(content, in.src.Form, in.src.MaxDepth); err != nil {
		in.shown = queue.Public(err)
		return in.refuse(r, invalid(err.Error()))
	}
	if p := in.src.probeOf(&in.msg); p != nil {
		return in.probed(p)
	}
	if in.src.Each != nil {
		return in.judgeEach(r)
	}
	if reason := in.makeReading(); reason != "" {
		return in.refuse(r, invalid(reason))
	}
	if in.recalls(in.msg.identity, in.read.fingerprint) {
		return verdict{outcome: queue.Duplicate}
	}
	in.build(r)
	return in.append(r)
}

// recalls reports whether the store knows a callback without an Append. Whether a repeat is a new
// callback is decided inside Append alone.
func (in *intake) recalls(id once.Identity, fp once.Fingerprint) bool {
	return in.rc.recaller != nil && in.src.NewAfter == 0 &&
		in.rc.recaller.Recall(id, fp, in.msg.Peer)
}

// verify asks one of the source's verifiers; nil: there is nothing to ask.
func (in *intake) verify(r *http.Request, by Verifier) (verdict, bool) {
	if by == nil {
		return verdict{}, true
	}
	if err := by.Verify(r.Context(), &in.msg); err != nil {
		if in.msg.fault != nil { // it can't be said who the sender is
			return in.msg.fault.verdict, false
		}
		return verdict{outcome: queue.Unauthorized, reason: err.Error()}, false
	}
	return verdict{}, true
}

// makeReading reads what the decoded message, or the element that it stands at, says. It returns
// the reason if it is invalid.
func (in *intake) makeReading() (reason string) {
	m, src, read := &in.msg, in.src, &in.read
	var err error
	if read.key, err = src.Key(m); err != nil {
		return err.Error()
	}
	if m.identity, err = once.Identify(src.scope, read.key); err != nil {
		return err.Error()
	}
	if src.Event != nil {
		if read.event, err = src.Event(m); err != nil {
			return err.Error()
		}
	}
	if read.fingerprint, err = src.Fingerprint(m); err != nil {
		return err.Error()
	}
	if read.route, err = src.Route(m, read.event); err != nil {
		return err.Error()
	}
	return tooLong(read.event, &read.route)
}

// build makes the arrival of a message that is one callback.
func (in *intake) build(r *http.Request) {
	in.arrivals = []queue.Arrival{
		in.arrival(r, in.msg.identity, &in.read, in.meta(r), in.msg.Raw),
	}
}

func (in *intake) arrival(
	r *http.Request, id once.Identity, read *reading, meta, body []byte,
) queue.Arrival {
	src := in.src
	state := queue.Pending
	if read.route.Unrouted {
		state = queue.Unrouted
	}
	parent, traceState := in.traceContext(r)
	return queue.Arrival{
		Identity: id, Fingerprint: read.fingerprint, Kind: queue.Callback,
		Lane: read.route.Lane, OrderKey: read.route.OrderKey, State: state, Source: src.Name,
		Event: read.event, Flow: read.route.Flow, Task: read.route.Task,
		Key: read.key.Strings(), TraceParent: parent, TraceState: traceState, Meta: meta,
		Body: body, Peer: in.msg.Peer, Retention: src.Retention, KeepBody: src.KeepBody,
		ReplaceDead: src.ReplaceDead, NewAfter: src.NewAfter,
	}
}

// tooLong refuses what nobody could name in a URL. It is bounded like the key.
func tooLong(event string, route *Route) string {
	name := ""
	switch {
	case len(event) > once.MaxKeyBytes:
		name = "event"
	case len(route.Task) > once.MaxKeyBytes:
		name = "task"
	case route.Task == "" && len(route.OrderKey) > once.MaxKeyBytes:
		name = "order key"
	default:
		return ""
	}
	return fmt.Sprintf("%s is longer than %d bytes", name, once.MaxKeyBytes)
}

// append makes the callbacks durable, all or none.
func (in *intake) append(r *http.Request) verdict {
	ctx := &valuedContext{Context: in.rc.deadline.context(time.Now()), values: r.Context()}
	receipts, err := in.rc.store.Append(ctx, in.arrivals)
	if err == nil && len(receipts) != len(in.arrivals) {
		err = fmt.Errorf("store gave %d receipts for %d arrivals", len(receipts), len(in.arrivals))
	}
	outcome := queue.Duplicate
	for i := 0; err == nil && i < len(receipts); i++ {
		switch o := receipts[i].Outcome; {
		case o == queue.Accepted, o == queue.Conflict && outcome == queue.Duplicate:
			outcome = o
		case o != queue.Duplicate && o != queue.Conflict:
			err = fmt.Errorf("store gave the outcome %q", o)
		}
	}
	if err == nil {
		in.receipts = receipts
		for i := range receipts {
			in.tell(&in.arrivals[i], &receipts[i])
		}
		return verdict{outcome: outcome}
	}
	if in.rc.logs.allow(time.Now()) {
		in.rc.log.Error("callback not stored", "source", in.src.Name, "error", err)
	}
	return verdict{outcome: queue.Unavailable, reason: "message can't be stored now, try again"}
}

// tell logs what a person should look at although the sender is told that all is well. It also
// takes over the identity that the store gave a repeat which is a new callback.
func (in *intake) tell(a *queue.Arrival, got *queue.Receipt) {
	id := a.Identity
	if !got.Identity.IsZero() {
		id = got.Identity
	}
	if in.msg.identity == a.Identity {
		in.msg.identity = id
	}
	switch {
	case got.Outcome == queue.Conflict && in.rc.logs.allow(time.Now()):
		in.rc.log.Warn("conflict: a known key came with other content; the first one counts",
			"source", in.src.Name, "callback", id.ID())
	case got.Outcome == queue.Accepted && a.State == queue.Unrouted &&
		in.rc.logs.allow(time.Now()):
		in.rc.log.Warn("unrouted: nothing is declared for the event of a callback; it is kept",
			"source", in.src.Name, "event", a.Event, "callback", id.ID())
	}
}

// refuse keeps a message in the ring. Its body is kept only if its sender is known to be one, or
// if nobody asks.
func (in *intake) refuse(r *http.Request, v verdict) verdict {
	v.reason = cutText(v.reason, maxReason)
	if v.outcome == queue.Unavailable {
		return v
	}
	logs, rate := in.rc.logs, in.src.ringRate
	if v.outcome == queue.Unauthorized {
		logs, rate = in.rc.strangers, in.src.strangers
	}
	if logs.allow(time.Now()) {
		in.rc.log.Warn("message refused", "source", in.src.Name, "outcome", v.outcome,
			"error", cmp.Or(in.shown, v.reason), "peer", in.msg.Peer)
	}
	kept := in.msg.Raw
	switch {
	case v.outcome == queue.Unauthorized && !in.rc.cfg.UnauthorizedBody,
		v.outcome == queue.Invalid && in.src.Verifier != nil && !in.verified:
		kept = nil
	}
	if len(kept) > in.rc.cfg.RejectedBody {
		kept = kept[:in.rc.cfg.RejectedBody]
	}
	in.rc.ring.keep(r.Context(), rate, queue.Rejected{
		Source: in.src.Name, Outcome: v.outcome, Reason: v.reason, Peer: in.msg.Peer,
		Meta: in.rc.ringMeta(r, in.msg.Peer, in.src.denied), Size: int64(len(in.msg.Raw)),
		Body: append([]byte(nil), kept...),
	})
	return v
}

// meta is what is kept of the request beside the body.
func (in *intake) meta(r *http.Request) []byte {
	in.scratch = in.rc.appendMeta(in.scratch[:0], r, in.msg.Peer, in.src.denied)
	if in.src.Form || in.msg.coding != "" {
		as := bodyForm{Coding: in.msg.coding, Form: in.src.Form}
		return as.appendTo(nil, in.scratch)
	}
	return append(make([]byte, 0, len(in.scratch)), in.scratch...)
}

// cutText cuts a text to at most n bytes of whole, valid characters.
func cutText(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "")
}
