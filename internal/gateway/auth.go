package gateway

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/oncekit/once/oncehttp"
)

// auth asks a service whether a caller may, and who it is: a GET with the headers of the request,
// and of what was asked in X-Forwarded-Method, -Host, -Proto, -Uri and -For, as other proxies do.
type auth struct {
	cfg  *Config
	base *http.Transport
}

// Bounds of what is read of its answers.
const (
	maxRefusal = 1 << 20  // of a refusal, which is passed on
	maxDrained = 64 << 10 // of any other, which is thrown away
	authIdle   = 256
)

func newAuth(cfg *Config) *auth {
	t := cfg.Gateway.Timeouts
	return &auth{cfg, &http.Transport{
		DialContext:         (&net.Dialer{Timeout: t.Dial}).DialContext,
		TLSHandshakeTimeout: t.Dial, IdleConnTimeout: t.Idle, DisableCompression: true,
		MaxIdleConns: authIdle, MaxIdleConnsPerHost: authIdle,
	}}
}

// notAsked are headers that belong to the body, the exchange or the key, not to the caller.
var notAsked = []string{"Content-Length", "Content-Type", "Content-Encoding", "Content-Md5",
	"Content-Digest", "Transfer-Encoding", "Te", "Trailer", "Expect", "Connection", "Keep-Alive",
	"Proxy-Connection", "Proxy-Authorization", "Upgrade", "Range", "Accept-Encoding",
	"Idempotency-Key", "X-Idempotency-Key"}

// ask returns the headers of an answer of 2xx. Any other is passed on, and false is returned.
func (a *auth) ask(w http.ResponseWriter, r *http.Request) (http.Header, bool) {
	ctx, cancel := context.WithTimeout(r.Context(), a.cfg.Gateway.Auth.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.cfg.Gateway.Auth.URL, nil)
	if err != nil {
		a.unavailable(w, err)
		return nil, false
	}
	a.fill(req.Header, r)
	res, err := a.base.RoundTrip(req) // which follows no redirect
	if err != nil {
		a.unavailable(w, err)
		return nil, false
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		_, _ = io.CopyN(io.Discard, res.Body, maxDrained) // so that the connection can be kept
		return res.Header, true
	}
	a.pass(w, res)
	return nil, false
}

func (a *auth) fill(h http.Header, r *http.Request) {
	dropped := connectionNames(r.Header)
	for name, values := range r.Header {
		// A service behind CGI, WSGI or Rack can't tell X_Forwarded_Uri from ours.
		read := http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
		if !slices.Contains(notAsked, read) && !dropped[name] &&
			!strings.HasPrefix(read, "X-Forwarded-") && read != "Forwarded" && read != "X-Real-Ip" {
			h[name] = values
		}
	}
	if h["User-Agent"] == nil {
		h.Set("User-Agent", "")
	}
	host, proto, client := r.Host, "http", ""
	if r.TLS != nil {
		proto = "https"
	}
	if ip, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		peer := ip.Addr().Unmap().WithZone("")
		client = peer.String()
		has := func(p netip.Prefix) bool { return p.Contains(peer) }
		if slices.ContainsFunc(a.cfg.Proxies, has) {
			if before := r.Header["X-Forwarded-For"]; len(before) > 0 {
				client = strings.Join(before, ", ") + ", " + client
			}
			host = orElse(r.Header.Get("X-Forwarded-Host"), host)
			proto = orElse(r.Header.Get("X-Forwarded-Proto"), proto)
		}
	}
	h.Set("X-Forwarded-Method", r.Method)
	h.Set("X-Forwarded-Uri", r.URL.RequestURI())
	h.Set("X-Forwarded-Host", host)
	h.Set("X-Forwarded-Proto", proto)
	h.Set("X-Forwarded-For", client)
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// connectionNames are the headers that Connection names.
func connectionNames(h http.Header) map[string]bool {
	out := map[string]bool{}
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			out[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	return out
}

// pass hands a refusal on to the client.
func (a *auth) pass(w http.ResponseWriter, res *http.Response) {
	dropped := connectionNames(res.Header)
	h := w.Header()
	for name, values := range res.Header {
		switch name {
		case "Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade", "Te",
			"Trailer", "Content-Length":
		default:
			if !dropped[name] {
				h[name] = values
			}
		}
	}
	status := res.StatusCode
	if status < http.StatusOK || status == http.StatusSwitchingProtocols {
		status = http.StatusBadGateway
	}
	w.WriteHeader(status)
	_, _ = io.CopyN(w, res.Body, maxRefusal) // a client that left gets nothing
}

// unavailable refuses: nobody knows whether the caller may.
func (a *auth) unavailable(w http.ResponseWriter, err error) {
	a.cfg.Logger.Warn("the service that is asked for callers did not answer", "error", err)
	w.Header().Set("Retry-After", "1")
	oncehttp.WriteProblem(w, "auth-unavailable", http.StatusServiceUnavailable,
		"Nobody knows who sends this", "The service that is asked for callers did not answer. "+
			"The request was not worked; send it again later.", a.cfg.Gateway.Docs)
}
