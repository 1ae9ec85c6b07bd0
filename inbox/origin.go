package inbox

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// maxHops bounds how many addresses of X-Forwarded-For are looked at.
const maxHops = 32

// unknownPeer stands for the address of a sender whom a trusted proxy has named in a way that can't
// be read.
const unknownPeer = "unknown"

// proxies are the networks whose word on a sender's address and URL is believed.
type proxies []netip.Prefix

func (ps proxies) trust(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	for _, p := range ps {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// forwarded is what trusted proxies say of a request; an empty field says nothing.
type forwarded struct {
	peer   string // address of the sender, with its port if that was told
	scheme string // http or https
	host   string // with its port unless that is the standard one
	prefix string // a path that was cut off, without a slash at its end
}

// resolve returns what is known of a request that came through proxies; nil if it came from
// somebody else. The list in X-Forwarded-For is read from its end: each proxy adds whom it has
// seen, so the first address that is no proxy's is the sender's, and what stands before it is only
// what that one claims. Where the other headers are lists, too, the entry of the same proxy counts.
func (ps proxies) resolve(r *http.Request) *forwarded {
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !ps.trust(remote.Addr()) {
		return nil
	}
	f := &forwarded{peer: r.RemoteAddr}
	hops, depth := list(r.Header, "X-Forwarded-For"), 0
	for depth < min(len(hops), maxHops) {
		text, addr := hop(hops[len(hops)-1-depth])
		if !addr.IsValid() { // what stands before it can't be believed, and it is no proxy's own
			f.peer = unknownPeer
			break
		}
		f.peer = text
		depth++
		if !ps.trust(addr) {
			break
		}
	}
	entry := func(name string) string {
		values := list(r.Header, name)
		if len(values) == 0 {
			return ""
		}
		return values[max(0, len(values)-max(depth, 1))]
	}
	if s := strings.ToLower(entry("X-Forwarded-Proto")); s == "http" || s == "https" {
		f.scheme = s
	}
	if h := entry("X-Forwarded-Host"); !strings.ContainsAny(h, " /?#@\\") {
		f.host = h
	}
	f.host = withPort(f.host, r.Host, f.schemeOf(r), entry("X-Forwarded-Port"))
	if p := entry("X-Forwarded-Prefix"); strings.HasPrefix(p, "/") &&
		!strings.ContainsAny(p, " ?#\\") {
		f.prefix = strings.TrimRight(p, "/")
	}
	return f
}

// hop reads an address with or without a port, in quotes and brackets or without, and returns it as
// it is shown. Its zone, which can be any text, is dropped.
func hop(s string) (string, netip.Addr) {
	if unquoted, ok := strings.CutPrefix(s, `"`); ok {
		s = strings.TrimSuffix(unquoted, `"`)
	}
	if inner, ok := strings.CutPrefix(s, "["); ok && strings.HasSuffix(inner, "]") {
		s = strings.TrimSuffix(inner, "]")
	}
	if ap, err := netip.ParseAddrPort(s); err == nil {
		addr := ap.Addr().WithZone("")
		return netip.AddrPortFrom(addr, ap.Port()).String(), addr
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return "", netip.Addr{}
	}
	addr = addr.WithZone("")
	return addr.String(), addr
}

func (f *forwarded) schemeOf(r *http.Request) string {
	switch {
	case f != nil && f.scheme != "":
		return f.scheme
	case r.TLS != nil:
		return "https"
	}
	return "http"
}

// withPort adds a port that was told apart from the host.
func withPort(host, fallback, scheme, port string) string {
	if host == "" {
		host = fallback
	}
	standard := map[string]string{"http": "80", "https": "443"}
	if port == "" || port == standard[scheme] || strings.Trim(port, "0123456789") != "" {
		return host
	}
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host // it has one already
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// list returns the members of a header that is a list (RFC 9110, section 5.6.1).
func list(h http.Header, name string) []string {
	var all []string
	for _, line := range h[name] {
		for part := range strings.SplitSeq(line, ",") {
			if part = strings.TrimSpace(part); part != "" {
				all = append(all, part)
			}
		}
	}
	return all
}

// URL returns the URL under which the sender reached us, its path and query as they were written:
// below the PublicURL of the source, else as trusted proxies say, else as the request has it.
func (m *Message) URL() string {
	var tail strings.Builder
	if m.url != nil {
		tail.WriteString(m.url.EscapedPath())
	} else {
		tail.WriteString((&url.URL{Path: m.Path}).EscapedPath())
	}
	if m.RawQuery != "" || m.url != nil && m.url.ForceQuery {
		tail.WriteString("?" + m.RawQuery)
	}
	if m.publicURL != "" {
		return m.publicURL + tail.String()
	}
	scheme, host, prefix := "http", m.Host, ""
	if m.TLS != nil {
		scheme = "https"
	}
	if f := m.forwarded; f != nil {
		host, prefix = f.host, f.prefix
		if f.scheme != "" {
			scheme = f.scheme
		}
	}
	return scheme + "://" + host + prefix + tail.String()
}

// checkPublicURL returns a base URL without a slash at its end.
func checkPublicURL(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", errors.New("the public URL is not http://HOST or https://HOST")
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.User != nil {
		return "", errors.New("the public URL has a query, a fragment or a login")
	}
	return strings.TrimRight(s, "/"), nil
}
