package config

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/oncekit/once/flow"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/expr"
)

// Config is a configuration that was checked. It is not changed after it was loaded and may be read
// by many goroutines.
type Config struct {
	// File as it was named by the caller.
	File string
	// Listen is the senders' address, host:port.
	Listen string
	// TLS of the senders' listener; nil: none.
	TLS *TLS
	// Proxies are the networks whose word on a sender's address and URL is believed.
	Proxies []netip.Prefix
	Admin   Admin
	Store   Store
	// Drain is how long a shutdown may take.
	Drain  time.Duration
	Limits Limits
	Log    Log

	// Sources as the inbox takes them, and what else the file says of each, in the order of the
	// file.
	Sources        []*inbox.Source
	SourceSettings []SourceSettings
	// Machines are the flows, and what else the file says of each.
	Machines     []*flow.Machine
	FlowSettings []FlowSettings
	// Kinds are the kinds of resources that the file declares.
	Kinds        []flow.ResourceKind
	Destinations []DestinationConfig
	// Databases are those in which callbacks change documents.
	Databases []DatabaseConfig
	// Gateway is what the file says of the gateway; nil: nothing.
	Gateway *Gateway
	Migrate Migrate
	// Warnings are what the file may say and its author will hardly mean, in the order of the
	// places.
	Warnings []Problem

	plan      Plan
	effective *out
}

// Admin is the listener for the operator: API, metrics, health.
type Admin struct {
	Listen string
	// Token that a caller has to show; empty: none, and Listen is a loopback address.
	Token string
	// Hosts are further values of the Host header that are accepted.
	Hosts []string
}

// TLS names the PEM files of the senders' listener.
type TLS struct {
	Cert, Key string
	// ClientCA has the authorities of senders' certificates; empty: none is asked for.
	ClientCA string
}

// Store is where rows are kept.
type Store struct {
	// URL as it was configured: sqlite:/PATH, its path made absolute, or one of PostgreSQL or
	// MongoDB, which may hold a password.
	URL string
	// Path of the SQLite file; empty: it is PostgreSQL or MongoDB.
	Path string
	// Database of PostgreSQL or MongoDB; empty: it is SQLite.
	Database string
	// Create lets a store that isn't there be made.
	Create bool
}

// InPostgreSQL reports whether the store is a PostgreSQL.
func (s Store) InPostgreSQL() bool { return IsPostgreSQL(s.URL) }

// InMongoDB reports whether the store is a MongoDB.
func (s Store) InMongoDB() bool { return isMongoDB(s.URL) }

// Name is the store as people are told of it: never with a password.
func (s Store) Name() string {
	if s.Database == "" {
		return s.Path
	}
	scheme, rest, _ := strings.Cut(s.URL, "://")
	rest, _, _ = strings.Cut(rest, "?")
	return scheme + "://" + rest[strings.LastIndex(rest, "@")+1:]
}

// Limits bound what the senders' listener takes.
type Limits struct {
	Bodies      int64         // bytes of all bodies in flight together
	Connections int           // open at the same time
	Headers     int           // bytes of a request's headers
	ReadTimeout time.Duration // of a request, its body included
	IdleTimeout time.Duration // of a connection between requests, and for a piece of an answer
	Rejected    int           // refused messages kept per source
}

// Log says what is logged, and how.
type Log struct {
	Level  string // debug, info, warn or error
	Format string // text or json
}

// Load reads a file. A wrong file is an *[Error]; one that can't be read is told as such.
func Load(path string, env Env) (*Config, error) {
	b, err := readLimited(path, maxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, b, env)
}

