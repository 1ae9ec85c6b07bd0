package oncehttp

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/oncekit/once"
)

// KeyRule says what a request without a key gets.
type KeyRule string

// The rules. The zero value is KeyOptional.
const (
	// KeyOptional: it passes, unguarded.
	KeyOptional KeyRule = "optional"
	// KeyRequired: it is refused (400).
	KeyRequired KeyRule = "required"
)

// ScopeFunc says whose key a request bears. An error of [once.ErrScopeMissing] refuses the request
// (401); any other error is told as 503. It must not read the body.
type ScopeFunc func(*http.Request) (once.Scope, error)

// NoScope is the choice that all callers share their keys.
func NoScope(*http.Request) (once.Scope, error) { return once.NoScope(), nil }

// Config says how requests are guarded. Store and Scope are required; the zero value of the other
// fields works.
type Config struct {
	// Store keeps the records.
	Store once.Store
	// Guard has the times and what follows when an attempt is lost. Its Observe is told of every
	// guarded request.
	Guard once.Config
	// Scope says to whom a key belongs: an account, a tenant, a user; never a token that changes
	// between a request and its repeat. [NoScope] has to be written out.
	Scope ScopeFunc
	// Key says whether a request needs one. Default KeyOptional.
	Key KeyRule
	// Methods that are guarded. Default POST and PATCH. GET, HEAD, OPTIONS and TRACE never are.
	Methods []string
	// Content says what counts as the same request. The zero value works.
	Content Content
	// MaxBody bounds the body of a guarded request in bytes; more is refused (413) before anything
	// is claimed. Default 32 MiB.
	MaxBody int64
	// Bodies bounds the bytes of all bodies that are held at one time; what comes above it is
	// refused (503) before anything is claimed. Default: 4 GiB for this middleware alone, most of
	// which can only be in temporary files.
	Bodies *Budget
	// SpoolFrom is the size from which a body is kept in a temporary file while it is read.
	// Default 256 KiB.
	SpoolFrom int64
	// SpoolDir is where. Default os.TempDir().
	SpoolDir string
	// MaxAnswer bounds the body of an answer that is kept, in bytes. A larger one reaches its
	// caller all the same; a repeat is told that the work is done and the answer was not kept.
	// Default 1 MiB.
	MaxAnswer int
	// Keep says what follows from the status of an answer. Default [KeepDefault].
	Keep func(status int) Verdict
	// DropHeaders names headers of answers that are not kept, besides those of [DroppedHeaders].
	DropHeaders []string
	// KeepHeaders names headers that are kept although [DroppedHeaders] has them.
	KeepHeaders []string
	// Authorize asks whether the caller may, after the key is read and before anything else: before
	// each claim and each replay. It returns the request to go on with, whose context may hold what
	// Scope needs, and true; or false, and then it has answered. It must not read the body.
	// Default: everybody may.
	Authorize func(w http.ResponseWriter, r *http.Request) (*http.Request, bool)
	// BodyTimeout bounds the time between two pieces of a body. It replaces the read deadline of
	// the server while the body is read. Default 0: the server's deadline holds.
	BodyTimeout time.Duration
	// EndWithClient ends the work when its client leaves. Default false: it goes on, and its answer
	// is kept for the repeat.
	EndWithClient bool
	// FailOpen works a request although the store did not answer, without its key: the answer bears
	// [HeaderGuarded], and a repeat may be worked again. Not with once.Hold. Default false: 503.
	FailOpen bool
	// Seal encrypts what is kept of answers. What was kept without it, or under a key that it
	// hasn't, can't be replayed any more, nor is the work run again (500). Default: nothing is
	// encrypted.
	Seal *Sealer
	// Observe is told once of each request of a guarded method: [FirstAnswer], [Replayed],
	// [Unguarded], [NotAuthorized], [ClientLeft], [FailedOpen], or the name of the [Problem] that
	// it got.
	// Default: nobody.
	Observe func(r *http.Request, what string)
	// Docs is the URL of a page about this API's keys: the link of a problem. Default: none.
	Docs string
	// Logger gets what an operator should know: never a key, nor content. Default: discards.
	Logger *slog.Logger
}

// Content says what of a request's content makes it the same request, besides its method, path,
// query and media type.
type Content struct {
	// Host is true if the host belongs to it: for a proxy in front of several.
	Host bool
	// Rules by media type, such as "application/json" or "text/*". A type without a rule counts by
	// its content: JSON for application/json and what ends in +json, multipart and form for those
	// of browsers, raw bytes for all others.
	Rules map[string]ContentRule
	// Ignore names members of JSON bodies that may differ, as JSON pointers (RFC 6901) such as
	// /sent_at. In a body of more than 1 MiB, which counts by its bytes, nothing is ignored.
	Ignore []string
	// MaxDecoded bounds a compressed body after decoding, in bytes; more is refused (413). Default
	// 64 MiB.
	MaxDecoded int64
}

// What Config.Observe is told of requests that were no problem.
const (
	FirstAnswer = "first"
	Replayed    = "replay"
	Unguarded   = "unguarded"
	// NotAuthorized: Config.Authorize has answered.
	NotAuthorized = "not-authorized"
	// ClientLeft: it left before its request was claimed, such as while it waited for an earlier
	// one. Nothing was run for it.
	ClientLeft = "client-left"
)

