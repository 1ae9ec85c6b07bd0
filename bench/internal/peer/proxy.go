package peer

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

// maxIdle is how many connections to its origin the proxy keeps: one for each of its callers.
const maxIdle = 1024

// Proxy is the standard library's reverse proxy as it is, in front of an origin.
func Proxy(origin string) (Backend, error) {
	to, err := url.Parse(origin)
	if err != nil || to.Scheme == "" || to.Host == "" {
		return Backend{}, fmt.Errorf("open proxy: %q is no URL of an origin", origin)
	}
	p := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.SetXForwarded()
		},
		Transport: &http.Transport{
			MaxIdleConns: maxIdle, MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: time.Minute,
			DisableCompression: true,
		},
	}
	return Backend{Handler: p}, nil
}
