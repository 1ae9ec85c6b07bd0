package config

import (
	"path"
	"strings"
	"time"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/expr"
	"github.com/oncekit/once/internal/value"
)

// The defaults of a source.
const (
	defaultRetention = 7 * 24 * time.Hour
	defaultMaxBody   = 1 << 20
	defaultMaxDepth  = 64
)

// MaxDepth is the deepest nesting of a body that a source may let in (max_depth).
const MaxDepth = 1000

// SourceSettings is what the file says of a source beside what the inbox takes.
type SourceSettings struct {
	Name string
	// Flow that works the callbacks; empty: Handler does.
	Flow string
	// Handler says who works the callbacks, and how; nil: Flow does.
	Handler *Handler
}

// sources reads where callbacks come from.
func (r *reader) sources(o *object) {
	n := o.get("sources")
	taken := map[string]*node{}
	shown := &out{byKey: map[string]*out{}}
	r.each(n, "sources", func(key, value *node) {
		src := r.object(value, "the source "+quote(key.text))
		if src.n != nil {
			r.source(key, src, taken)
		}
		shown.put(key.text, src.out)
	})
	if n != nil {
		o.out.put("sources", shown)
	}
	if n != nil && n.kind == mapKind && len(n.entries) == 0 {
		r.add(n.at, "sources is empty; expected at least one source")
	}
}

func (r *reader) source(key *node, o *object, taken map[string]*node) {
	s := &inbox.Source{Name: key.text}
	defer r.withoutItem("the source has no `each`, so its messages are one callback each")()
	showPreset(o)
	r.paths(o, s, taken)
	s.Form = o.choice("content", "json", "json", "form") == "form"
	vars, each := r.elements(o, s)
	keys := r.keys(key, o, vars)
	s.Key = keyFunc(keys)
	if p := r.expression(o.exprNode("event"), "event", vars); p != nil {
		s.Event = textFunc(p, "event")
	}
	r.needsEvent(key, o)
	r.fingerprint(o, s, vars)
	r.keeping(key, o, s)
	s.Verifier = r.auth(o)
	r.publicURL(o, s)
	s.Probes = r.probes(o)
	s.Replies = r.replies(o)
	r.target(key, o, s, vars)
	showCleared(o)
	o.close("the source " + quote(key.text))
	r.c.Sources = append(r.c.Sources, s)
	r.planSource(s, keys, each)
}

// keeping reads how much is taken in, how long it is kept, and what a repeat is.
func (r *reader) keeping(key *node, o *object, s *inbox.Source) {
	s.Retention = o.duration("retention", defaultRetention)
	if s.KeepBody = o.duration("keep_body", 0); s.KeepBody > s.Retention {
		r.add(o.get("keep_body").pos(), "keep_body is longer than retention (%s); expected at most"+
			" as long", formatDuration(s.Retention))
	}
	s.NewAfter = r.repeats(o, s.Retention)
	s.MaxBody = o.size("max_body", defaultMaxBody)
	if s.MaxBody > r.c.Limits.Bodies {
		at := o.get("max_body").pos()
		if at.line == 0 {
			at = key.at
		}
		r.add(at, "max_body is above limits.bodies (%s), which all bodies share;"+
			" expected less", formatSize(r.c.Limits.Bodies))
	}
	s.MaxDepth = o.whole("max_depth", defaultMaxDepth, 1, MaxDepth)
	s.ReplaceDead = o.choice("on_conflict", "keep_first", "keep_first", "replace_dead") ==
		"replace_dead"
	for _, n := range o.texts("drop_headers", "names of headers") {
		if r.headerName(n, "drop_headers") {
			s.DropHeaders = append(s.DropHeaders, n.text)
		}
	}
}

// needsEvent tells a source whose messages have no event where one decides what happens to them.
func (r *reader) needsEvent(key *node, o *object) {
	to := o.n.member("to")
	if o.has("event") || to.member("flow") == nil && !o.has("events") {
		return
	}
	r.add(key.at, "the source %s has no `event`; expected an expression that names what happened,"+
		" such as \"body.type\"", quote(key.text))
}

// exprNode returns a field that is an expression and shows it as it stands.
func (o *object) exprNode(name string) *node {
	n := o.get(name)
	if n != nil && n.kind != badKind {
		o.out.put(name, nodeOut(n))
	}
	return n
}

// paths reads the paths beside /in/NAME. No two sources can share one.
func (r *reader) paths(o *object, s *inbox.Source, taken map[string]*node) {
	const want = "paths such as /callbacks/rcs"
	for _, n := range o.texts("paths", want) {
		p := n.text
		switch {
		case !strings.HasPrefix(p, "/") || strings.ContainsAny(p, "?#{}* \\") ||
			path.Clean(p) != p && path.Clean(p)+"/" != p:
			r.add(n.at, "paths holds %s; expected %s, without . or .. or a query", n.show(), want)
		case p == "/in" || strings.HasPrefix(p, "/in/"):
			r.add(n.at, "paths holds %s; below /in/ each source is reached by its name already,"+
				" expected another path", n.show())
		case taken[p] != nil:
			r.add(n.at, "the path %s is taken, first in line %d; expected each path once",
				n.show(), taken[p].at.line)
		default:
			taken[p] = n
			s.Paths = append(s.Paths, p)
		}
	}
}

// fingerprint reads what is compared between a callback and its repeat: the body, or the element
// where a message carries several callbacks.
func (r *reader) fingerprint(o *object, s *inbox.Source, vars expr.VarSet) {
	root := "body"
	hasItems := vars&expr.Item != 0
	if hasItems {
		root = "item"
	}
	how := o.choice("fingerprint", "json", "json", "raw")
	if how == "raw" && hasItems {
		r.add(o.n.member("fingerprint").pos(), "fingerprint: raw compares the bytes of a message;"+
			" with `each` its elements are compared one by one, expected json")
	}
	nodes := o.texts("ignore", "paths such as "+root+".time")
	var ignore []value.Path
	for _, n := range nodes {
		if n.kind != textKind {
			continue
		}
		// Paths of values begin at the top, whatever that is called.
		path, ok := strings.CutPrefix(n.text, root)
		p, err := value.ParsePath("body" + path)
		switch {
		case !ok || path != "" && path[0] != '.' && path[0] != '[':
			r.add(n.at, "ignore holds %s; expected a path in the %s such as %s.time", n.show(),
				map[string]string{"body": "body", "item": "element, which alone is compared with" +
					" `each`,"}[root], root)
		case err != nil && n.filled:
			r.add(n.at, "ignore holds %s; expected a path such as %s.time", masked, root)
		case err != nil:
			msg := strings.Replace(err.Error(), `"body`, `"`+root, 1)
			r.add(n.at, "ignore: %s; expected a path such as %[2]s.time or %[2]s.items[0].time",
				msg, root)
		default:
			ignore = append(ignore, p)
		}
	}
	if how == "raw" && len(nodes) > 0 {
		r.add(nodes[0].at, "ignore needs fingerprint: json; raw compares every byte")
	}
	s.Fingerprint = fingerprintFunc(how, ignore, hasItems)
}

// headerName tells a text that can't be the name of a header (RFC 9110, section 5.1).
func (r *reader) headerName(n *node, what string) bool {
	const marks = "!#$%&'*+-.^_`|~"
	for _, c := range n.text {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune(marks, c) {
			r.add(n.at, "%s holds %s; expected the name of a header", what, n.show())
			return false
		}
	}
	return true
}
