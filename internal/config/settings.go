package config

import (
	"path/filepath"
	"strings"
	"time"
)

// The defaults of the settings that concern the process as a whole.
const (
	defaultListen      = "127.0.0.1:8080"
	defaultAdminListen = "127.0.0.1:8081"
	defaultStore       = "sqlite:once.db"
	defaultDrain       = 30 * time.Second
	defaultBodies      = 64 << 20
	defaultConnections = 4096
	defaultHeaders     = 64 << 10
	defaultReadTimeout = 30 * time.Second
	defaultIdleTimeout = 2 * time.Minute
	defaultRejected    = 1000
)

const wantAddress = "an address such as 127.0.0.1:8080 or :8080"

func wrongAddress(s string) string {
	if validAddress(s) {
		return ""
	}
	return "expected " + wantAddress
}

// settings reads everything beside sources, flows, resources and destinations.
func (r *reader) settings(o *object) {
	r.listeners(o)
	r.senderTLS(o)
	r.proxies(o)
	r.store(o)
	drain := o.object("shutdown")
	r.c.Drain = drain.duration("drain", defaultDrain)
	drain.close("shutdown")
	r.limits(o)
	log := o.object("log")
	r.c.Log.Level = log.choice("level", "info", "debug", "info", "warn", "error")
	r.c.Log.Format = log.choice("format", "text", "text", "json")
	log.close("log")
}

// listeners reads the two addresses. The operator's one is open to this machine alone unless it
// asks for a token.
func (r *reader) listeners(o *object) {
	c := r.c
	c.Listen = r.setting(o, "listen", "ONCE_LISTEN", r.env.Override.Listen,
		defaultListen, wantAddress, wrongAddress)
	a := o.object("admin")
	c.Admin.Listen = r.setting(a, "listen", "ONCE_ADMIN_LISTEN", r.env.Override.AdminListen,
		defaultAdminListen, wantAddress, wrongAddress)
	c.Admin.Token = r.setting(a, "token", "ONCE_ADMIN_TOKEN", r.env.Override.AdminToken, "",
		"a secret text of at least 16 characters", r.wrongToken(a))
	for _, n := range a.texts("hosts", "names that a browser may use for this listener") {
		if strings.ContainsAny(n.text, "/ @?#*") {
			r.add(n.at, "hosts holds %s; expected a name such as once.example.net", n.show())
		}
		c.Admin.Hosts = append(c.Admin.Hosts, n.text)
	}
	a.close("admin")
	at := a.n.member("listen").pos()
	if at.line == 0 {
		at = a.at()
	}
	if !validAddress(c.Listen) || !validAddress(c.Admin.Listen) {
		return
	}
	if c.Admin.Token == "" && !isLoopback(c.Admin.Listen) {
		r.add(at, "admin listens on %s, which others can reach, without a token; expected"+
			" admin.token, or a loopback address such as %s", quote(c.Admin.Listen),
			defaultAdminListen)
	}
	if sameListener(c.Listen, c.Admin.Listen) {
		r.add(at, "admin listens on %s, the senders' address; expected another port",
			quote(c.Admin.Listen))
	}
}

// senderTLS reads with what the senders' listener proves itself, and whose certificates of senders
// it trusts.
func (r *reader) senderTLS(o *object) {
	t := o.optional("tls")
	if t == nil {
		return
	}
	r.c.TLS = &TLS{Cert: r.pem(t, "cert"), Key: r.pem(t, "key"), ClientCA: r.pem(t, "client_ca")}
	if t.n != nil && (!t.has("cert") || !t.has("key")) {
		r.add(t.at(), "tls needs `cert` and `key`; expected the paths of both PEM files")
	}
	t.close("tls")
}

// minToken is the shortest token that can't be guessed over a network in useful time.
const minToken = 16

func (r *reader) wrongToken(a *object) func(string) string {
	return func(s string) string {
		if s == "" && !a.has("token") || len(s) >= minToken {
			return ""
		}
		if s == masked {
			return "it stands for a secret that was hidden; expected a text of at least 16" +
				" characters"
		}
		return "expected a secret text of at least 16 characters"
	}
}

// wantStore is what a store's URL has to be.
const wantStore = "sqlite:PATH, postgres://HOST/DATABASE or mongodb://HOST/DATABASE"

// store reads where rows are kept. A relative path in the file begins at the file; one from the
// command line or the environment where the process stands.
func (r *reader) store(o *object) {
	wrong := func(s string) string {
		if path, ok := strings.CutPrefix(s, "sqlite:"); ok && path != "" &&
			!strings.ContainsAny(path, "?#\x00") && path != ":memory:" {
			return ""
		}
		hosts, database := hostsOf(s)
		if isMongoDB(s) && database != "" || IsPostgreSQL(s) && hosts != "" && database != "" {
			return ""
		}
		return "expected " + wantStore
	}
	url := r.setting(o, "store", "ONCE_STORE", r.env.Override.Store, defaultStore, wantStore, wrong)
	n := o.n.member("store")
	asWritten := n != nil && n.filled && !r.storeFromOutside()
	if isMongoDB(url) || IsPostgreSQL(url) {
		_, database := hostsOf(url)
		r.c.Store = Store{URL: url, Database: database, Create: o.boolean("create", true)}
		shown := url
		if asWritten {
			shown = n.raw
		}
		if holdsPassword(shown) {
			o.out.put("store", textOut(masked))
		}
		return
	}
	path := strings.TrimPrefix(url, "sqlite:")
	if !filepath.IsAbs(path) && !r.storeFromOutside() {
		path = filepath.Join(r.dir, path)
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	r.c.Store = Store{URL: "sqlite:" + path, Path: path, Create: o.boolean("create", true)}
	if !asWritten {
		o.out.put("store", textOut(r.c.Store.URL))
	}
}

func (r *reader) storeFromOutside() bool {
	if r.env.Override.Store != "" {
		return true
	}
	if r.env.Getenv == nil {
		return false
	}
	_, ok := r.env.Getenv("ONCE_STORE")
	return ok
}

func (r *reader) limits(o *object) {
	l := o.object("limits")
	r.c.Limits = Limits{
		Bodies:      l.size("bodies", defaultBodies),
		Connections: l.whole("connections", defaultConnections, 1, 1_000_000),
		Headers:     int(l.size("headers", defaultHeaders)),
		ReadTimeout: l.duration("read_timeout", defaultReadTimeout),
		IdleTimeout: l.duration("idle_timeout", defaultIdleTimeout),
		Rejected:    l.whole("rejected", defaultRejected, 1, 1_000_000),
	}
	l.close("limits")
}
