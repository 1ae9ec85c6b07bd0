package config

import (
	"io"
	"strings"

	"github.com/oncekit/once"
)

// out is a value of the effective configuration, as it is printed: a line of YAML, a map or a list.
type out struct {
	line  string
	keys  []string
	byKey map[string]*out
	items []*out
	list  bool
}

func (o *out) put(key string, v *out) {
	if o.byKey == nil {
		o.byKey = map[string]*out{}
	}
	if _, ok := o.byKey[key]; !ok {
		o.keys = append(o.keys, key)
	}
	o.byKey[key] = v
}

// write writes the value as YAML in block form.
func (o *out) write(b *strings.Builder, indent int, first string) {
	pad := strings.Repeat("  ", indent)
	switch {
	case o.list && (len(o.items) == 0 || o.short()):
		b.WriteString(first + " " + o.flow() + "\n")
	case o.list:
		b.WriteString(strings.TrimRight(first, " ") + "\n")
		for _, item := range o.items {
			b.WriteString(pad + "  - " + item.flow() + "\n")
		}
	case len(o.keys) > 0:
		b.WriteString(strings.TrimRight(first, " ") + "\n")
		for _, k := range o.keys {
			o.byKey[k].write(b, indent+1, pad+"  "+yamlName(k)+":")
		}
	case o.line == "":
		b.WriteString(first + " {}\n")
	default:
		b.WriteString(first + " " + o.line + "\n")
	}
}

// short tells a list of scalars that reads best on one line.
func (o *out) short() bool {
	const width = 80
	n := 0
	for _, item := range o.items {
		if item.list || len(item.keys) > 0 {
			return false
		}
		n += len(item.line) + len(", ")
	}
	return n < width
}

// flow writes the value on one line.
func (o *out) flow() string {
	var parts []string
	switch {
	case o.list:
		for _, item := range o.items {
			parts = append(parts, item.flow())
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case len(o.keys) > 0:
		for _, k := range o.keys {
			parts = append(parts, yamlName(k)+": "+o.byKey[k].flow())
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case o.line == "":
		return "{}"
	}
	return o.line
}

// Print writes the effective configuration, with the defaults filled in, as YAML that loads again.
// Secrets are written as ***; texts with ${env:…} and ${file:…} as they stand in the file. The
// error is the writer's.
func (c *Config) Print(w io.Writer) error {
	var b strings.Builder
	for _, k := range c.effective.keys {
		c.effective.byKey[k].write(&b, 0, yamlName(k)+":")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// yamlName writes a name; one that YAML would read as something else in quotes.
func yamlName(s string) string {
	if plainName(s) {
		return s
	}
	return yamlText(s)
}

func plainName(s string) bool {
	if s == "" || s == "true" || s == "false" || s == "null" {
		return false
	}
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_'
		if !letter && (i == 0 || r != '-' && (r < '0' || r > '9')) {
			return false
		}
	}
	return !strings.EqualFold(s, "true") && !strings.EqualFold(s, "false") &&
		!strings.EqualFold(s, "null")
}

// yamlText writes a text in double quotes.
func yamlText(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f:
			b.WriteString(`\x` + string(hex[r>>4]) + string(hex[r&15]))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func textOut(s string) *out { return &out{line: yamlText(s)} }

func lineOut(s string) *out { return &out{line: s} }

// nodeOut is a node of the file as it stands there.
func nodeOut(n *node) *out {
	switch n.kind {
	case mapKind:
		o := &out{byKey: map[string]*out{}}
		for _, e := range n.entries {
			if secretField(e.key.raw) && e.value.kind != mapKind && !onlyReference(e.value) {
				o.put(e.key.raw, textOut(masked))
				continue
			}
			o.put(e.key.raw, nodeOut(e.value))
		}
		if len(n.entries) == 0 {
			return lineOut("{}")
		}
		return o
	case listKind:
		o := &out{list: true}
		for _, item := range n.items {
			o.items = append(o.items, nodeOut(item))
		}
		return o
	case textKind:
		if n.style == plain && !n.filled && plainName(n.raw) {
			return lineOut(n.raw)
		}
		if _, ok := once.CanonicalNumber(n.raw); ok && n.style == plain && !n.filled {
			return lineOut(n.raw) // one that is too long for the parser
		}
		return textOut(n.raw)
	case nullKind:
		return lineOut("null")
	}
	return lineOut(n.raw)
}

// onlyReference tells a text that is one ${…} and holds nothing of its own.
func onlyReference(n *node) bool {
	return n.kind == textKind && strings.HasPrefix(n.raw, "${") && nextPart(n.raw) == n.raw &&
		strings.HasSuffix(n.raw, "}")
}
