package config

import (
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/oncekit/once/outbox"
)

// DestinationConfig says where effects go to. Exactly one of MQTT, HTTP and Log is set.
type DestinationConfig struct {
	Name   string
	MQTT   *MQTTConfig
	HTTP   *HTTPConfig
	Log    *LogConfig
	Policy Policy
	// Probe is how long after a refusal (401, 403) one effect is tried again.
	Probe time.Duration
}

// Kind returns mqtt, http or log.
func (d *DestinationConfig) Kind() string {
	switch {
	case d.MQTT != nil:
		return "mqtt"
	case d.HTTP != nil:
		return "http"
	}
	return "log"
}

// MQTTConfig is a broker.
type MQTTConfig struct {
	URL      string // mqtt://HOST[:PORT] or mqtts://…
	Version  string // 5 or 3.1.1
	QoS      int
	ClientID string // empty: a random one
	User     string
	Password string
	TLS      *outbox.TLSFiles
	// MaxPacket in bytes; 0: what the broker says.
	MaxPacket int
	// MaxInFlight is how many messages may wait for their acknowledgement.
	MaxInFlight int
	KeepAlive   time.Duration
	// NoSubscriberDone makes a message that nobody subscribes to count as delivered.
	NoSubscriberDone bool
}

// HTTPConfig is a service that is called.
type HTTPConfig struct {
	URL      string
	Header   map[string]string
	Bearer   string
	User     string // of the Basic scheme
	Password string
	TLS      *outbox.TLSFiles
}

// LogConfig is a destination that prints effects as they would go out.
type LogConfig struct {
	// URL of the destination that is stood in for; shown before the path.
	URL string
}

// The defaults of a destination.
const (
	defaultKeepAlive   = 30 * time.Second
	defaultMaxInFlight = 64
	defaultProbe       = time.Minute
	highestQoS         = 2
)

// destinations reads where effects go to.
func (r *reader) destinations(o *object) {
	n := o.get("destinations")
	shown := &out{byKey: map[string]*out{}}
	r.each(n, "destinations", func(key, value *node) {
		d := r.object(value, "the destination "+quote(key.text))
		if d.n != nil {
			r.destination(key, d)
		}
		shown.put(key.text, d.out)
	})
	if n != nil {
		o.out.put("destinations", shown)
	}
}

func (r *reader) destination(key *node, o *object) {
	d := DestinationConfig{Name: key.text}
	kinds := []string{"mqtt", "http", "log"}
	var chosen []string
	for _, kind := range kinds {
		if o.has(kind) {
			chosen = append(chosen, kind)
		}
	}
	if len(chosen) != 1 {
		for _, kind := range kinds {
			o.get(kind)
		}
		r.add(key.at, "the destination %s has %d kinds; expected exactly one of mqtt, http, log",
			quote(key.text), len(chosen))
	} else {
		r.destinationKind[key.text] = chosen[0]
		switch chosen[0] {
		case "mqtt":
			d.MQTT = r.mqtt(o.object("mqtt"))
		case "http":
			d.HTTP = r.http(o)
		case "log":
			d.Log = r.logged(o.object("log"))
		}
	}
	d.Policy = r.policy(o, "retry", "block")
	d.Probe = o.duration("probe", defaultProbe)
	o.close("the destination " + quote(key.text))
	r.c.Destinations = append(r.c.Destinations, d)
}

func (r *reader) logged(o *object) *LogConfig {
	c := &LogConfig{}
	if n := o.textNode("url", "a URL to show"); n != nil {
		o.out.put("url", r.urlOut(n))
		c.URL = n.text
	}
	o.close("log")
	return c
}

func (r *reader) mqtt(o *object) *MQTTConfig {
	c := &MQTTConfig{URL: r.url(o, "mqtt", "mqtts")}
	if u, err := url.Parse(c.URL); err == nil && c.URL != "" &&
		(u.Path != "" && u.Path != "/" || u.RawQuery != "") {
		r.add(o.get("url").pos(), "url has a path; expected mqtt://HOST[:PORT] or mqtts://…")
	}
	c.Version = o.choice("version", "5", "5", "3.1.1")
	c.QoS = o.whole("qos", 1, 0, highestQoS)
	c.ClientID = o.text("client_id", "", "a name that is unique at the broker")
	c.User = o.text("username", "", "a text")
	c.Password = o.secret("password", "a password")
	if c.Password != "" && c.User == "" {
		r.add(o.get("password").pos(), "password has no username; expected both or none")
	}
	c.TLS = r.tls(o, c.URL)
	const lowestPacket, highestPacket = 128, 268_435_460 // MQTT 5, section 1.5.5
	size := o.size("max_packet", 0)
	if size != 0 && (size < lowestPacket || size > highestPacket) {
		r.add(o.get("max_packet").pos(), "max_packet is out of range; expected 128B to 256MiB")
	}
	if size == 0 && c.Version == "3.1.1" {
		r.warn(o.at(), "a broker of MQTT 3.1.1 doesn't say what is too large for it, and may"+
			" acknowledge what it drops; better max_packet, as the broker has it")
	}
	c.MaxPacket = int(min(size, highestPacket))
	const highestInFlight = 4096
	c.MaxInFlight = o.whole("max_in_flight", defaultMaxInFlight, 1, highestInFlight)
	c.KeepAlive = o.duration("keep_alive", defaultKeepAlive)
	c.NoSubscriberDone = o.choice("no_subscriber", "retry", "retry", "done") == "done"
	o.close("mqtt")
	return c
}

