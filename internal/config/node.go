package config

import (
	"strings"

	"github.com/oncekit/once"
)

// kind is what a node of the file is.
type kind uint8

const (
	nullKind kind = iota + 1
	textKind
	boolKind
	numberKind
	mapKind
	listKind
	// badKind stands where a problem was told already: readers pass over it in silence.
	badKind
)

// style is how a text is written.
type style uint8

const (
	plain style = iota
	single
	double
	literal // |
	folded  // >
)

// node is one value of the file with its place.
type node struct {
	kind  kind
	style style
	at    place
	// raw is the text as YAML has it, or the literal of a number or bool.
	raw string
	// text is raw with ${env:…} and ${file:…} filled in, template the same for a text in which
	// further ${…} are expressions.
	text, template string
	// filled is true if something was filled in: text may hold a secret.
	filled bool
	// preset is the name of the preset that the node came from, which is told at the place where
	// it is asked for; empty: the node is in the file.
	preset string
	// cleared are the fields that a source takes away from its preset.
	cleared []string

	entries []entry
	items   []*node
}

// entry is one member of a map.
type entry struct{ key, value *node }

// what names the node's kind for people.
func (n *node) what() string {
	switch n.kind {
	case nullKind:
		return "nothing"
	case boolKind:
		return "a bool"
	case numberKind:
		return "a number"
	case mapKind:
		return "a map"
	case listKind:
		return "a list"
	}
	return "a text"
}

// isNumber reports whether the node is a number, also one that is too long for the parser.
func (n *node) isNumber() bool {
	if n.kind == textKind && n.style == plain && !n.filled {
		_, ok := once.CanonicalNumber(n.raw)
		return ok
	}
	return n.kind == numberKind
}

// show quotes the node's text for a message, unless it may hold a secret.
func (n *node) show() string {
	if n.filled {
		return masked
	}
	return quote(n.text)
}

// maxShown bounds a text quoted in a message.
const maxShown = 60

// quote shows a text; a login in a URL is masked.
func quote(s string) string {
	if scheme, rest, ok := strings.Cut(s, "://"); ok {
		if i := strings.LastIndex(rest, "@"); i >= 0 {
			s = scheme + "://" + masked + rest[i:]
		}
	}
	if r := []rune(s); len(r) > maxShown {
		s = string(r[:maxShown]) + "…"
	}
	return `"` + safe(s) + `"`
}

// pos returns the place, also of a missing node.
func (n *node) pos() place {
	if n == nil {
		return place{}
	}
	return n.at
}

// member returns a map's value by name; nil if there is none.
func (n *node) member(name string) *node {
	if n == nil || n.kind != mapKind {
		return nil
	}
	for _, e := range n.entries {
		if e.key.raw == name {
			return e.value
		}
	}
	return nil
}
