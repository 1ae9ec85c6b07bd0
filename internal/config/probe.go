package config

import (
	"strings"
	"time"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/expr"
)

// maxProbes is how many probes the inbox takes.
const maxProbes = 32

// probes reads what is answered without being stored, such as the test of a connection.
func (r *reader) probes(o *object) []inbox.Probe {
	const want = "a list such as [{text: test, reply: {status: 200}}]"
	n := o.get("probes")
	if n == nil || n.kind == badKind {
		return nil
	}
	if n.kind != listKind || len(n.items) == 0 {
		r.add(n.at, "probes is %s; expected %s", emptyOr(n), want)
		return nil
	}
	if len(n.items) > maxProbes {
		r.add(n.items[maxProbes].at, "there are more than %d probes; expected fewer, since each"+
			" message is compared with them", maxProbes)
	}
	defer r.withoutItem("a probe is a message as a whole")()
	var list []inbox.Probe
	shown := &out{list: true}
	for _, item := range n.items {
		p := r.object(item, "a probe")
		if p.n != nil {
			list = append(list, r.probe(p))
		}
		shown.items = append(shown.items, p.out)
	}
	o.out.put("probes", shown)
	return list
}

func emptyOr(n *node) string {
	if n.kind == listKind {
		return "empty"
	}
	return n.what()
}

// probe reads one. Its text is compared before the body is decoded, so there is no body in its
// reply then.
func (r *reader) probe(o *object) inbox.Probe {
	var p inbox.Probe
	vars := varsMessage
	if o.has("text") == o.has("when") {
		r.add(o.at(), "a probe has one of `text` and `when`; expected {text: test, …} for a body"+
			" of that text alone, or {when: \"EXPRESSION\", …}")
	}
	if n := o.textNode("text", "the body's text, in quotes"); n != nil {
		vars = varsMessage &^ expr.Body
		o.out.put("text", nodeOut(n))
		if n.text == "" || strings.TrimSpace(n.text) != n.text {
			r.add(n.at, "text is empty, or begins or ends with a blank, which never counts;"+
				" expected a text such as test")
		}
		p.Text = []byte(n.text)
	}
	if c := r.expression(o.exprNode("when"), "when", varsMessage); c != nil {
		p.When = conditionFunc(c)
	}
	if reply := o.object("reply"); reply.n != nil {
		p.Reply = r.replyOf(reply, "probe", lowestStatus, vars)
	}
	if p.Reply.Status == 0 {
		p.Reply.Status = 200
	}
	o.close("a probe")
	return p
}

// conditionFunc makes a condition on a message. What is missing is no match: a probe is asked for
// each message, whatever it is.
func conditionFunc(p *expr.Program) func(*inbox.Message) (bool, error) {
	return func(m *inbox.Message) (bool, error) {
		vars := messageVars(m)
		v, err := p.Eval(&vars)
		if err != nil {
			return false, nil
		}
		matches, _ := v.(bool)
		return matches, nil
	}
}

// repeats reads what a message is that comes again under its key; 0: a duplicate, however late.
func (r *reader) repeats(o *object, retention time.Duration) time.Duration {
	n := o.get("repeats")
	if n == nil || n.kind == badKind {
		return 0
	}
	if n.kind != mapKind {
		if n.kind != textKind || n.text != "duplicate" {
			r.add(n.at, "repeats is %s; expected duplicate, or {new_after: 10m}", n.shown())
		}
		o.out.put("repeats", nodeOut(n))
		return 0
	}
	sub := o.object("repeats")
	after := sub.duration("new_after", 0)
	switch at := sub.n.member("new_after"); {
	case at == nil:
		r.add(sub.at(), "repeats has no `new_after`; expected duplicate, or {new_after: 10m}")
	case after > retention:
		r.add(at.at, "new_after is longer than retention (%s), after which a repeat is new anyway;"+
			" expected less", formatDuration(retention))
	}
	sub.close("repeats")
	return after
}
