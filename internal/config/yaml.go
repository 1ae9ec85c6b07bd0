package config

import (
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of a file, far above what a plant needs and far below what could hurt.
const (
	maxFileBytes = 1 << 20
	maxDepth     = 32
	maxNodes     = 100_000
	maxTokens    = 200_000 // the parser's work grows with the square of a map's length
)

const noAnchors = "anchors, aliases and << are not supported; expected the value written out"

// tree makes nodes of a file's text. Problems are added; nil is returned if there is nothing to
// read.
type tree struct {
	*problems
	src   *source
	fill  *filler
	nodes int
	// auth is how many fields `auth` are being read, one inside of the other.
	auth int
}

// parse reads one YAML document.
func (t *tree) parse(text string) *node {
	if len(text) > maxFileBytes {
		t.add(place{}, "the file has %d bytes; expected at most %d", len(text), maxFileBytes)
		return nil
	}
	if at, ok := firstBad(text); !ok {
		what := `\x0D` // at the end of a line the source has none
		if line := t.src.line(at.line); at.col <= len(line) {
			what = escape(line[at.col-1])
		}
		t.add(at, "a byte or character that YAML doesn't allow: %s; expected UTF-8 text", what)
		return nil
	}
	tokens := lexer.Tokenize(text)
	if !t.shallow(tokens) {
		return nil
	}
	f, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		t.syntax(err)
		return nil
	}
	if len(f.Docs) > 1 {
		for _, d := range f.Docs[1:] {
			if d.Start != nil && (d.Body != nil || len(f.Docs) > 2 || f.Docs[0].Body != nil) {
				t.add(tokenPlace(d.Start), "a second document begins here; expected one file"+
					" with one document")
				return nil
			}
		}
	}
	if len(f.Docs) == 0 || f.Docs[0].Body == nil {
		t.add(place{}, "the file is empty; expected at least `listen`, `sources` and what"+
			" works them (once init writes an example)")
		return nil
	}
	t.src.known = true
	return t.node(f.Docs[0].Body, 0)
}

// firstBad finds invalid UTF-8 and control characters (YAML 1.2, section 5.1).
func firstBad(text string) (place, bool) {
	at := place{1, 1}
	for i, r := range text {
		bad := r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD") ||
			r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7f ||
			r == '\r' && !strings.HasPrefix(text[i:], "\r\n")
		if bad {
			return at, false
		}
		at.col++
		if r == '\n' {
			at = place{at.line + 1, 1}
		}
	}
	return place{}, true
}

// shallow refuses nesting that the parser would follow down to the end of its stack.
func (t *tree) shallow(tokens token.Tokens) bool {
	depth, run := 0, 0
	if len(tokens) > maxTokens {
		t.add(place{}, "the file has %d words and marks; expected at most %d", len(tokens),
			maxTokens)
		return false
	}
	for _, tk := range tokens {
		switch tk.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
			run = 0
		case token.SequenceEndType, token.MappingEndType:
			depth--
			run = 0
		case token.SequenceEntryType, token.MappingKeyType, token.TagType, token.AnchorType:
			run++
		case token.InvalidType, token.CommentType:
		default:
			run = 0
		}
		if depth > maxDepth || run > maxDepth || tk.Position.IndentLevel > 2*maxDepth {
			t.add(tokenPlace(tk), "nested too deep; expected at most %d levels", maxDepth)
			return false
		}
	}
	return true
}

func tokenPlace(tk *token.Token) place {
	if tk == nil || tk.Position == nil {
		return place{}
	}
	return place{max(tk.Position.Line, 1), max(tk.Position.Column, 1)}
}

// node makes a node of a node of the parser.
func (t *tree) node(n ast.Node, depth int) *node {
	at := nodePlace(n)
	t.nodes++
	if depth > maxDepth || t.nodes > maxNodes {
		t.add(at, "nested too deep or too long; expected at most %d levels and %d values",
			maxDepth, maxNodes)
		return &node{kind: badKind, at: at}
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		return t.mapping(n, at, depth)
	case *ast.MappingValueNode:
		return t.mapping(ast.Mapping(n.Start, false, n), at, depth)
	case *ast.SequenceNode:
		out := &node{kind: listKind, at: at}
		for _, v := range n.Values {
			out.items = append(out.items, t.node(v, depth+1))
		}
		return out
	case *ast.AnchorNode:
		t.add(at, "%s", noAnchors)
		if n.Value != nil {
			return t.node(n.Value, depth+1)
		}
		return &node{kind: badKind, at: at}
	case *ast.AliasNode, *ast.MergeKeyNode:
		t.add(at, "%s", noAnchors)
		return &node{kind: badKind, at: at}
	case *ast.TagNode:
		return t.tag(n, at)
	}
	return t.scalar(n, at)
}

func (t *tree) scalar(n ast.Node, at place) *node {
	out := &node{at: at}
	switch n := n.(type) {
	case *ast.NullNode:
		out.kind = nullKind
	case *ast.BoolNode:
		out.kind, out.raw = boolKind, n.GetToken().Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.raw = numberKind, n.GetToken().Value
	case *ast.LiteralNode:
		out.kind, out.raw, out.style = textKind, n.Value.Value, literal
		if strings.HasPrefix(n.Start.Value, ">") {
			out.style = folded
		}
	case *ast.StringNode:
		out.kind, out.raw, out.style = textKind, n.Value, quotes(n.Token)
	default:
		t.add(at, "this kind of YAML value is not supported; expected a text, a number, a bool,"+
			" a list or a map")
		return &node{kind: badKind, at: at}
	}
	out.text, out.template = out.raw, out.raw
	if out.kind == textKind {
		for _, c := range t.fill.fill(out) {
			asWritten := &node{kind: textKind, style: out.style, at: at, text: out.raw}
			t.add(t.src.locate(asWritten, c.offset), "%s", c.msg)
			out.kind = badKind
		}
	}
	return out
}

