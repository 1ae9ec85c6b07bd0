package config

import (
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/oncekit/once/internal/expr"
)

// loader is the state of one load.
type loader struct {
	*problems
	src  *source
	dir  string
	env  Env
	expr *expr.Env
	name *regexp.Regexp
	// noItem says why the expressions that are being read don't have the variable item.
	noItem string
}

// object reads the fields of one map. Fields that were not asked for are told by close.
type object struct {
	l     *loader
	n     *node // nil: the map is not in the file
	known []string
	out   *out
}

// object begins to read a map. A value that is none is told; then, and if n is nil, every field has
// its default.
func (l *loader) object(n *node, what string) *object {
	o := &object{l: l, out: &out{byKey: map[string]*out{}}}
	switch {
	case n == nil || n.kind == badKind:
	case n.kind != mapKind:
		l.add(n.at, "%s is %s; expected a map of fields", what, n.what())
	default:
		o.n = n
	}
	return o
}

// object reads a field that is a map.
func (o *object) object(name string) *object {
	sub := o.l.object(o.get(name), name)
	o.out.put(name, sub.out)
	return sub
}

// optional reads a field that is a map, or returns nil if it is not in the file.
func (o *object) optional(name string) *object {
	if o.get(name) == nil {
		return nil
	}
	return o.object(name)
}

// get returns a field's value, nil if it is missing.
func (o *object) get(name string) *node {
	if !slices.Contains(o.known, name) {
		o.known = append(o.known, name)
	}
	n := o.n.member(name)
	if n != nil && n.kind == nullKind {
		o.l.add(n.at, "%s has no value; expected one, or no such line", name)
		return nil
	}
	return n
}

// has reports whether the field is in the file.
func (o *object) has(name string) bool { return o.n.member(name) != nil }

// at is the place of the map, for what is missing in it.
func (o *object) at() place { return o.n.pos() }

// close tells unknown fields.
func (o *object) close(what string) {
	if o.n == nil {
		return
	}
	for _, e := range o.n.entries {
		if !slices.Contains(o.known, e.key.raw) {
			o.l.add(e.key.at, "%s has no field %s; %s", what, quote(e.key.raw),
				oneOf(e.key.raw, o.known))
		}
	}
}

// textNode returns a field that has to be a text, nil if it is missing or something else.
func (o *object) textNode(name, want string) *node {
	n := o.get(name)
	if n == nil || n.kind == badKind {
		return nil
	}
	if n.kind != textKind {
		o.l.add(n.at, "%s is %s; expected %s", name, n.what(), want)
		return nil
	}
	return n
}

// text reads a text; def if it is missing.
func (o *object) text(name, def, want string) string {
	n := o.textNode(name, want)
	if n == nil {
		if def != "" && !o.has(name) {
			o.out.put(name, textOut(def))
		}
		return def
	}
	if n.text == "" {
		o.l.add(n.at, "%s is empty; expected %s", name, want)
	}
	o.out.put(name, nodeOut(n))
	return n.text
}

// secret reads a text that is never shown. A number is taken as its literal.
func (o *object) secret(name, want string) string {
	n := o.get(name)
	if n == nil {
		return ""
	}
	o.out.put(name, textOut(masked))
	return o.l.secret(n, name, want)
}

func (l *loader) secret(n *node, name, want string) string {
	switch {
	case n.kind == badKind:
	case n.kind != textKind:
		l.add(n.at, "%s is %s; expected %s, in quotes", name, n.what(), want)
	case n.text == "":
		l.add(n.at, "%s is empty; expected %s", name, want)
	case n.text == masked:
		l.add(n.at, "%s is %s, which stands for a secret that was hidden; expected %s", name,
			masked, want)
	case !n.filled && looksLikeReference.MatchString(n.text):
		l.add(n.at, "%s begins like a reference and is none; expected \"${env:NAME}\" or"+
			" \"${file:PATH}\"", name)
	}
	return n.text
}

// looksLikeReference matches a secret that was meant to be filled in: ${…} and $(…) with a name and
// a colon, or a variable of a shell.
var looksLikeReference = regexp.MustCompile(`^\$([({]\s*[A-Za-z_]+\s*[:})]|[A-Z_]{3,}$)`)

// scalar reads a text with a form of its own: parse says whether it is right.
func (o *object) scalar(name, want string, parse func(string) bool) *node {
	n := o.get(name)
	if n == nil || n.kind == badKind {
		return nil
	}
	if n.kind != textKind && n.kind != numberKind {
		o.l.add(n.at, "%s is %s; expected %s", name, n.what(), want)
		return nil
	}
	if !parse(n.text) {
		o.l.add(n.at, "%s is %s; expected %s", name, n.show(), want)
		return nil
	}
	return n
}

const wantDuration = "a duration such as 500ms, 30s, 10m, 24h or 7d"

