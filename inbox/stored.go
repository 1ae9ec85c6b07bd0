package inbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/queue"
)

// storedPrefix begins the Meta of a row whose Body is not the plain JSON of one callback. It comes
// first, so that the reading of all other rows costs nothing more.
const storedPrefix = `{"stored":`

// elementPrefix begins the Meta of a row that is an element of a message.
const elementPrefix = storedPrefix + `{"element":`

// Element says which callback of its message a row is, where the source had Each.
type Element struct {
	// Index counts from 0 in the list of Of elements.
	Index int `json:"index"`
	Of    int `json:"of"`
	// Whole is true where the stored body is the whole message although it has several elements:
	// its list could not be cut down to this one.
	Whole bool `json:"whole"`
	// Picked is true where Each took only this one out of a longer list, to which the stored body
	// was cut down.
	Picked bool `json:"picked"`
	// Value is the element, as JSON with exact numbers.
	Value json.RawMessage `json:"value"`
}

// cut reports whether the stored body is not the one that came.
func (e *Element) cut() bool { return e != nil && (e.Of > 1 || e.Picked) && !e.Whole }

// bodyForm says how a stored body has to be read.
type bodyForm struct {
	Element *Element `json:"element"`
	Coding  string   `json:"coding"`
	Form    bool     `json:"form"`
}

// appendTo begins a row's Meta; the rest, which begins with a brace, is cut of it. Of what needs no
// word it writes none.
func (f *bodyForm) appendTo(b, rest []byte) []byte {
	if f.Coding == "" && !f.Form && f.Element == nil {
		return append(b, rest...)
	}
	b = append(b, storedPrefix...)
	b = append(b, '{')
	if e := f.Element; e != nil {
		b = strconv.AppendInt(append(b, `"element":{"index":`...), int64(e.Index), 10)
		b = strconv.AppendInt(append(b, `,"of":`...), int64(e.Of), 10)
		if e.Whole {
			b = append(b, `,"whole":true`...)
		}
		if e.Picked {
			b = append(b, `,"picked":true`...)
		}
		b = append(append(append(b, `,"value":`...), e.Value...), `},`...)
	}
	if f.Coding != "" {
		b = append(append(append(b, `"coding":"`...), f.Coding...), `",`...)
	}
	if f.Form {
		b = append(b, `"form":true,`...)
	}
	b[len(b)-1] = '}' // in the place of the last comma
	return append(append(b, ','), rest[1:]...)
}

// content takes the content coding off a stored body.
func (f *bodyForm) content(body []byte) ([]byte, error) {
	if f.Coding == "" {
		return body, nil
	}
	free := func(int64) error { return nil }
	return unpack(body, f.Coding, maxStoredContent, free)
}

// DecodeBody makes the value of a stored callback's body, in the terms of package internal/value,
// as its source saw it: without its content coding, JSON or a form. The body of an element is the
// message in which the list holds only it. Depth bounds the nesting.
func DecodeBody(meta, body []byte, depth int) (any, error) {
	if !bytes.HasPrefix(meta, []byte(storedPrefix)) {
		return value.Decode(body, value.Limits{Depth: depth})
	}
	r, err := DecodeMeta(meta)
	if err != nil {
		return nil, err
	}
	content, err := r.as.content(body)
	if err != nil {
		return nil, err
	}
	return decodeContent(content, r.as.Form, depth)
}

// IsElement reports whether a stored callback is an element of a message whose source had Each.
func IsElement(meta []byte) bool { return bytes.HasPrefix(meta, []byte(elementPrefix)) }

// DecodeItem makes the value of the element that a stored callback is; false: its message was one
// callback. Depth bounds the nesting.
func DecodeItem(meta []byte, depth int) (item any, found bool, err error) {
	if !IsElement(meta) {
		return nil, false, nil
	}
	r, err := DecodeMeta(meta)
	if err != nil || r.Element == nil {
		return nil, false, err
	}
	item, err = value.Decode(r.Element.Value, value.Limits{Depth: depth})
	return item, true, err
}

// StoredMessage makes of a stored callback what the functions of its source see: Body, and Item
// where the source has Each. Depth bounds the nesting. A callback that was stored when its source
// had no Each is taken for the only element of its message; where it is not, that is an error.
func StoredMessage(src *Source, row *queue.Row, depth int) (*Message, error) {
	r, err := DecodeMeta(row.Meta)
	if err != nil {
		return nil, err
	}
	m := &Message{Source: row.Source, Method: r.Method, Path: r.Path, Peer: r.Peer,
		Header: r.Header, Raw: row.Body, identity: row.Identity}
	m.Query, _ = url.ParseQuery(r.Query) // what can be read of it, as when it came
	if err := m.decode(src, &r.as, depth); err != nil {
		return nil, err
	}
	return m, nil
}

// MessageOf is [StoredMessage] of a callback as a handler sees it. What the request was beside its
// header, query and body is not known of it.
func MessageOf(src *Source, c Callback, depth int) (*Message, error) {
	m := &Message{Source: c.Source, Header: c.Header, Query: c.Query, Raw: c.Body}
	if err := m.decode(src, &c.as, depth); err != nil {
		return nil, err
	}
	return m, nil
}

// decode makes Body and Item of a stored body.
func (m *Message) decode(src *Source, as *bodyForm, depth int) (err error) {
	if m.content, err = as.content(m.Raw); err != nil {
		return fmt.Errorf("decode body: %w", err)
	}
	if m.Body, err = decodeContent(m.content, as.Form, depth); err != nil {
		return fmt.Errorf("decode body: %w", err)
	}
	switch {
	case as.Element != nil:
		m.Item, err = value.Decode(as.Element.Value, value.Limits{Depth: depth})
	case src.Each != nil:
		m.Item, err = onlyItem(src, m)
	}
	if err != nil {
		return fmt.Errorf("decode element: %w", err)
	}
	return nil
}

// onlyItem returns the element of a message that was stored as one callback.
func onlyItem(src *Source, m *Message) (any, error) {
	items, err := src.Each(m)
	switch {
	case err != nil:
		return nil, err
	case len(items) != 1:
		return nil, fmt.Errorf("the message was stored as one callback and has %d elements",
			len(items))
	}
	return items[0], nil
}
