package config

import (
	"embed"
	"slices"
	"strings"
)

// presetFiles are the presets, a file each: a comment that says what it is for, then `requires`
// (fields that a preset can't know, and why) and `source` (any field of a source but `to`).
//
// A preset's key, scope, each and content make identities. Under its name they never change: a
// plant that updates the program would take every repeat for new. Another one gets another name.
//
//go:embed presets/*.yaml
var presetFiles embed.FS

const presetFolder, presetEnding = "presets", ".yaml"

// presetNames lists all presets, sorted.
func presetNames() []string {
	files, _ := presetFiles.ReadDir(presetFolder) // embedded: it is there
	names := make([]string, 0, len(files))
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), presetEnding))
	}
	slices.Sort(names)
	return names
}

// preset is what a file of presetFiles says.
type preset struct {
	requires []entry // fields that the source must have itself, and why
	source   *node
}

// readPreset reads an embedded preset. All of its nodes are at the place where it is asked for. A
// mistake in it is one of the program, and told as such.
func (l *loader) readPreset(name string, at place) preset {
	text, err := presetFiles.ReadFile(presetFolder + "/" + name + presetEnding)
	if err != nil {
		l.add(at, "read the preset %s: %s", quote(name), err)
		return preset{}
	}
	own := &problems{file: name + presetEnding}
	t := &tree{problems: own, src: newSource(string(text)), fill: newFiller(Env{}, "")}
	root := t.parse(string(text))
	if err := own.err(t.src); err != nil {
		l.add(at, "read the preset %s: %s", quote(name), err)
		return preset{}
	}
	graft(root, at, name)
	p := preset{source: root.member("source")}
	if requires := root.member("requires"); requires != nil {
		p.requires = requires.entries
	}
	return p
}

// graft puts a node and all below it to one place.
func graft(n *node, at place, name string) {
	if n == nil {
		return
	}
	n.at, n.preset = at, name
	for _, item := range n.items {
		graft(item, at, name)
	}
	for _, e := range n.entries {
		graft(e.key, at, name)
		graft(e.value, at, name)
	}
}

// presets gives each source that names a preset the fields that it leaves out. One whose preset is
// not known isn't read any further: what it lacks would be told although it isn't missing.
func (r *reader) presets(o *object) {
	sources := o.n.member("sources")
	if sources == nil || sources.kind != mapKind {
		return
	}
	for i := range sources.entries {
		e := &sources.entries[i]
		if n := e.value.member("preset"); n != nil {
			e.value = r.withPreset(e.value, n)
			r.unread = r.unread || e.value.kind == badKind
		}
	}
}

func (r *reader) withPreset(src, n *node) *node {
	unread := &node{kind: badKind, at: src.at}
	switch names := presetNames(); {
	case n.kind == badKind:
		return unread
	case n.kind != textKind:
		r.add(n.at, "preset is %s; expected the name of a preset: %s", n.what(),
			strings.Join(names, ", "))
		return unread
	case !slices.Contains(names, n.text):
		r.add(n.at, "there is no preset %s; %s", n.show(), nearestPreset(n, names))
		return unread
	}
	p := r.readPreset(n.text, n.at)
	if p.source == nil {
		return unread
	}
	for _, q := range p.requires {
		if src.member(q.key.raw) == nil {
			r.add(n.at, "the preset %s needs the field `%s`, which it can't know: %s", n.show(),
				q.key.raw, q.value.text)
		}
	}
	if r.givenBy == nil {
		r.givenBy = map[place]string{}
	}
	r.givenBy[n.at] = n.text
	return merge(src, p.source)
}

// nearestPreset says which preset was most likely meant, and which ones there are. Beside a slip of
// the keyboard it knows names of which a part is missing: hik-v3.
func nearestPreset(n *node, names []string) string {
	if n.filled {
		return oneOf("", names)
	}
	if nearest(n.text, names) == "" {
		best, most := "", 0
		for _, name := range names {
			if shared := sharedWords(n.text, name); shared > most {
				best, most = name, shared
			}
		}
		if best != "" {
			return "did you mean " + quote(best) + "? " + oneOf("", names)
		}
	}
	return oneOf(n.text, names)
}

// sharedWords counts the words of a that b has, too. Words are cut at dashes and the like.
func sharedWords(a, b string) int {
	words := func(s string) []string {
		return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
			return strings.ContainsRune("-_. ", r)
		})
	}
	n, have := 0, words(b)
	for _, w := range words(a) {
		if slices.Contains(have, w) {
			n++
		}
	}
	return n
}

// merge returns a source with the fields of its preset that it doesn't have itself. `reply` and
// `each` are merged by member. An empty list takes a field of the preset away.
func merge(src, preset *node) *node {
	out := *src
	out.entries = nil
	for _, e := range src.entries {
		switch given := preset.member(e.key.raw); {
		case given == nil:
		case e.value.kind == listKind && len(e.value.items) == 0:
			out.cleared = append(out.cleared, e.key.raw)
			continue
		case e.key.raw == "each":
			e.value = mergeMembers(eachAsMap(e.value), eachAsMap(given))
		case e.key.raw == "reply":
			e.value = mergeMembers(e.value, given)
		}
		out.entries = append(out.entries, e)
	}
	toFlow := src.member("to").member("flow") != nil
	for _, e := range preset.entries {
		if toFlow && (e.key.raw == "order_by" || e.key.raw == "events") {
			continue // there the task is the order, and the flow knows its events
		}
		if src.member(e.key.raw) == nil {
			out.entries = append(out.entries, e)
		}
	}
	return &out
}

// mergeMembers returns a map with the members of a preset's that it doesn't have itself. What is no
// map is told by who reads it.
func mergeMembers(own, preset *node) *node {
	if own.kind != mapKind || preset.kind != mapKind {
		return own
	}
	out := *own
	out.entries = slices.Clone(own.entries)
	for _, e := range preset.entries {
		if own.member(e.key.raw) == nil {
			out.entries = append(out.entries, e)
		}
	}
	return &out
}

// eachAsMap writes `each: "EXPR"` in its long form, {items: "EXPR"}.
func eachAsMap(n *node) *node {
	if n.kind == mapKind || n.kind == badKind || n.kind == nullKind {
		return n
	}
	key := &node{kind: textKind, at: n.at, raw: "items", text: "items", template: "items",
		preset: n.preset}
	return &node{kind: mapKind, at: n.at, preset: n.preset, entries: []entry{{key, n}}}
}

// showPreset shows which preset a source has, and what it takes away from it, so that what is
// printed loads again as the same.
func showPreset(o *object) {
	if n := o.get("preset"); n != nil {
		o.out.put("preset", nodeOut(n))
	}
}

func showCleared(o *object) {
	for _, name := range o.n.cleared {
		if o.out.byKey[name] == nil {
			o.out.put(name, lineOut("[]"))
		}
	}
}
