package gateway

import (
	"context"
	"net/http"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncehttp"
)

// caller finds out who sends a request.
type caller struct {
	cfg    *Config
	tokens *tokens // nil: none are looked at
	auth   *auth   // nil: nobody is asked
}

func newCaller(cfg *Config) (*caller, error) {
	c := &caller{cfg: cfg}
	if cfg.Gateway.JWT != nil {
		var err error
		if c.tokens, err = newTokens(cfg); err != nil {
			return nil, err
		}
	}
	if cfg.Gateway.Auth != nil {
		c.auth = newAuth(cfg)
	}
	return c, nil
}

func (c *caller) asksNobody() bool { return c.tokens == nil && c.auth == nil }

func (c *caller) close() {
	if c.auth != nil {
		c.auth.base.CloseIdleConnections()
	}
}

// known is what was found out of a caller.
type known struct {
	claims map[string]any
	header http.Header
}

type knownKey struct{}

// authorize is the middleware's Authorize.
func (c *caller) authorize(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
	k := &known{}
	if c.tokens != nil {
		claims, err := c.tokens.verify(r)
		if err != nil {
			c.cfg.Logger.Debug("a token was refused", "error", err)
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
			oncehttp.WriteProblem(w, "token-invalid", http.StatusUnauthorized,
				"The token is missing or not valid", "A guarded request needs a valid bearer "+
					"token: it says whose its key is.", c.cfg.Gateway.Docs)
			return r, false
		}
		k.claims = claims
	}
	if c.auth != nil {
		var ok bool
		if k.header, ok = c.auth.ask(w, r); !ok {
			return r, false
		}
	}
	return r.WithContext(context.WithValue(r.Context(), knownKey{}, k)), true
}

// scope is the middleware's Scope.
func (c *caller) scope(r *http.Request) (once.Scope, error) {
	if c.cfg.Gateway.Scope == nil {
		return once.NoScope(), nil
	}
	v := scopeVars(r)
	if k, ok := r.Context().Value(knownKey{}).(*known); ok {
		v.Auth, v.JWT = k.header, k.claims
	}
	return c.cfg.Gateway.Scope(v)
}
