package once

import (
	"fmt"
	"slices"
)

// MaxScopeParts is the most parts that a scope can have.
const MaxScopeParts = 16

// Scope says to whom or what a key belongs: tenant, principal, source, route. The zero value is
// no scope and is refused: a scope must be chosen, by [NewScope] or, written out, by [NoScope].
type Scope struct {
	parts []string
	none  bool
}

// NewScope makes a scope of at least one non-empty text; their order counts. It returns
// [ErrScopeMissing] for no text or an empty one.
func NewScope(parts ...string) (Scope, error) {
	if len(parts) == 0 {
		return Scope{}, ErrScopeMissing
	}
	if len(parts) > MaxScopeParts {
		return Scope{}, fmt.Errorf("make scope of %d parts, at most %d: %w",
			len(parts), MaxScopeParts, ErrTooLarge)
	}
	if i := slices.Index(parts, ""); i >= 0 {
		return Scope{}, fmt.Errorf("part %d is empty: %w", i+1, ErrScopeMissing)
	}
	return Scope{parts: slices.Clone(parts)}, nil
}

// NoScope is the choice that all senders share their keys.
func NoScope() Scope { return Scope{none: true} }

// Strings returns the scope's parts; none for [NoScope].
func (s Scope) Strings() []string { return slices.Clone(s.parts) }
