package inbox

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/oncekit/once/queue"
)

// chunkedAbove is the body size from which on net/http would send a reply in chunks, which old
// senders can't read; larger ones get their length written out.
const chunkedAbove = 2048

// reply is a Reply with everything made that doesn't depend on a message.
type reply struct {
	status  int
	headers []replyHeader
	body    func(*Message) ([]byte, string, error)
	builtin bool          // the body is the built-in one
	told    queue.Outcome // what the built-in body says
}

type replyHeader struct {
	name string
	make func(*Message) (string, error)
}

// newReplies fills in what is not configured: a duplicate is replied like accepted and a conflict
// like a duplicate, so that a sender stops; anything else has its built-in reply.
func newReplies(configured map[queue.Outcome]Reply) (map[queue.Outcome]*reply, error) {
	builtin := []struct {
		outcome queue.Outcome
		status  int
		like    queue.Outcome
	}{
		{queue.Accepted, http.StatusOK, ""},
		{queue.Duplicate, http.StatusOK, queue.Accepted},
		{queue.Conflict, http.StatusOK, queue.Duplicate},
		{queue.Invalid, http.StatusBadRequest, ""},
		{queue.Unauthorized, http.StatusUnauthorized, ""},
		{queue.Unavailable, http.StatusServiceUnavailable, ""},
	}
	out := make(map[queue.Outcome]*reply, len(builtin))
	for _, b := range builtin {
		c, ok := configured[b.outcome]
		if !ok {
			out[b.outcome] = &reply{status: b.status, builtin: true, told: b.outcome}
			if b.like != "" {
				out[b.outcome] = out[b.like]
			}
			continue
		}
		p, err := newReply(c, b.outcome, b.status)
		if err != nil {
			return nil, fmt.Errorf("reply %s: %w", b.outcome, err)
		}
		out[b.outcome] = p
	}
	for o := range configured {
		if out[o] == nil {
			return nil, fmt.Errorf("reply for the unknown outcome %q", o)
		}
	}
	return out, nil
}

// newReply makes a configured reply; status is the one of a reply that has none.
func newReply(c Reply, o queue.Outcome, status int) (*reply, error) {
	p := &reply{status: c.Status, body: c.Body, told: o}
	setDefault(&p.status, status)
	if err := p.check(o); err != nil {
		return nil, err
	}
	for name, fn := range c.Header {
		if fn == nil {
			return nil, fmt.Errorf("header %q has no value", name)
		}
		p.headers = append(p.headers, replyHeader{http.CanonicalHeaderKey(name), fn})
	}
	return p, nil
}

func (p *reply) check(o queue.Outcome) error {
	if p.status < 200 || p.status > 599 {
		return fmt.Errorf("status %d is not from 200 to 599", p.status)
	}
	if (o == queue.Unavailable || o == queue.Unauthorized) && p.status < 400 {
		return fmt.Errorf("status %d says that all is well", p.status)
	}
	return nil
}

// answer writes the reply of a verdict. Whatever happens in a function of the reply, the outcome
// stays what it is.
func (in *intake) answer(w http.ResponseWriter, v verdict) {
	p := in.src.replies[v.outcome]
	if v.reply != nil {
		p = v.reply
	}
	in.msg.Error = v.reason
	status := p.status
	if v.status != 0 {
		status = v.status
	}
	in.status = status
	h := w.Header()
	if v.outcome == queue.Unavailable {
		h["Retry-After"] = in.rc.seconds1
	}
	if status == http.StatusUnauthorized && in.src.challenge != "" {
		h.Set("WWW-Authenticate", in.src.challenge)
	}
	for _, header := range p.headers {
		if value, ok := in.headerValue(header); ok {
			h[header.name] = []string{value}
		}
	}
	body, contentType := in.body(p, v)
	if status == http.StatusNoContent || status == http.StatusNotModified {
		w.WriteHeader(status)
		return
	}
	if len(body) > 0 && h["Content-Type"] == nil {
		if contentType == "" || contentType == in.rc.jsonType[0] {
			h["Content-Type"] = in.rc.jsonType
		} else {
			h["Content-Type"] = []string{contentType}
		}
	}
	if len(body) > chunkedAbove {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	w.WriteHeader(status)
	if len(body) > 0 {
		_, _ = w.Write(body) // a sender that is gone sends again
	}
}

// body returns the reply's body, or the built-in one if it can't be made.
func (in *intake) body(p *reply, v verdict) (body []byte, contentType string) {
	if !p.builtin {
		if p.body == nil {
			return nil, ""
		}
		if body, contentType, ok := in.ownBody(p); ok {
			return body, contentType
		}
	}
	id := in.msg.ID()
	if v.outcome == queue.Unavailable || v.outcome == queue.Invalid {
		id = "" // there is no such callback
	}
	in.scratch = appendBuiltin(in.scratch[:0], p.told, id, v.reason)
	return in.scratch, ""
}

func (in *intake) ownBody(p *reply) (body []byte, contentType string, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			in.replyPanicked(r)
			body, contentType, ok = nil, "", false
		}
	}()
	body, contentType, err := p.body(&in.msg)
	return body, contentType, err == nil
}

func (in *intake) headerValue(h replyHeader) (value string, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			in.replyPanicked(r)
			value, ok = "", false
		}
	}()
	value, err := h.make(&in.msg)
	return value, err == nil
}

func (in *intake) replyPanicked(p any) {
	if in.rc.logs.allow(time.Now()) {
		in.rc.log.Error("reply panicked", "source", in.src.Name,
			"panic", queue.PanicText(p), "stack", string(debug.Stack()))
	}
}

// appendBuiltin appends the built-in body: the outcome, the id of the callback if there is one, and
// the reason if something is wrong.
func appendBuiltin(b []byte, o queue.Outcome, id, reason string) []byte {
	b = append(b, `{"outcome":"`...)
	b = append(b, o...)
	b = append(b, '"')
	if id != "" {
		b = append(append(append(b, `,"id":"`...), id...), '"')
	}
	if reason != "" {
		b = appendText(append(b, `,"error":`...), reason)
	}
	return append(b, "}\n"...)
}
