package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxProblems bounds how many problems of a file are told at once: more than a person repairs in
// one go.
const maxProblems = 20

// Problem is one thing that is wrong in a file, or that its author is warned of.
type Problem struct {
	// File as it was named by the caller, or the name of an environment variable.
	File string
	// Line and Column of the exact place, counted from 1, columns in characters. 0: no place.
	Line, Column int
	// Msg says what is wrong, and what was expected.
	Msg string
	// Snippet is the source line and a line with a caret under the place; empty: none. Secrets
	// in the line are masked.
	Snippet string
}

// String returns `file:line:column: what is wrong`, followed by the snippet.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
		}
		b.WriteString(": ")
	}
	b.WriteString(p.Msg)
	if p.Snippet != "" {
		b.WriteString("\n" + p.Snippet)
	}
	return b.String()
}

// Error says everything that is wrong with a configuration, in the order of the places.
type Error struct {
	Problems []Problem
	// More counts the problems that were left out.
	More int
}

// Error returns the problems as text for people, one after the other.
func (e *Error) Error() string {
	parts := make([]string, 0, len(e.Problems)+1)
	for _, p := range e.Problems {
		parts = append(parts, p.String())
	}
	if e.More > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(parts, "\n")
}

// problems collects what is wrong. The same is told once for a place.
type problems struct {
	file string
	all  []Problem
	more int
	// warnings don't keep a file from being served.
	warnings []Problem
	seen     map[Problem]bool
	// givenBy names the preset that is asked for at a place: what is told there is about one of its
	// fields.
	givenBy map[place]string
}

// place is a position in the file, counted from 1; the zero value is no position.
type place struct{ line, col int }

// maxCollected bounds what is kept before sorting, so that the first ones of the file are told.
const maxCollected = 1000

func (p *problems) add(at place, format string, args ...any) {
	p.tell(p.at(at, fmt.Sprintf(format, args...)))
}

func (p *problems) warn(at place, format string, args ...any) {
	p.warnings = append(p.warnings, p.at(at, fmt.Sprintf(format, args...)))
}

// at makes a problem of a place; one of a preset's field says so.
func (p *problems) at(at place, msg string) Problem {
	if name := p.givenBy[at]; name != "" {
		msg = "with what the preset " + quote(name) + " fills in: " + msg + " (a field that the" +
			" source has itself replaces the preset's; [] takes it away)"
	}
	return Problem{File: p.file, Line: at.line, Column: at.col, Msg: msg}
}

func (p *problems) tell(q Problem) {
	switch {
	case p.seen[q]:
		return
	case len(p.all) >= maxCollected:
		p.more++
		return
	case p.seen == nil:
		p.seen = map[Problem]bool{}
	}
	p.seen[q] = true
	p.all = append(p.all, q)
}

// err returns what was collected, sorted, cut and with snippets; nil if nothing was.
func (p *problems) err(src *source) error {
	if len(p.all) == 0 {
		return nil
	}
	e := &Error{Problems: located(p.all, src), More: p.more}
	if extra := len(p.all) - maxProblems; extra > 0 {
		e.Problems, e.More = e.Problems[:maxProblems], e.More+extra
	}
	return e
}

// located sorts problems by their places and gives them their snippets.
func located(list []Problem, src *source) []Problem {
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
	for i := range list {
		if q := &list[i]; q.Line > 0 {
			q.Snippet = src.snippet(place{q.Line, q.Column})
		}
	}
	return list
}
