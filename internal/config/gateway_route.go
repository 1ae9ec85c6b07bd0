package config

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/oncekit/once/internal/route"
	"github.com/oncekit/once/internal/value"
)

// Route says how requests are treated. The most specific one counts.
type Route struct {
	// Match is a method and a path; Pattern is what it means.
	Match   string
	Pattern route.Pattern
	// Key is required, optional or ignored.
	Key       string
	Retention time.Duration
	// Wait is how long a repeat waits for the first one; 0: it is rejected (409).
	Wait time.Duration
	// HoldUnknown keeps what had an attempt of unknown result for a person.
	HoldUnknown bool
	// MaxWork bounds one attempt.
	MaxWork time.Duration
	// FailOpen works requests although the store did not answer.
	FailOpen bool
	// StoreErrors says which answers of 5xx are kept: never, ambiguous or always.
	StoreErrors string
	// MaxBody and MaxAnswer are in bytes.
	MaxBody, MaxAnswer int64
	// Ignore are JSON pointers to what may differ, Content the rules by media type.
	Ignore                   []string
	Content                  map[string]string
	KeepHeaders, DropHeaders []string
}

// unguarded are the methods whose requests are never recorded.
var unguarded = []string{"GET", "HEAD", "OPTIONS", "TRACE", "CONNECT"}

func (r *reader) route(o *object, c *Gateway) Route {
	out := Route{Match: o.text("match", "", "a method and a path such as POST /payments")}
	if n := o.get("match"); n != nil && n.kind == textKind && n.text != "" {
		p, err := route.Parse(n.text)
		var unknown *route.MethodError
		switch {
		case errors.As(err, &unknown):
			near := nearest(unknown.Method, route.Methods())
			if near != "" {
				near = "did you mean " + quote(near) + "? "
			}
			r.add(n.at, "match is %s; %s%v", n.show(), near, err)
		case err != nil:
			r.add(n.at, "match is %s; %v", n.show(), err)
		case slices.Contains(unguarded, p.Method()):
			r.add(n.at, "match is %s; expected a method that changes something: %s has no keys",
				n.show(), p.Method())
		default:
			out.Pattern = p
		}
	} else if n == nil && !o.has("match") {
		r.add(o.at(), "a route has no `match`; expected a method and a path such as POST /payments")
	}
	out.Key = o.choice("key", "optional", "required", "optional", "ignored")
	if out.Key == "ignored" {
		r.ignored(o)
		return out
	}
	out.Retention = o.duration("retention", defaultGatewayRetention)
	if out.Retention < c.Lease {
		r.add(o.get("retention").pos(), "retention is below the lease of %s; expected at least as"+
			" long", formatDuration(c.Lease))
	}
	r.inFlight(o, &out)
	r.onUnknown(o, &out, c)
	out.MaxWork = o.duration("max_work", defaultGatewayWork)
	out.StoreErrors = o.choice("store_errors", "never", "never", "ambiguous", "always")
	out.MaxBody = o.size("max_body", defaultGatewayMaxBody)
	out.MaxAnswer = o.size("max_answer", defaultMaxAnswer)
	if out.MaxAnswer > maxKeptAnswer {
		r.add(o.get("max_answer").pos(), "max_answer is above %s; expected at most that",
			formatSize(maxKeptAnswer))
	}
	r.sameRequest(o, &out)
	r.answerHeaders(o, &out)
	o.close("a route")
	return out
}

// guardFields are the fields of a route that say how its keys are treated.
var guardFields = []string{"retention", "in_flight", "on_unknown", "fail_open", "max_work",
	"store_errors", "max_body", "max_answer", "ignore", "content", "keep_headers", "drop_headers"}

// ignored refuses what a route without keys would not heed.
func (r *reader) ignored(o *object) {
	for _, name := range guardFields {
		if o.has(name) {
			r.add(o.n.member(name).pos(), "%s has no meaning with `key: ignored`; expected no such"+
				" line, or key: optional", name)
		}
		o.known = append(o.known, name)
	}
	o.close("a route")
}

// ofConnection are headers that belong to one connection (RFC 9110, section 7.6.1): kept, they
// would lie about the one of the replay.
var ofConnection = []string{"connection", "keep-alive", "proxy-connection", "te", "trailer",
	"transfer-encoding", "upgrade"}

