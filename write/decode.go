package write

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/value"
)

// DecodeChange reads what [EncodeChange] wrote. The error wraps once.ErrCorrupt: it is for a person
// to look at.
func DecodeChange(b []byte) (Change, error) {
	v, err := value.Decode(b, value.Limits{Depth: value.MaxDepth})
	if err != nil {
		return nil, fmt.Errorf("decode change: %w: %w", once.ErrCorrupt, err)
	}
	members, isObject := v.(map[string]any)
	if !isObject {
		return nil, fmt.Errorf("decode change: %w: it is no object", once.ErrCorrupt)
	}
	d := decoder{members: members}
	change := d.change()
	if d.err != nil {
		return nil, fmt.Errorf("decode change: %w: %w", once.ErrCorrupt, d.err)
	}
	return change, nil
}

// decoder takes an encoded change apart and keeps the first error.
type decoder struct {
	members map[string]any
	err     error
}

func (d *decoder) change() Change {
	switch kind := d.text("do"); kind {
	case kindInsert:
		return Insert{Set: d.fields("set")}
	case kindUpsert:
		return Upsert{
			Set:         d.fields("set"),
			SetOnInsert: d.fields("set_on_insert"),
			Increment:   d.fields("increment"),
			Newer:       d.text("newer"),
		}
	case kindIncrement:
		return Increment{By: d.fields("by"), SetOnInsert: d.fields("set_on_insert")}
	case kindAppend:
		return Append{
			To:          d.text("to"),
			Values:      d.list("values"),
			SetOnInsert: d.fields("set_on_insert"),
		}
	case kindTransition:
		return Transition{
			Field: d.text("field"),
			From:  d.texts("from"),
			To:    d.text("to"),
			Set:   d.fields("set"),
			Newer: d.text("newer"),
		}
	}
	d.fail(errors.New("no known kind of change"))
	return nil
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

func (d *decoder) text(name string) string {
	v, found := d.members[name]
	s, isText := v.(string)
	if found && !isText {
		d.fail(fmt.Errorf("%s is no text", name))
	}
	return s
}

func (d *decoder) fields(name string) Fields {
	v, found := d.members[name]
	if !found {
		return nil
	}
	object, isObject := d.value(v).(map[string]any)
	if !isObject {
		d.fail(fmt.Errorf("%s is no object", name))
	}
	return object
}

func (d *decoder) list(name string) []any {
	list, isList := d.value(d.members[name]).([]any)
	if !isList {
		d.fail(fmt.Errorf("%s is no list", name))
	}
	return list
}

func (d *decoder) texts(name string) []string {
	list := d.list(name)
	texts := make([]string, len(list))
	for i, v := range list {
		s, isText := v.(string)
		if !isText {
			d.fail(fmt.Errorf("%s has what is no text", name))
		}
		texts[i] = s
	}
	return texts
}

func (d *decoder) value(v any) any {
	switch v := v.(type) {
	case nil, bool, string, int64:
		return v
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = d.value(element)
		}
		return list
	case map[string]any:
		if tagged, isTagged := d.tagged(v); isTagged {
			return tagged
		}
		object := make(map[string]any, len(v))
		for name, member := range v {
			object[name] = d.value(member)
		}
		return object
	}
	d.fail(errors.New("a number without its type"))
	return nil
}

// tagged reads what JSON has no value for.
func (d *decoder) tagged(object map[string]any) (any, bool) {
	if len(object) != 1 {
		return nil, false
	}
	var (
		v   any
		err error
	)
	for tag, member := range object {
		text, isText := member.(string)
		if !isText {
			return nil, false
		}
		switch tag {
		case tagTime:
			v, err = time.Parse(time.RFC3339Nano, text)
		case tagBytes:
			v, err = base64.StdEncoding.DecodeString(text)
		case tagDouble:
			v, err = strconv.ParseFloat(text, 64)
		case tagNumber:
			v = json.Number(text)
		default:
			return nil, false
		}
	}
	if err != nil {
		d.fail(errors.New("a tagged value can't be read"))
	}
	return v, true
}
