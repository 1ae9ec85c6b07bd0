package oncehttp

import (
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
			if strings.HasPrefix(name, "X-Forwarded-") || name == "X-Real-Ip" {
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