// duration reads a positive duration.
func (o *object) duration(name string, def time.Duration) time.Duration {
	d := def
	n := o.scalar(name, wantDuration, func(s string) (ok bool) {
		d, ok = parseDuration(s)
		return ok && d > 0
	})
	if n == nil {
		d = def
	}
	if d > 0 {
		o.out.put(name, lineOut(formatDuration(d)))
	}
	return d
}

// size reads a size in bytes.
func (o *object) size(name string, def int64) int64 {
	size := def
	n := o.scalar(name, "a size such as 256KiB, 1MiB or 10MB", func(s string) (ok bool) {
		size, ok = parseSize(s)
		return ok && size > 0
	})
	if n == nil {
		size = def
	}
	if size > 0 {
		o.out.put(name, lineOut(formatSize(size)))
	}
	return size
}

// whole reads a whole number between low and high.
func (o *object) whole(name string, def, low, high int) int {
	v := def
	want := "a whole number from " + strconv.Itoa(low) + " to " + strconv.Itoa(high)
	n := o.scalar(name, want, func(s string) bool {
		got, err := strconv.Atoi(s)
		v = got
		return err == nil && strconv.Itoa(got) == s && got >= low && got <= high
	})
	if n == nil {
		v = def
	}
	o.out.put(name, lineOut(strconv.Itoa(v)))
	return v
}

// boolean reads true or false.
func (o *object) boolean(name string, def bool) bool {
	n := o.get(name)
	v := def
	switch {
	case n == nil || n.kind == badKind:
	case n.kind == boolKind && (n.raw == "true" || n.raw == "false"):
		v = n.raw == "true"
	case n.filled && (n.text == "true" || n.text == "false"):
		v = n.text == "true"
	default:
		o.l.add(n.at, "%s is %s; expected true or false", name, n.shown())
	}
	o.out.put(name, lineOut(strconv.FormatBool(v)))
	return v
}

// shown is the node's text, or what it is.
func (n *node) shown() string {
	switch n.kind {
	case mapKind, listKind, nullKind, badKind:
		return n.what()
	}
	return n.show()
}

// choice reads one of a few words; def if it is missing.
func (o *object) choice(name, def string, words ...string) string {
	n := o.get(name)
	v := def
	switch {
	case n == nil || n.kind == badKind:
	case (n.kind == textKind || n.kind == numberKind) && slices.Contains(words, n.text):
		v = n.text
	default:
		hint := oneOf(n.text, words)
		if n.filled {
			hint = oneOf("", words)
		}
		o.l.add(n.at, "%s is %s; %s", name, n.shown(), hint)
	}
	if v != "" {
		o.out.put(name, lineOut(v))
	}
	return v
}

// list returns the members of a field that is a list; a single text is a list of one. nil if the
// field is missing.
func (o *object) list(name, want string) []*node {
	n := o.get(name)
	if n == nil || n.kind == badKind {
		return nil
	}
	switch n.kind {
	case listKind:
		if len(n.items) == 0 {
			o.l.add(n.at, "%s is empty; expected %s", name, want)
		}
		return n.items
	case textKind:
		return []*node{n}
	}
	o.l.add(n.at, "%s is %s; expected %s", name, n.what(), want)
	return nil
}

// texts reads a list of texts; a single text is a list of one.
func (o *object) texts(name, want string) []*node {
	var list []*node
	shown := &out{list: true}
	for _, n := range o.list(name, want) {
		switch {
		case n.kind == badKind:
		case n.kind != textKind:
			o.l.add(n.at, "%s holds %s; expected %s", name, n.what(), want)
		case n.text == "":
			o.l.add(n.at, "%s holds an empty text; expected %s", name, want)
		default:
			list = append(list, n)
			shown.items = append(shown.items, nodeOut(n))
		}
	}
	if len(list) > 0 {
		o.out.put(name, shown)
	}
	return list
}

// each calls f with every member of a map of names; the names are checked.
func (l *loader) each(n *node, what string, f func(key, value *node)) {
	if n == nil || n.kind == badKind {
		return
	}
	if n.kind != mapKind {
		l.add(n.at, "%s is %s; expected a map of names", what, n.what())
		return
	}
	for _, e := range n.entries {
		if l.checkName(e.key, "a name in "+what) {
			f(e.key, e.value)
		}
	}
}

const wantName = "up to 64 letters, digits, _ . and -, the first a letter or digit"

// checkName tells a text that can't be a name.
func (l *loader) checkName(n *node, what string) bool {
	if n.kind == badKind {
		return false
	}
	if n.kind != textKind {
		l.add(n.at, "%s is %s; expected %s", what, n.what(), wantName)
		return false
	}
	if !l.name.MatchString(n.text) {
		l.add(n.at, "%s is %s; expected %s", what, n.show(), wantName)
		return false
	}
	return true
}
