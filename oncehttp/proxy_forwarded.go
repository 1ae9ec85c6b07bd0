package oncehttp

import (
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strings"
)

// forwarded says who the client is. What it says of itself is dropped, unless it is a trusted
// proxy: everybody could write it.
func (p *Proxy) forwarded(pr *httputil.ProxyRequest) {
	trusted := p.trusts(pr.In.RemoteAddr)
	if !trusted {
		for name := range pr.Out.Header {
			if saysWho(name) {
				delete(pr.Out.Header, name)
			}
		}
		pr.SetXForwarded()
		return
	}
	pr.Out.Header["X-Forwarded-For"] = pr.In.Header["X-Forwarded-For"]
	pr.SetXForwarded()
	for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values := pr.In.Header[name]; len(values) > 0 {
			pr.Out.Header[name] = values
		}
	}
}

// saysWho tells headers in which proxies say who the client is.
func saysWho(name string) bool {
	return strings.HasPrefix(name, "X-Forwarded-") || name == "X-Real-Ip" || name == "Forwarded"
}

// dropLookalikes drops headers that are called as those that a proxy answers for, but for an
// underscore: a service behind CGI, WSGI or Rack reads X_Forwarded_For as X-Forwarded-For (RFC
// 3875, section 4.1.18), and Idempotency_Fence as Idempotency-Fence.
func dropLookalikes(h http.Header) {
	for name := range h {
		if !strings.Contains(name, "_") {
			continue
		}
		read := http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
		if saysWho(read) || strings.HasPrefix(read, "Idempotency-") || read == HeaderXKey {
			delete(h, name)
		}
	}
}

// dropTunnels drops an upgrade to a protocol over which other requests could be sent: to HTTP/2
// (RFC 7540, section 3.2), or to TLS (RFC 2817). The service would take them without their route,
// their key and what this proxy says of their client. The request goes on without the upgrade.
func dropTunnels(h http.Header) {
	for protocol := range strings.SplitSeq(h.Get("Upgrade"), ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(protocol), "/")
		switch strings.ToLower(name) {
		case "h2c", "h2", "http", "tls":
			delete(h, "Upgrade")
			delete(h, "Connection")
			delete(h, "Http2-Settings")
		}
	}
}

// trusts reports whether a peer's word on its clients counts.
func (p *Proxy) trusts(peer string) bool {
	if len(p.cfg.Trusted) == 0 {
		return false
	}
	addr, err := netip.ParseAddrPort(peer)
	if err != nil {
		return false
	}
	ip := addr.Addr().Unmap().WithZone("")
	for _, network := range p.cfg.Trusted {
		if network.Contains(ip) {
			return true
		}
	}
	return false
}
