package config

import (
	"errors"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/expr"
	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/queue"
)

// The content types of what templates make.
const (
	typeJSON = "application/json"
	typeText = "text/plain; charset=utf-8"
)

func outcomes() []queue.Outcome {
	return []queue.Outcome{queue.Accepted, queue.Duplicate, queue.Conflict, queue.Invalid,
		queue.Unauthorized, queue.Unavailable}
}

// replies reads what senders are told. An outcome that is missing keeps its built-in reply.
func (r *reader) replies(o *object) map[queue.Outcome]inbox.Reply {
	all := o.optional("reply")
	if all == nil {
		return nil
	}
	defer r.withoutItem("a reply is made for a message as a whole")()
	replies := map[queue.Outcome]inbox.Reply{}
	for _, outcome := range outcomes() {
		if one := all.optional(string(outcome)); one != nil && one.n != nil {
			lowest := lowestStatus
			switch outcome {
			case queue.Unauthorized, queue.Unavailable:
				lowest = 400 // a 2xx would tell the sender to stop
			}
			replies[outcome] = r.replyOf(one, string(outcome), lowest, varsReply)
		}
	}
	all.close("reply")
	return replies
}

// lowestStatus is that of a reply: 1xx are no answers.
const lowestStatus = 200

// replyOf reads one reply. what names it for people.
func (r *reader) replyOf(o *object, what string, lowest int, vars expr.VarSet) inbox.Reply {
	var reply inbox.Reply
	if o.has("status") {
		reply.Status = o.whole("status", 0, lowest, 599)
	}
	opts := expr.TemplateOptions{ErrorEmpty: true}
	reply.Header = map[string]func(*inbox.Message) (string, error){}
	for name, t := range r.headers(o, vars, opts) {
		reply.Header[name] = headerFunc(t)
	}
	n := o.get("body")
	if n != nil && n.kind != badKind {
		o.out.put("body", nodeOut(n))
		if tree := r.tree(n, "body", vars, opts); tree != nil {
			reply.Body = bodyFunc(tree)
		}
	}
	const noContent = 204
	if reply.Status == noContent && n != nil {
		r.add(n.at, "a reply with status 204 has no body; expected 200, or no body")
	}
	o.close("the reply " + what)
	return reply
}

// errNoHeader leaves a header out of a reply.
var errNoHeader = errors.New("the header has no value")

// headerFunc makes the value of a reply's header; one that is absent has none.
func headerFunc(t *expr.Template) func(*inbox.Message) (string, error) {
	return func(m *inbox.Message) (string, error) {
		vars := messageVars(m)
		v, err := t.Eval(&vars)
		switch {
		case err != nil:
			return "", err
		case v == expr.Absent:
			return "", errNoHeader
		}
		return value.Text(v)
	}
}

// headers reads a map of header names to texts with ${…}.
func (r *reader) headers(o *object, vars expr.VarSet,
	opts expr.TemplateOptions,
) map[string]*expr.Template {
	n := o.get("headers")
	if n == nil || n.kind == badKind {
		return nil
	}
	if n.kind != mapKind {
		r.add(n.at, "headers is %s; expected a map of header names to texts", n.what())
		return nil
	}
	o.out.put("headers", nodeOut(n))
	list := map[string]*expr.Template{}
	for _, e := range n.entries {
		if !r.headerName(e.key, "headers") || r.hidden(e.key, e.value) {
			continue
		}
		if t := r.template(e.value, "the header "+e.key.text, vars, opts); t != nil {
			list[e.key.text] = t
		}
	}
	return list
}

// bodyRoom is the first buffer of a reply's body in bytes: most are shorter.
const bodyRoom = 192

// bodyFunc makes a reply's body: a tree as JSON, its members in the order of the file; a text as it
// is.
func bodyFunc(tree *expr.Tree) func(*inbox.Message) ([]byte, string, error) {
	if tree.IsText() {
		return func(m *inbox.Message) ([]byte, string, error) {
			vars := messageVars(m)
			return encode(tree, &vars)
		}
	}
	return func(m *inbox.Message) ([]byte, string, error) {
		vars := messageVars(m)
		b, err := tree.AppendJSON(make([]byte, 0, bodyRoom), &vars)
		return b, typeJSON, err
	}
}

// encode evaluates to bytes and their content type; an absent value is no bytes.
func encode(e evaluator, vars *expr.Vars) ([]byte, string, error) {
	v, err := e.Eval(vars)
	if err != nil || v == expr.Absent {
		return nil, "", err
	}
	if s, ok := v.(string); ok {
		return []byte(s), typeText, nil
	}
	b, err := value.Encode(v)
	return b, typeJSON, err
}