func quotes(tk *token.Token) style {
	switch tk.Type {
	case token.SingleQuoteType:
		return single
	case token.DoubleQuoteType:
		return double
	}
	return plain
}

// nodePlace is where a person sees the value begin.
func nodePlace(n ast.Node) place {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return tokenPlace(m.Values[0].Key.GetToken())
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		return tokenPlace(m.Key.GetToken())
	}
	return tokenPlace(n.GetToken())
}

// mapping reads a map; a doubled key is told at its second place.
func (t *tree) mapping(n *ast.MappingNode, at place, depth int) *node {
	out := &node{kind: mapKind, at: at}
	have := map[string]place{}
	values := n.Values
	for i := 0; i < len(values); i++ {
		v := values[i]
		key := t.key(v.Key)
		if key == nil {
			continue
		}
		first, twice := have[key.raw]
		if twice {
			t.add(key.at, "%s is here twice, first in line %d; expected it once",
				quote(key.raw), first.line)
		} else {
			have[key.raw] = key.at
		}
		if tag, ok := v.Value.(*ast.TagNode); ok {
			values = append(values[:i+1:i+1], append(swallowed(tag, key.at), values[i+1:]...)...)
		}
		child := t.value(key.raw, v.Value, depth)
		if !twice {
			out.entries = append(out.entries, entry{key, child})
		}
	}
	return out
}

// value reads the value of a field, and hides it if it is a secret.
func (t *tree) value(name string, v ast.Node, depth int) *node {
	if name == "auth" {
		t.auth++
		defer func() { t.auth-- }()
	}
	child := t.node(v, depth+1)
	if name == "seal" {
		for _, e := range child.entries {
			t.hide(e.value)
		}
	}
	if name == "databases" {
		for _, e := range child.entries {
			if url := e.value.member("url"); url != nil && holdsPassword(url.raw) {
				t.hide(url)
			}
		}
	}
	if secretField(name) || name == "records" && strings.Contains(child.raw, "@") ||
		t.auth > 0 && !plainInAuth(name, child) {
		t.hide(child)
	}
	return child
}

// plainInAuth tells what below `auth` is never a secret. Everything else there may be one that is
// misplaced, or whose name is misspelt.
func plainInAuth(name string, value *node) bool {
	switch name {
	case "algorithm", "certificate", "client_names", "encoding", "field", "format", "header",
		"header_prefix", "ips", "key_encoding", "prefix", "separator", "sign_over", "signed",
		"timeout", "timestamp", "tolerance", "url", "username", "webhook_id":
		return true
	}
	return name == "auth" && value.raw == "none"
}

// swallowed returns the fields after `name: !tag`, which the parser takes for the tag's value.
func swallowed(tag *ast.TagNode, key place) []*ast.MappingValueNode {
	var inner []*ast.MappingValueNode
	switch v := tag.Value.(type) {
	case *ast.MappingNode:
		inner = v.Values
	case *ast.MappingValueNode:
		inner = []*ast.MappingValueNode{v}
	}
	if len(inner) > 0 && tokenPlace(inner[0].Key.GetToken()).col == key.col {
		return inner
	}
	return nil
}

func (t *tree) key(k ast.MapKeyNode) *node {
	at := tokenPlace(k.GetToken())
	switch k := k.(type) {
	case *ast.StringNode:
		return &node{kind: textKind, style: quotes(k.Token), at: at, raw: k.Value, text: k.Value,
			template: k.Value}
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.NullNode:
		s := k.GetToken().Value
		return &node{kind: textKind, at: at, raw: s, text: s, template: s}
	case *ast.MergeKeyNode:
		t.add(at, "%s", noAnchors)
		return nil
	}
	t.add(at, "this kind of name is not supported; expected a text before the colon")
	return nil
}

// tag refuses a YAML tag, which mostly was meant as an expression that begins with "!".
func (t *tree) tag(n *ast.TagNode, at place) *node {
	line := t.src.line(at.line)
	text := ""
	if at.col <= len(line) {
		text = cutValue(string(line[at.col-1:]))
	}
	t.add(at, "YAML reads %s as a tag, not as a text; expected it in quotes: %s",
		quote(n.Start.Value), yamlQuote(text))
	return &node{kind: badKind, at: at}
}

// secretField tells the fields, and headers, whose values are never shown.
func secretField(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"token", "password", "bearer", "secret", "authorization",
		"cookie", "api-key", "api_key", "apikey"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// hide masks the places of a secret in shown lines.
func (t *tree) hide(n *node) {
	for _, item := range n.items {
		t.hide(item)
	}
	if n.raw == "" || onlyReference(n) {
		return
	}
	to := t.src.locate(&node{kind: textKind, style: n.style, at: n.at, text: n.raw},
		utf8.RuneCountInString(n.raw))
	if n.style == single || n.style == double {
		to.col++
	}
	t.src.hide(n.at, to)
}
