package flow

import (
	"strconv"

	"github.com/oncekit/once/queue"
)

// Acknowledged says what follows from the end of an effect: it was acknowledged, a person said that
// it happened, or a person gave it up. If it was the last one that a resource waited for, the
// resource becomes free and its first waiter is woken. An effect of an earlier ownership, which a
// person has cut short meanwhile, changes nothing. It fits queue.Settlement.Then, which has no
// error to return: after one of the view it is empty, and the store gives up the settlement.
func (e *Engine) Acknowledged(v queue.View, row queue.Row) queue.Settlement {
	if !row.Frees {
		return queue.Settlement{}
	}
	about, err := parseRef(row.Resource)
	if err != nil {
		return queue.Settlement{}
	}
	d := e.newDraft(v, e.plans[row.Flow], row.Flow, row.Task)
	r, err := d.get(about)
	if err != nil || r.Freeing == 0 || r.Flow != row.Flow || r.Task != row.Task {
		return queue.Settlement{}
	}
	if len(row.Key) == 2 && row.Key[1] != strconv.FormatInt(r.Fence, 10) {
		return queue.Settlement{}
	}
	if r.Freeing > 1 {
		r.Freeing--
		d.change(r)
	} else {
		d.clear(r)
	}
	return d.changes()
}