// ContentRule is a way to compare bodies.
type ContentRule string

// The rules.
const (
	// ContentRaw: the bytes, after decoding a Content-Encoding of gzip.
	ContentRaw ContentRule = "raw"
	// ContentJSON: the JSON value. Order of members and white space don't count, numbers count by
	// their exact value.
	ContentJSON ContentRule = "json"
	// ContentForm: the fields of application/x-www-form-urlencoded, by name; their order counts
	// only within one name.
	ContentForm ContentRule = "form"
	// ContentMultipart: the parts in order, by their headers (name, file name, type) and bytes; not
	// the boundary.
	ContentMultipart ContentRule = "multipart"
)

// Verdict is what follows from an answer.
type Verdict byte

// The verdicts.
const (
	// Keep: it is kept and replayed.
	Keep Verdict = iota
	// Free: the work had no effect; the key is free for another try of the same request.
	Free
	// Ambiguous: the work may have had its effect: a lost attempt, which once.OnUnknown decides.
	Ambiguous
)

// KeepDefault is the policy of answers by default. Kept: 2xx, 3xx, 400, 402, 404, 405, 410, 413,
// 415 and 422. Ambiguous: 500, 502, 504 and other 5xx, since they can follow an effect. Free: 501
// and 503, and all other 4xx.
//
// An http.TimeoutHandler within the guarded handler answers 503 while the work that it gave up may
// still have its effect, which would free the key: put it outside of the middleware, bound the work
// by once.Config.MaxWork instead, or say Ambiguous of 503.
func KeepDefault(status int) Verdict {
	switch {
	case status < 400:
		return Keep
	case status == http.StatusNotImplemented, status == http.StatusServiceUnavailable:
		return Free
	case status >= 500:
		return Ambiguous
	}
	switch status {
	case 400, 402, 404, 405, 410, 413, 415, 422:
		return Keep
	}
	return Free
}

const (
	defaultMaxBody    = 32 << 20
	defaultSpoolFrom  = 256 << 10
	defaultBodies     = 4 << 30
	defaultMaxAnswer  = 1 << 20
	defaultMaxDecoded = 64 << 20
)

// neverGuarded are the methods that are safe (RFC 9110, section 9.2.1), and CONNECT.
var neverGuarded = []string{"GET", "HEAD", "OPTIONS", "TRACE", "CONNECT"}

func (c Config) withDefaults() (Config, error) {
	if c.Store == nil {
		return c, errors.New("no Store is given")
	}
	if c.Scope == nil {
		return c, errors.New("no Scope is given: say to whom a key belongs, or set NoScope if " +
			"all callers share their keys")
	}
	if c.FailOpen && c.Guard.OnUnknown == once.Hold {
		return c, errors.New("FailOpen would work again what once.Hold keeps for a person")
	}
	if c.Key == "" {
		c.Key = KeyOptional
	}
	if c.Key != KeyOptional && c.Key != KeyRequired {
		return c, fmt.Errorf("the rule of keys is %q, want %q or %q", c.Key, KeyOptional,
			KeyRequired)
	}
	if len(c.Methods) == 0 {
		c.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	for _, m := range c.Methods {
		if m == "" || m != strings.ToUpper(m) || slices.Contains(neverGuarded, m) {
			return c, fmt.Errorf("method %q can't be guarded", m)
		}
	}
	setDefault(&c.MaxBody, defaultMaxBody)
	setDefault(&c.SpoolFrom, defaultSpoolFrom)
	if c.Bodies == nil {
		c.Bodies = NewBudget(defaultBodies)
	}
	setDefault(&c.MaxAnswer, defaultMaxAnswer)
	setDefault(&c.Content.MaxDecoded, defaultMaxDecoded)
	rules, err := c.Content.checkedRules()
	if err != nil {
		return c, err
	}
	c.Content.Rules = rules
	if c.Keep == nil {
		c.Keep = KeepDefault
	}
	if c.Observe == nil {
		c.Observe = func(*http.Request, string) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Guard.Logger == nil {
		c.Guard.Logger = c.Logger
	}
	return c, nil
}

// checkedRules returns the rules by media types in lower case. A rule that is misspelt would
// compare bodies in another way than was meant.
func (c *Content) checkedRules() (map[string]ContentRule, error) {
	rules := make(map[string]ContentRule, len(c.Rules))
	for media, rule := range c.Rules {
		name := strings.ToLower(media)
		if kind, sub, ok := strings.Cut(name, "/"); !ok || kind == "" || kind == "*" || sub == "" ||
			strings.ContainsAny(name, "; \t") {
			return nil, fmt.Errorf("Content.Rules: %q is no media type, such as text/plain "+
				"or text/*", media)
		}
		switch rule {
		case ContentRaw, ContentJSON, ContentForm, ContentMultipart:
		default:
			return nil, fmt.Errorf("Content.Rules: %s has the rule %q, want %q, %q, %q or %q",
				media, rule, ContentRaw, ContentJSON, ContentForm, ContentMultipart)
		}
		if _, twice := rules[name]; twice {
			return nil, fmt.Errorf("Content.Rules: %s is there twice", name)
		}
		rules[name] = rule
	}
	return rules, nil
}

func setDefault[N ~int | ~int64](n *N, value N) {
	if *n <= 0 {
		*n = value
	}
}
