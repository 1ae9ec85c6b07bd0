package gateway

import (
	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/oncehttp"
)

// Middleware is what a route says, as the middleware takes it. Whose a key is, and where records
// are kept, is not in it.
func Middleware(g *config.Gateway, r *config.Route) (oncehttp.Config, error) {
	seal, err := Sealer(g)
	if err != nil {
		return oncehttp.Config{}, err
	}
	cfg := oncehttp.Config{
		Guard: once.Config{Lease: g.Lease, Retention: r.Retention, Wait: r.Wait,
			MaxWork: r.MaxWork},
		Key: oncehttp.KeyRule(r.Key), Methods: []string{r.Pattern.Method()},
		Content: oncehttp.Content{Host: true, Ignore: r.Ignore,
			Rules: map[string]oncehttp.ContentRule{}},
		MaxBody: r.MaxBody, MaxAnswer: int(r.MaxAnswer), Keep: keep(r.StoreErrors),
		DropHeaders: r.DropHeaders, KeepHeaders: r.KeepHeaders, Seal: seal, Docs: g.Docs,
		FailOpen: r.FailOpen,
	}
	if r.HoldUnknown {
		cfg.Guard.OnUnknown = once.Hold
	}
	for media, rule := range r.Content {
		cfg.Content.Rules[media] = oncehttp.ContentRule(rule)
	}
	return cfg, nil
}

// Sealer encrypts kept answers; nil: nothing is encrypted.
func Sealer(g *config.Gateway) (*oncehttp.Sealer, error) {
	if len(g.Seal) == 0 {
		return nil, nil
	}
	return oncehttp.NewSealer(g.Seal...)
}

// keep says which answers of 5xx are kept. By default none is: 500, 502 and 504 can follow an
// effect and are lost attempts, 501 and 503 free the key.
func keep(storeErrors string) func(int) oncehttp.Verdict {
	return func(status int) oncehttp.Verdict {
		switch {
		case storeErrors == "always" && status >= 500:
			return oncehttp.Keep
		case storeErrors == "ambiguous" && (status == 500 || status == 502 || status == 504):
			return oncehttp.Keep
		}
		return oncehttp.KeepDefault(status)
	}
}
