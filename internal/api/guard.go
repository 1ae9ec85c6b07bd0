package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// guard says who may speak to the operator's listener. A page of another origin may not, although
// the browser that shows it can reach a loopback address: neither by a name that resolves to it
// (DNS rebinding, seen in Host) nor by a request across origins (seen in Origin and
// Sec-Fetch-Site).
type guard struct {
	hosts map[string]bool
	want  [sha256.Size]byte
	asks  bool // for a token
}

func newGuard(cfg Config) (*guard, error) {
	g := &guard{hosts: map[string]bool{}, want: digest(cfg.Token), asks: cfg.Token != ""}
	host := ""
	if cfg.Listen != "" {
		var err error
		if host, _, err = net.SplitHostPort(cfg.Listen); err != nil {
			return nil, fmt.Errorf("listen address: %w", err)
		}
		host = plainHost(host)
	}
	if !g.asks && !isLoopback(host) {
		return nil, fmt.Errorf("listen address %q is not a loopback address: a token is required",
			cfg.Listen)
	}
	if host != "" {
		g.hosts[host] = true
	}
	for _, h := range cfg.Hosts {
		if ip, err := netip.ParseAddr(h); err == nil {
			g.hosts[ip.Unmap().String()] = true
			continue
		}
		name, ok := hostOf(h)
		if !ok {
			return nil, fmt.Errorf("host %q: want a name or an address", h)
		}
		g.hosts[name] = true
	}
	return g, nil
}

// plainHost returns a host as it is compared: lower case, addresses in their one short form.
func plainHost(h string) string {
	h = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(h, "["), "]"))
	if ip, err := netip.ParseAddr(h); err == nil {
		return ip.Unmap().String()
	}
	return h
}

// isLoopback reports whether a plain host can only be this machine. Other names below localhost are
// left out: not every resolver keeps them to itself.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// hostOf cuts the port off a Host header or an origin; ok is false for what is no host.
func hostOf(s string) (host string, ok bool) {
	u, err := url.Parse("http://" + s)
	if err != nil || u.Host != s || u.Hostname() == "" {
		return "", false
	}
	return plainHost(u.Hostname()), true
}

// origin refuses a request that this listener was not meant by, or that another origin has sent.
func (g *guard) origin(r *http.Request) error {
	host, ok := hostOf(r.Host)
	if !ok {
		return problemf(http.StatusForbidden, "the Host header names no host")
	}
	if !isLoopback(host) && !g.hosts[host] && !isLocal(r, host) {
		return problemf(http.StatusForbidden,
			"host %q is not one of this listener; allow it with admin.hosts", host)
	}
	switch origins := r.Header.Values("Origin"); {
	case len(origins) > 1, len(origins) == 1 && !sameOrigin(origins[0], r.Host):
		return problemf(http.StatusForbidden, "the request comes from another origin")
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return problemf(http.StatusForbidden, "the request comes from another site")
		}
	}
	return nil
}

// isLocal reports whether the host is the address at which the connection arrived. It matters for a
// listener on all addresses: an address, unlike a name, can't be rebound.
func isLocal(r *http.Request, host string) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	at, err := netip.ParseAddrPort(addr.String())
	return err == nil && at.Addr().Unmap().WithZone("").String() == host
}

// sameOrigin compares an Origin header with the Host header. The scheme is not compared: a proxy
// may end TLS before us, and one address speaks one of the two.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" &&
		strings.EqualFold(u.Host, host)
}

// token refuses a request without the token (RFC 6750, section 2.1).
func (g *guard) token(r *http.Request) error {
	if !g.asks || g.knows(r) {
		return nil
	}
	detail := "a token is required: Authorization: Bearer TOKEN"
	if r.Header.Get("Authorization") != "" {
		detail = "wrong token: want admin.token as Authorization: Bearer TOKEN"
	}
	p := problemf(http.StatusUnauthorized, "%s", detail)
	p.header = http.Header{"Www-Authenticate": {`Bearer realm="once"`}}
	return p
}

// knows reports whether the request shows the token, in a time that tells nothing about it.
func (g *guard) knows(r *http.Request) bool {
	lines := r.Header.Values("Authorization")
	if len(lines) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	got := digest(strings.TrimLeft(token, " "))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], g.want[:]) == 1
}
