package expr

import (
	"errors"
	"maps"
	"slices"

	"github.com/oncekit/once/internal/value"
)

// maxTreeDepth bounds a configured tree.
const maxTreeDepth = 32

// literalName is the only member of a map that marks a literal text: {text: body.taskCode}.
const literalName = "text"

// Tree is a value whose texts are templates, compiled. It is safe for concurrent use.
type Tree struct {
	root node
	all  []uses
}

// node is one place of a tree. Exactly one of its fields counts: constant if the others are nil.
type node struct {
	constant any
	template *Template
	members  []member
	isMap    bool
	list     []node
	isList   bool
	json     []byte // what depends on no message, encoded; nil: it does
}

type member struct {
	name   string
	prefix []byte // the name and the colon, as JSON
	node   node
}

// CompileTree compiles a tree of [Members], map[string]any, []any and scalars, as YAML or JSON
// gives it. Its texts are templates, its names are not. A map with the only member text stands for
// that literal text. Errors are *[CompileError]; Path leads to the place.
func (e *Env) CompileTree(v any, allowed VarSet, opts TemplateOptions) (*Tree, error) {
	t := &Tree{}
	c := treeCompiler{env: e, allowed: allowed, opts: opts, tree: t}
	root, err := c.node(v, nil)
	if err != nil {
		return nil, err
	}
	t.root = root
	if err := t.root.prepare(); err != nil {
		return nil, &CompileError{Msg: err.Error()}
	}
	return t, nil
}

type treeCompiler struct {
	env     *Env
	allowed VarSet
	opts    TemplateOptions
	tree    *Tree
}

func (c *treeCompiler) node(v any, path []any) (node, error) {
	if len(path) > maxTreeDepth {
		return node{}, &CompileError{Path: path, Msg: "nested too deep"}
	}
	switch v := v.(type) {
	case string:
		return c.text(v, path)
	case []any:
		out := node{isList: true, list: make([]node, len(v))}
		for i, e := range v {
			n, err := c.node(e, slices.Concat(path, []any{i}))
			if err != nil {
				return node{}, err
			}
			out.list[i] = n
		}
		return out, nil
	case Members:
		return c.object(v, path)
	case map[string]any:
		var sorted Members
		for _, name := range slices.Sorted(maps.Keys(v)) {
			sorted = append(sorted, Member{name, v[name]})
		}
		return c.object(sorted, path)
	}
	constant, err := value.Normalize(v)
	if err != nil {
		return node{}, &CompileError{Path: path, Msg: err.Error()}
	}
	return node{constant: constant}, nil
}

func (c *treeCompiler) text(s string, path []any) (node, error) {
	t, err := c.env.CompileTemplate(s, c.allowed, c.opts)
	if err != nil {
		var bad *CompileError
		if errors.As(err, &bad) {
			bad.Path = path
		}
		return node{}, err
	}
	c.tree.all = append(c.tree.all, t.allUses()...)
	return node{template: t}, nil
}

func (c *treeCompiler) object(all Members, path []any) (node, error) {
	if len(all) == 1 && all[0].Name == literalName {
		s, isText := all[0].Value.(string)
		if !isText {
			return node{}, &CompileError{
				Path: slices.Concat(path, []any{literalName}),
				Msg:  "{text: …} marks a literal text, but this is " + kindOf(all[0].Value),
			}
		}
		return node{constant: s}, nil
	}
	out := node{isMap: true}
	for _, m := range all {
		n, err := c.node(m.Value, slices.Concat(path, []any{m.Name}))
		if err != nil {
			return node{}, err
		}
		out.members = append(out.members, member{name: m.Name, node: n})
	}
	return out, nil
}

func kindOf(v any) string {
	if _, ok := v.(Members); ok {
		v = map[string]any{}
	}
	return value.KindOf(v)
}

// Eval returns the tree's value. A member or element whose value is absent is left out; the
// result is [Absent] if the whole is. Errors are *[EvalError].
func (t *Tree) Eval(vars *Vars) (any, error) { return t.root.eval(vars) }

// References returns what the tree uses, as [Program.References].
func (t *Tree) References() []string { return references(t.all...) }

func (n *node) eval(vars *Vars) (any, error) {
	switch {
	case n.template != nil:
		return n.template.Eval(vars)
	case n.isMap:
		out := make(map[string]any, len(n.members))
		for i := range n.members {
			v, err := n.members[i].node.eval(vars)
			if err != nil {
				return nil, err
			}
			if v != Absent {
				out[n.members[i].name] = v
			}
		}
		return out, nil
	case n.isList:
		out := make([]any, 0, len(n.list))
		for i := range n.list {
			v, err := n.list[i].eval(vars)
			if err != nil {
				return nil, err
			}
			if v != Absent {
				out = append(out, v)
			}
		}
		return out, nil
	}
	return n.constant, nil
}
