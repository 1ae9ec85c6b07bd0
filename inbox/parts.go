package inbox

import (
	"fmt"
	"net/http"

	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/queue"
)

// A row of a message with several elements has to be worked alone, so it keeps the rest of the
// message too: the message in which the list holds only its element. What all rows of a message
// take together is bounded by a multiple of its size. See docs/adr/0008-elements.md.
const (
	// maxSpread is how many times its own size the rows of a message may take together. It is
	// reached if what is beside the list is as long as 15 elements.
	maxSpread = 16

	// freeSpread is what the rows of a message may take in any case, in bytes: a thousand small
	// elements, each with the headers of the request.
	freeSpread = 8 << 20
)

// buildEach makes the arrivals of the good elements. A message with one element is stored as it
// came.
func (in *intake) buildEach(r *http.Request, items []any, good []element) *contentFault {
	in.scratch = in.rc.appendMeta(in.scratch[:0], r, in.msg.Peer, in.src.denied)
	rest := in.scratch // of each row's Meta
	size := len(in.msg.Raw)
	if content, err := in.msg.Content(); err == nil { // it was read before
		size = max(size, len(content))
	}
	limit := max(maxSpread*(size+len(rest)), freeSpread)
	c := cutter{in: in, items: items}
	several, picked := len(items) > 1, c.picked()
	total := 0
	in.arrivals = make([]queue.Arrival, 0, len(good))
	for i := range good {
		e := &good[i]
		item, err := value.Encode(e.item)
		if err != nil {
			return &contentFault{invalid(fmt.Sprintf("element [%d]: %s", e.index, err))}
		}
		as := bodyForm{Coding: in.msg.coding, Form: in.src.Form,
			Element: &Element{Index: e.index, Of: len(items), Picked: picked, Value: item}}
		body := in.msg.Raw
		if several || picked {
			if part, ok := c.cut(e.item); ok {
				body, as.Coding = part, ""
			} else {
				as.Element.Whole = true
			}
		}
		meta := as.appendTo(make([]byte, 0, len(rest)+len(item)+96), rest)
		if several {
			total += len(body) + len(meta)
		}
		if total > limit {
			return &contentFault{invalid(fmt.Sprintf("its %d elements need more than %d bytes, "+
				"since each is kept with the rest of the message; send fewer at once",
				len(items), limit))}
		}
		if err := in.growFor(len(item)+len(body)+len(meta), several); err != nil {
			return err
		}
		in.arrivals = append(in.arrivals, in.arrival(r, e.identity, &e.reading, meta, body))
	}
	return nil
}

// growFor takes memory for what a row keeps beside the message as it came.
func (in *intake) growFor(n int, several bool) *contentFault {
	if !several {
		return nil
	}
	if err := in.msg.grow(int64(n)); err != nil {
		return err.(*contentFault)
	}
	return nil
}

// cutter makes the bodies of the rows of a message with several elements.
type cutter struct {
	in    *intake
	items []any
	// ways lead to lists in the message that may be the one of the elements; nil: not looked for.
	ways   []way
	looked bool
}

// look finds the lists in the message that may be the one of the elements.
func (c *cutter) look() {
	if !c.looked {
		c.looked = true
		c.ways = waysTo(c.in.msg.Body, c.items)
	}
}

// picked reports whether the only element is one of a longer list in the message.
func (c *cutter) picked() bool {
	if len(c.items) != 1 {
		return false
	}
	switch c.items[0].(type) {
	case map[string]any, []any: // which one it is can be told
	default:
		return false
	}
	c.look()
	for _, w := range c.ways {
		if w.length(c.in.msg.Body) > 1 {
			return true
		}
	}
	return false
}

// cut returns the message in which the list of the elements holds only item, and false if there is
// no such message: the source's own Each has to find exactly item in it.
func (c *cutter) cut(item any) ([]byte, bool) {
	c.look()
	for len(c.ways) > 0 {
		if body, ok := c.try(c.ways[0], item); ok {
			return body, true
		}
		c.ways = c.ways[1:]
	}
	return nil, false
}

func (c *cutter) try(w way, item any) ([]byte, bool) {
	tree, err := w.with(c.in.msg.Body, item)
	if err != nil {
		return nil, false
	}
	encode := value.Encode
	if c.in.src.Form {
		encode = encodeForm
	}
	body, err := encode(tree)
	if err != nil {
		return nil, false
	}
	trial := c.in.msg
	trial.Raw, trial.content, trial.Body, trial.Item, trial.in = body, body, tree, nil, nil
	got, err := c.in.src.Each(&trial)
	return body, err == nil && len(got) == 1 && value.Equal(got[0], item)
}