// Parse reads a configuration from memory. The name stands in problems; relative paths begin in its
// directory. All errors are *[Error].
func Parse(name string, src []byte, env Env) (*Config, error) {
	dir, err := filepath.Abs(filepath.Dir(name))
	if err != nil {
		dir = filepath.Dir(name)
	}
	text := string(src)
	if len(text) >= 3 && text[:3] == "\uFEFF" {
		text = text[3:]
	}
	l := &loader{
		problems: &problems{file: name}, src: newSource(text), dir: dir, env: env,
		name: regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`),
	}
	t := &tree{problems: l.problems, src: l.src, fill: newFiller(env, dir)}
	root := t.parse(text)
	if root == nil {
		return nil, l.err(l.src)
	}
	if l.expr, err = expr.New(); err != nil {
		l.add(place{}, "prepare expressions: %s", err)
		return nil, l.err(l.src)
	}
	c := l.config(root)
	if err := l.err(l.src); err != nil {
		return nil, err
	}
	c.File, c.Warnings = name, located(l.warnings, l.src)
	if c.Gateway != nil {
		for field, p := range c.Gateway.at {
			c.Gateway.at[field] = located([]Problem{p}, l.src)[0]
		}
	}
	for i := range c.Databases {
		d := &c.Databases[i]
		d.at = located([]Problem{d.at}, l.src)[0]
	}
	return c, nil
}

// order is the order of the fields as they are printed.
func order() []string {
	return []string{"listen", "tls", "proxies", "admin",
		"store", "create", "shutdown", "limits", "log", "sources",
		"flows", "resources", "destinations", "databases", "gateway", "migrate"}
}

// config reads the file's top level.
func (l *loader) config(root *node) *Config {
	o := l.object(root, "the file")
	if o.n == nil {
		return nil
	}
	r := &reader{loader: l, c: &Config{}, root: root}
	r.settings(o)
	r.declareNames(o)
	r.presets(o)
	r.feedsOf = r.fedBy()
	r.destinations(o)
	r.resources(o)
	r.flows(o)
	r.databases(o)
	r.sources(o)
	r.keepLongEnough()
	r.gateway(o)
	r.migrate(o)
	slices.SortFunc(o.known, func(a, b string) int {
		return slices.Index(order(), a) - slices.Index(order(), b)
	})
	o.close("the file")
	if !o.has("sources") && !o.has("gateway") {
		l.add(o.at(), "`sources` is missing; expected at least one, or a `gateway`")
	}
	slices.SortStableFunc(o.out.keys, func(a, b string) int {
		return slices.Index(order(), a) - slices.Index(order(), b)
	})
	r.c.effective = o.out
	if len(l.all) == 0 {
		r.checkFlows()
	}
	return r.c
}

// reader fills a Config. Names are known before what refers to them is read.
type reader struct {
	*loader
	c    *Config
	root *node
	// names of what the file declares, in its order
	flowNames, kindNames, destinationNames, sourceNames []string
	databaseNames                                       []string
	destinationKind                                     map[string]string
	// databaseAt is where each database is declared, writesTo the database of each source, and
	// targetKeys where the member was named by which the documents of a collection are found.
	databaseAt map[string]*object
	writesTo   map[string]string
	targetKeys map[[2]string]targetKey
	// feeds is the longest retention of the sources of each flow.
	feeds map[string]time.Duration
	// unread is true when a source isn't read because its preset isn't known.
	unread bool
	// feedsOf are the sources of each flow, and item is the variable item if the flow that is being
	// read has it.
	feedsOf map[string][]feed
	item    expr.VarSet
}

// declareNames collects the names that others refer to.
func (r *reader) declareNames(o *object) {
	names := func(field string) (list []string) {
		if n := o.n.member(field); n != nil && n.kind == mapKind {
			for _, e := range n.entries {
				list = append(list, e.key.raw)
			}
		}
		return list
	}
	r.flowNames, r.kindNames = names("flows"), names("resources")
	r.destinationNames, r.sourceNames = names("destinations"), names("sources")
	r.databaseNames, r.databaseAt = names("databases"), map[string]*object{}
	r.writesTo, r.targetKeys = map[string]string{}, map[[2]string]targetKey{}
	r.destinationKind, r.feeds = map[string]string{}, map[string]time.Duration{}
}

// setting reads one of the few values that the environment and the command line can replace.
func (r *reader) setting(o *object, name, variable, override, def, want string,
	wrong func(string) string,
) string {
	n := o.textNode(name, want)
	value, from, at := def, "", place{}
	if n != nil {
		value, at = n.text, n.at
	}
	if r.env.Getenv != nil {
		if v, ok := r.env.Getenv(variable); ok {
			value, from = v, variable
		}
	}
	if override != "" {
		value, from = override, "command line"
	}
	if msg := wrong(value); msg != "" && (from != "" || n != nil) {
		shown := quote(value)
		if secretField(name) || n != nil && n.filled && from == "" {
			shown = masked
		}
		r.addFrom(from, at, name+" is "+shown+"; "+msg)
	}
	switch {
	case secretField(name) && value != "":
		o.out.put(name, textOut(masked))
	case from == "" && n != nil && n.filled:
		o.out.put(name, nodeOut(n))
	case value != "":
		o.out.put(name, textOut(value))
	}
	return value
}

// addFrom tells a problem with a value that may come from elsewhere than the file.
func (r *reader) addFrom(from string, at place, msg string) {
	if from == "" {
		r.add(at, "%s", msg)
		return
	}
	r.tell(Problem{File: from, Msg: msg})
}
