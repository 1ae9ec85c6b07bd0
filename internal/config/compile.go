package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/expr"
	"github.com/oncekit/once/internal/value"
)

// The variables of the places.
const (
	varsMessage = expr.Body | expr.Header | expr.Query | expr.Source
	varsReply   = varsMessage | expr.Error
	varsFlow    = varsMessage | expr.Task
	varsEffect  = varsFlow | expr.Effect
	varsNoCause = expr.Task | expr.Effect // an alarm has no message
)

// expression compiles a text that is one expression. Nil is returned for what was told as a
// problem, and for a nil node.
func (l *loader) expression(n *node, what string, vars expr.VarSet) *expr.Program {
	if n == nil || n.kind == badKind {
		return nil
	}
	if n.kind != textKind {
		l.add(n.at, "%s is %s; expected an expression in quotes%s", what, l.misread(n),
			l.quotedForm(n))
		return nil
	}
	switch {
	case n.filled:
		l.add(n.at, "%s is an expression; a variable or file can't be filled in", what)
		return nil
	case strings.TrimSpace(n.text) == "":
		l.add(n.at, "%s is empty; expected an expression such as \"body.id\"", what)
		return nil
	case onlyReference(n):
		l.add(n.at, "%s is an expression as a whole; expected it without ${ }: %s", what,
			yamlQuote(n.text[2:len(n.text)-1]))
		return nil
	}
	p, err := l.expr.Compile(n.text, vars, 0)
	if err != nil {
		l.wrong(n, what, err)
		return nil
	}
	return p
}

// misread says what YAML made of an expression without quotes.
func (l *loader) misread(n *node) string {
	if n.kind == boolKind || n.kind == numberKind {
		return n.what() + " (" + n.raw + ")"
	}
	return n.what()
}

// quotedForm shows what stands in the line, in quotes.
func (l *loader) quotedForm(n *node) string {
	line := l.src.line(n.at.line)
	if n.preset != "" || n.kind == listKind || n.at.col > len(line) {
		return ""
	}
	from := string(line[n.at.col-1:])
	if n.kind == mapKind && strings.HasPrefix(from, "{") {
		return ""
	}
	text := cutValue(from)
	if text == "" {
		return ""
	}
	return ": " + yamlQuote(text)
}

// wrong tells a mistake in an expression at its own place in the text.
func (l *loader) wrong(n *node, what string, err error) {
	var ce *expr.CompileError
	if !errors.As(err, &ce) {
		l.add(n.at, "%s: %s", what, err.Error())
		return
	}
	n = follow(n, ce.Path)
	if n.filled {
		r := "%s: what was filled in doesn't make a right text; expected a text, with ${…} outside"
		l.add(n.at, r, what)
		return
	}
	msg := ce.Msg
	if strings.HasPrefix(msg, expr.ItemNotHere) && l.noItem != "" {
		msg = expr.ItemNotHere + ": " + l.noItem
	}
	l.add(l.src.locate(n, ce.Offset), "%s: %s", what, msg)
}

// follow returns the node below n that a path leads to, or the last one on the way.
func follow(n *node, path []any) *node {
	for _, step := range path {
		switch s := step.(type) {
		case string:
			if m := n.member(s); m != nil {
				n = m
			}
		case int:
			if n.kind == listKind && s < len(n.items) {
				n = n.items[s]
			}
		}
	}
	return n
}

// template compiles a text with ${…}.
func (l *loader) template(n *node, what string, vars expr.VarSet,
	opts expr.TemplateOptions,
) *expr.Template {
	if n == nil || n.kind == badKind {
		return nil
	}
	text := n.template
	switch n.kind {
	case textKind:
	case numberKind, boolKind:
		text = n.raw // 1 and true in a header or topic can only be meant as texts
	default:
		l.add(n.at, "%s is %s; expected a text", what, n.what())
		return nil
	}
	t, err := l.expr.CompileTemplate(text, vars, opts)
	if err != nil {
		l.wrong(n, what, err)
		return nil
	}
	return t
}

// tree compiles a value whose texts are templates.
func (l *loader) tree(n *node, what string, vars expr.VarSet,
	opts expr.TemplateOptions,
) *expr.Tree {
	if n == nil || n.kind == badKind {
		return nil
	}
	before := len(l.all)
	v := l.plainValue(n, what)
	if len(l.all) > before {
		return nil
	}
	t, err := l.expr.CompileTree(v, vars, opts)
	if err != nil {
		l.wrong(n, what, err)
		return nil
	}
	return t
}

// plainValue makes a value of a node, its texts still templates.
func (l *loader) plainValue(n *node, what string) any {
	switch n.kind {
	case mapKind:
		m := make(expr.Members, 0, len(n.entries))
		for _, e := range n.entries {
			if e.key.style == plain && readsAsExpression(e.key.raw) {
				l.add(e.key.at, "%s: YAML reads an expression as a map; expected it in quotes%s",
					what, l.quotedForm(&node{kind: textKind, at: e.key.at}))
			}
			m = append(m, expr.Member{Name: e.key.raw, Value: l.plainValue(e.value, what)})
		}
		return m
	case listKind:
		list := make([]any, 0, len(n.items))
		for _, item := range n.items {
			list = append(list, l.plainValue(item, what))
		}
		return list
	case boolKind:
		return strings.EqualFold(n.raw, "true")
	case numberKind:
		return l.number(n, what)
	case textKind:
		if _, ok := once.CanonicalNumber(n.raw); ok && n.style == plain && !n.filled {
			return l.number(n, what) // one that is too long for the parser
		}
		return n.template
	}
	return nil
}

func (l *loader) number(n *node, what string) any {
	v, err := value.Decode([]byte(n.raw), value.Limits{})
	if err != nil {
		l.add(n.at, "%s: the number %s has a form of its own in YAML; expected a decimal number"+
			" as in JSON, or a text in quotes: %s", what, n.raw, yamlQuote(n.raw))
	}
	return v
}

// textOf evaluates to a text; an absent value is the empty text.
func textOf(e evaluator, v *expr.Vars) (string, error) {
	got, err := e.Eval(v)
	if err != nil {
		return "", err
	}
	if got == expr.Absent {
		return "", nil
	}
	s, err := value.Text(got)
	if err != nil {
		return "", fmt.Errorf("make a text: %w", err)
	}
	return s, nil
}

// evaluator is what expressions, templates and trees have in common.
type evaluator interface {
	Eval(*expr.Vars) (any, error)
	References() []string
}