// answerHeaders reads which headers of answers are kept and which are not.
func (r *reader) answerHeaders(o *object, out *Route) {
	keep := o.texts("keep_headers", "names of headers")
	for _, n := range o.texts("drop_headers", "names of headers") {
		if r.headerName(n, "drop_headers") {
			out.DropHeaders = append(out.DropHeaders, n.text)
		}
	}
	for _, n := range keep {
		switch {
		case !r.headerName(n, "keep_headers"):
		case slices.Contains(ofConnection, strings.ToLower(n.text)):
			r.add(n.at, "keep_headers names %s, which belongs to one connection; expected headers"+
				" that mean the same in a replay", quote(n.text))
		case slices.ContainsFunc(out.DropHeaders, func(name string) bool {
			return strings.EqualFold(name, n.text)
		}):
			r.add(n.at, "keep_headers names %s, and so does drop_headers; expected it in one of"+
				" them", quote(n.text))
		default:
			out.KeepHeaders = append(out.KeepHeaders, n.text)
		}
	}
}

// maxKeptAnswer is the largest body that the stores keep with its headers.
const maxKeptAnswer = 15 << 20

func (r *reader) inFlight(o *object, out *Route) {
	n := o.get("in_flight")
	if n != nil && n.kind == mapKind {
		wait := o.object("in_flight")
		out.Wait = wait.duration("wait", defaultTimeout)
		wait.close("in_flight")
		return
	}
	if n != nil && n.kind == textKind && n.text != "reject" {
		r.add(n.at, "in_flight is %s; expected reject or {wait: 10s}", n.show())
		return
	}
	if n == nil || n.kind != badKind {
		o.choice("in_flight", "reject", "reject")
	}
}

// onUnknown reads what follows when an attempt is lost. Where a key is required nobody but the
// author of the API can choose it.
func (r *reader) onUnknown(o *object, out *Route, c *Gateway) {
	def := "retry"
	if out.Key == "required" {
		def = ""
		if !o.has("on_unknown") {
			r.add(o.at(), "a route with `key: required` says what follows when an attempt is lost;"+
				" expected on_unknown: hold (nothing runs again until a person has decided), or"+
				" on_unknown: retry (the next repeat runs it again)")
		}
	}
	out.HoldUnknown = o.choice("on_unknown", def, "retry", "hold") == "hold"
	if out.HoldUnknown && c.Records != "" && !c.InMongoDB() && !c.InPostgreSQL() &&
		!c.MayForget {
		r.add(o.get("on_unknown").pos(), "on_unknown is hold, and Redis can forget what waits for"+
			" a person (a failover, a restart); expected redis_may_forget: true in the gateway to"+
			" accept that, or records in the store, in PostgreSQL or in MongoDB")
	}
	out.FailOpen = o.boolean("fail_open", false)
	if out.FailOpen && out.HoldUnknown {
		r.add(o.get("fail_open").pos(), "fail_open works again what on_unknown: hold keeps for a"+
			" person; expected one of them")
	}
}

var mediaType = regexp.MustCompile(`^[a-zA-Z0-9!#$&^_.+-]+/([a-zA-Z0-9!#$&^_.+-]+|\*)$`)

// sameRequest reads what of a request's content makes it the same request.
func (r *reader) sameRequest(o *object, out *Route) {
	const want = "JSON pointers such as /sent_at"
	for _, n := range o.texts("ignore", want) {
		if _, err := value.ParsePointer(n.text); err != nil || !strings.HasPrefix(n.text, "/") {
			r.add(n.at, "ignore holds %s; expected %s", n.show(), want)
			continue
		}
		out.Ignore = append(out.Ignore, n.text)
	}
	n := o.get("content")
	if n == nil || n.kind == badKind {
		return
	}
	if n.kind != mapKind {
		r.add(n.at, "content is %s; expected a map of media types to raw, json, form or multipart",
			n.what())
		return
	}
	words := []string{"raw", "json", "form", "multipart"}
	out.Content = map[string]string{}
	for _, e := range n.entries {
		switch {
		case !mediaType.MatchString(e.key.raw):
			r.add(e.key.at, "content has %s; expected a media type such as text/plain or text/*",
				quote(e.key.raw))
		case e.value.kind != textKind || !slices.Contains(words, e.value.text):
			r.add(e.value.at, "content is %s; %s", e.value.shown(), oneOf(e.value.text, words))
		default:
			out.Content[strings.ToLower(e.key.raw)] = e.value.text
		}
	}
	o.out.put("content", nodeOut(n))
	json := out.Content["application/json"]
	if json == "" {
		json = out.Content["application/*"]
	}
	others := slices.ContainsFunc(slices.Collect(maps.Values(out.Content)),
		func(rule string) bool { return rule == "json" })
	if len(out.Ignore) > 0 && json != "" && !others {
		r.warn(n.at, "content says of application/json that it counts as %s, where `ignore` has no"+
			" meaning: only json has members", json)
	}
}
