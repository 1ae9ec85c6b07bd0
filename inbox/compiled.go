package inbox

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

const (
	defaultMaxBody   = 1 << 20
	defaultMaxDepth  = 64
	defaultRetention = 7 * 24 * time.Hour
	defaultElements  = 1000
	maxSourceName    = 64
)

// source is a Source with its defaults filled in and everything made that doesn't depend on a
// message.
type source struct {
	Source
	scope     once.Scope
	denied    map[string]bool // canonical names
	replies   map[queue.Outcome]*reply
	probes    []probe
	before    Verifier // is asked before the body is read; nil: nobody is
	after     Verifier // is asked when it was read; nil: nobody is
	challenge string   // of a 401; empty: none
	ringRate  *limiter
	// strangers are refused messages of senders who are nobody's: their flood drowns nothing else.
	strangers *limiter
}

func newSource(s Source, cfg Config) (*source, error) {
	if err := checkName(s.Name); err != nil {
		return nil, err
	}
	if s.Key == nil || s.Fingerprint == nil || s.Route == nil {
		return nil, errors.New("key, fingerprint and route are required")
	}
	setDefault(&s.MaxBody, defaultMaxBody)
	setDefault(&s.MaxDepth, defaultMaxDepth)
	setDefault(&s.Retention, defaultRetention)
	setDefault(&s.MaxElements, defaultElements)
	if s.MaxBody < 0 || s.MaxDepth < 0 || s.Retention < 0 || s.KeepBody < 0 ||
		s.MaxElements < 0 || s.NewAfter < 0 {
		return nil, errors.New("a limit is negative")
	}
	if s.NewAfter > s.Retention {
		return nil, fmt.Errorf("a repeat is new after %s, but its key is forgotten after %s",
			s.NewAfter, s.Retention)
	}
	if s.MaxBody > cfg.MaxInFlightBytes {
		return nil, fmt.Errorf("bodies of %d bytes never fit into the %d bytes for all bodies",
			s.MaxBody, cfg.MaxInFlightBytes)
	}
	scope, err := once.NewScope("source", s.Name)
	if err != nil {
		return nil, err
	}
	if s.PublicURL, err = checkPublicURL(s.PublicURL); err != nil {
		return nil, err
	}
	src := &source{
		Source: s, scope: scope, denied: deniedNames(s.DropHeaders),
		ringRate: newLimiter(cfg.RejectRate), strangers: newLimiter(cfg.RejectRate),
	}
	src.probe()
	if src.replies, err = newReplies(s.Replies); err != nil {
		return nil, err
	}
	src.probes, err = newProbes(s.Probes)
	return src, err
}

// probe looks for the verifier's optional interfaces.
func (s *source) probe() {
	switch v := s.Verifier.(type) {
	case nil:
	case *signature:
		if v.early != nil {
			s.before = v.early
		}
		if v.late != nil {
			s.after = v.late
		}
	case HeaderVerifier:
		if s.before = s.Verifier; !v.HeaderOnly() {
			s.before, s.after = nil, s.Verifier
		}
	default:
		s.after = s.Verifier
	}
	if c, ok := s.Verifier.(Challenger); ok {
		s.challenge = c.Challenge()
	}
}

func checkName(name string) error {
	if name == "" || len(name) > maxSourceName {
		return fmt.Errorf("a name has 1 to %d characters", maxSourceName)
	}
	for _, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && c != '-' && c != '_' && c != '.' {
			return errors.New("a name has letters, digits, dots, dashes and underscores only")
		}
	}
	return nil
}

// deniedNames returns the headers of which only a digest is kept.
func deniedNames(more []string) map[string]bool {
	denied := make(map[string]bool, 3+len(more))
	for _, name := range slices.Concat(
		[]string{"Authorization", "Cookie", "Proxy-Authorization"}, more,
	) {
		denied[http.CanonicalHeaderKey(name)] = true
	}
	return denied
}