// http reads {http: {url: …}}. The timeout may stand inside, where people look for it, or beside.
func (r *reader) http(o *object) *HTTPConfig {
	h := o.object("http")
	c := &HTTPConfig{URL: r.url(h, "http", "https")}
	c.Header = r.staticHeaders(h)
	c.Bearer = h.secret("bearer", "a token")
	if basic := h.optional("basic"); basic != nil {
		c.User = basic.text("username", "", "a text")
		c.Password = basic.secret("password", "a password")
		if basic.n != nil && c.User == "" && !basic.has("username") {
			r.add(basic.at(), "basic has no `username`; expected one")
		}
		if c.Bearer != "" {
			r.add(basic.at(), "both bearer and basic are here; expected one of them")
		}
		basic.close("basic")
	}
	c.TLS = r.tls(h, c.URL)
	if n := h.get("timeout"); n != nil {
		if o.has("timeout") {
			r.add(n.at, "timeout is here twice, inside http and beside it; expected it once")
		} else {
			o.n.entries = append(o.n.entries, entry{&node{kind: textKind, raw: "timeout",
				text: "timeout", at: n.at}, n})
		}
	}
	h.close("http")
	return c
}

// url reads a required URL without login.
func (r *reader) url(o *object, schemes ...string) string {
	n := o.textNode("url", "a URL such as "+schemes[0]+"://HOST")
	if n == nil {
		if !o.has("url") && o.n != nil {
			r.add(o.at(), "`url` is missing; expected %s://HOST[:PORT]", schemes[0])
		}
		return ""
	}
	o.out.put("url", r.urlOut(n))
	if !r.checkURL(n, "url", schemes...) {
		return ""
	}
	return n.text
}

// checkURL tells a text that is no URL without login.
func (r *reader) checkURL(n *node, name string, schemes ...string) bool {
	msg := checkURL(n.text, schemes...)
	if u, err := url.Parse(n.text); err == nil && u.User != nil {
		msg = "holds a login; expected it in fields of its own"
	}
	switch {
	case msg == "":
		return true
	case n.filled:
		msg = "is no URL of the right form; expected " + schemes[0] + "://HOST[:PORT]"
	}
	r.add(n.at, "%s %s", name, msg)
	return false
}

// urlOut shows a URL without its login.
func (r *reader) urlOut(n *node) *out {
	if u, err := url.Parse(n.text); err == nil && u.User != nil && !n.filled {
		u.User = url.User(masked)
		return textOut(u.String())
	}
	return nodeOut(n)
}

// staticHeaders reads headers that are the same for each request.
func (r *reader) staticHeaders(o *object) map[string]string {
	n := o.get("headers")
	if n == nil || n.kind == badKind {
		return nil
	}
	if n.kind != mapKind {
		r.add(n.at, "headers is %s; expected a map of header names to texts", n.what())
		return nil
	}
	o.out.put("headers", nodeOut(n))
	list := map[string]string{}
	for _, e := range n.entries {
		switch {
		case !r.headerName(e.key, "headers") || r.reserved(e.key) || r.hidden(e.key, e.value):
		case e.value.kind == badKind:
		case e.value.kind != textKind && e.value.kind != numberKind && e.value.kind != boolKind:
			r.add(e.value.at, "the header %s is %s; expected a text", quote(e.key.text),
				e.value.what())
		default:
			list[e.key.text] = e.value.text
		}
	}
	return list
}

// hidden tells a header whose value was hidden when the file was printed.
func (l *loader) hidden(key, value *node) bool {
	if !secretField(key.text) || value.text != masked {
		return false
	}
	l.add(value.at, "the header %s is %s, which stands for a secret that was hidden; expected the"+
		" value itself", quote(key.text), masked)
	return true
}

// reserved tells a header that belongs to the connection (RFC 9110, section 7.6.1) or to once.
func (r *reader) reserved(n *node) bool {
	switch http.CanonicalHeaderKey(n.text) {
	case "Connection", "Content-Length", "Expect", "Fence", "Host", "Idempotency-Key",
		"Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Te", "Traceparent",
		"Tracestate", "Trailer", "Transfer-Encoding", "Upgrade":
		r.add(n.at, "the header %s is set by once or by the connection; expected another one",
			n.show())
		return true
	}
	return false
}

// tls reads the names of files; they are opened when the sender is built.
func (r *reader) tls(o *object, url string) *outbox.TLSFiles {
	t := o.optional("tls")
	if t == nil {
		return nil
	}
	if scheme, _, _ := strings.Cut(url, "://"); scheme == "http" || scheme == "mqtt" {
		r.add(o.get("tls").pos(), "tls has no meaning with %s://; expected %ss:// or no tls",
			scheme, scheme)
	}
	f := &outbox.TLSFiles{CA: r.pem(t, "ca"), Cert: r.pem(t, "cert"), Key: r.pem(t, "key")}
	f.ServerName = t.text("server_name", "", "the name in the server's certificate")
	if (f.Cert == "") != (f.Key == "") {
		r.add(t.at(), "cert and key belong together; expected both or none")
	}
	t.close("tls")
	return f
}

// pem reads the path of a PEM file.
func (r *reader) pem(o *object, name string) string {
	return r.path(o, name, "the path of a PEM file")
}

// path reads the path of a file, relative to the configuration. It may be empty.
func (r *reader) path(o *object, name, want string) string {
	n := o.textNode(name, want)
	if n == nil {
		return ""
	}
	p := n.text
	if p != "" && !filepath.IsAbs(p) {
		p = filepath.Join(r.dir, p)
	}
	o.out.put(name, textOut(p))
	if n.filled {
		o.out.put(name, nodeOut(n))
	}
	return p
}
