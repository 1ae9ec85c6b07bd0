package gateway

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncehttp"
)

// caller finds out who sends a request.
type caller struct {
	cfg    *Config
	tokens *tokens // nil: none are looked at
	auth   *auth   // nil: nobody is asked
	// missing tells of callers that were let in and have no scope.
	missing pause
}

// missingPause is the time between two warnings of that.
const missingPause = time.Minute

// pause lets one event through in a while, and counts the others.
type pause struct {
	mu   sync.Mutex
	next time.Time
	left int
}

// over reports whether it is time again, and how many were left out since.
func (p *pause) over(every time.Duration) (left int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Before(p.next) {
		p.left++
		return 0, false
	}
	left, p.left, p.next = p.left, 0, now.Add(every)
	return left, true
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
	k, known := r.Context().Value(knownKey{}).(*known)
	if known {
		v.Auth, v.JWT = k.header, k.claims
	}
	scope, err := c.cfg.Gateway.Scope(v)
	if known && errors.Is(err, once.ErrScopeMissing) {
		// The caller is right, and so what it is judged by is set up wrongly.
		if left, ok := c.missing.over(missingPause); ok {
			c.cfg.Logger.Warn("a caller was let in, and what `scope` reads is missing, empty or "+
				"there twice: its request gets 401; look at what auth.url answers, or at the "+
				"claims of the token", "left_out", left)
		}
	}
	return scope, err
}
