package expr

import (
	"reflect"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// fieldMap is [fields] as CEL sees it. Single fields are looked up where they are; anything
// about the whole goes through a copy.
type fieldMap struct{ *fields }

var _ traits.Mapper = fieldMap{}

// Find implements traits.Mapper; the value is an error for a field that came more than once.
func (m fieldMap) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	text, found, fault := m.get(string(name))
	if fault != "" {
		return types.NewErr("%s.%s: %s", m.kind, string(name), fault), true
	}
	return types.String(text), found
}

// Get implements traits.Indexer.
func (m fieldMap) Get(key ref.Val) ref.Val {
	if v, found := m.Find(key); found {
		return v
	}
	return types.NewErr("no such key: %v", key)
}

// Contains implements traits.Container.
func (m fieldMap) Contains(key ref.Val) ref.Val {
	_, found := m.Find(key)
	return types.Bool(found)
}

// whole returns all fields by lower-case name; doubled ones are errors in it.
func (m fieldMap) whole() traits.Mapper {
	all := make(map[string]any, len(m.values))
	for name := range m.values {
		if m.kind == headerFields {
			name = strings.ToLower(name)
		}
		if v, found := m.Find(types.String(name)); found {
			all[name] = v
		}
	}
	return types.NewStringInterfaceMap(adapter{}, all)
}

// Iterator implements traits.Iterable.
func (m fieldMap) Iterator() traits.Iterator { return m.whole().Iterator() }

// Size implements traits.Sizer.
func (m fieldMap) Size() ref.Val { return m.whole().Size() }

// Equal implements ref.Val.
func (m fieldMap) Equal(other ref.Val) ref.Val { return m.whole().Equal(other) }

// ConvertToNative implements ref.Val.
func (m fieldMap) ConvertToNative(t reflect.Type) (any, error) {
	return m.whole().ConvertToNative(t)
}

// ConvertToType implements ref.Val.
func (m fieldMap) ConvertToType(t ref.Type) ref.Val { return m.whole().ConvertToType(t) }

// Type implements ref.Val.
func (m fieldMap) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (m fieldMap) Value() any { return m.fields }
