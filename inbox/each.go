package inbox

import (
	"fmt"
	"net/http"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/queue"
)

// maxBadKept bounds the bad elements of one message that are kept one by one, so that a message
// does not push all others out of the ring. Further ones are kept as a count.
const maxBadKept = 20

// element is one callback of a message that may carry several.
type element struct {
	reading
	index    int
	item     any
	identity once.Identity
}

// badElement is an element of which no callback can be made.
type badElement struct {
	index  int
	item   any
	reason string
}

// judgeEach works a decoded message of a source with Each.
func (in *intake) judgeEach(r *http.Request) verdict {
	items, err := in.src.Each(&in.msg)
	switch n := len(items); {
	case err != nil:
		return in.refuse(r, invalid(err.Error()))
	case n == 0:
		return in.refuse(r, invalid("the list of elements is empty"))
	case n > in.src.MaxElements:
		return in.refuse(r, invalid(fmt.Sprintf("the message has %d elements, at most %d are taken",
			n, in.src.MaxElements)))
	}
	good, bad := in.readEach(items)
	if len(good) == 0 || in.src.RefuseBad && len(bad) > 0 {
		return in.refuse(r, invalid(badReason(bad, len(items))))
	}
	if err := in.buildEach(r, items, good); err != nil {
		return in.refuse(r, err.verdict)
	}
	known := in.dropRecalled()
	v := verdict{outcome: queue.Duplicate}
	if len(in.arrivals) > 0 {
		if v = in.append(r); v.outcome == queue.Unavailable {
			return v
		}
	}
	in.countElements(known, len(bad))
	in.keepBad(r, bad, len(items))
	return v
}

// readEach reads the elements one by one.
func (in *intake) readEach(items []any) (good []element, bad []badElement) {
	m := &in.msg
	good = make([]element, 0, len(items))
	for i, item := range items {
		m.Item, m.identity, in.read = item, once.Identity{}, reading{}
		if reason := in.makeReading(); reason != "" {
			bad = append(bad, badElement{i, item, cutText(reason, maxReason)})
			continue
		}
		good = append(good, element{in.read, i, item, m.identity})
	}
	m.Item = nil
	if len(items) > 1 {
		m.identity = once.Identity{} // the message is none of them
	}
	return good, bad
}

// badReason says what is wrong with a message because of its elements.
func badReason(bad []badElement, of int) string {
	first := fmt.Sprintf("element [%d]: %s", bad[0].index, bad[0].reason)
	switch {
	case len(bad) == of && of > 1:
		return fmt.Sprintf("none of the %d elements can be taken; %s", of, first)
	case len(bad) > 1:
		return fmt.Sprintf("%d of the %d elements can't be taken; %s", len(bad), of, first)
	}
	return first
}

// dropRecalled takes out the arrivals that the store knows without an Append, and returns how many
// there were: each was acknowledged before, so it is no part of what has to commit.
func (in *intake) dropRecalled() (known int) {
	left := in.arrivals[:0]
	for _, a := range in.arrivals {
		if in.recalls(a.Identity, a.Fingerprint) {
			known++
			continue
		}
		left = append(left, a)
	}
	in.arrivals = left
	return known
}

// countElements tells the observer what came of the elements.
func (in *intake) countElements(known, bad int) {
	o := in.rc.elements
	if o == nil {
		return
	}
	n := map[queue.Outcome]int{queue.Duplicate: known, queue.Invalid: bad}
	for i := range in.receipts {
		n[in.receipts[i].Outcome]++
	}
	for outcome, count := range n {
		if count > 0 {
			o.Elements(in.src.Name, outcome, count)
		}
	}
}

// keepBad keeps the bad elements of a message whose good ones are stored: each with its place in
// the list and its reason.
func (in *intake) keepBad(r *http.Request, bad []badElement, of int) {
	if len(bad) == 0 {
		return
	}
	if in.rc.logs.allow(time.Now()) {
		in.rc.log.Warn("elements refused", "source", in.src.Name, "elements", len(bad), "of", of,
			"error", badReason(bad, of), "peer", in.msg.Peer)
	}
	meta := in.rc.ringMeta(r, in.msg.Peer, in.src.denied)
	list := make([]queue.Rejected, 0, min(len(bad), maxBadKept+1))
	for i, b := range bad {
		rej := queue.Rejected{
			Source: in.src.Name, Outcome: queue.Invalid, Peer: in.msg.Peer, Meta: meta,
			Reason: fmt.Sprintf("element [%d] of %d: %s", b.index, of, b.reason),
		}
		if i == maxBadKept {
			rej.Reason = fmt.Sprintf("%d more of the %d elements can't be taken, the first of "+
				"them: element [%d]: %s", len(bad)-i, of, b.index, b.reason)
		}
		rej.Reason = cutText(rej.Reason, maxReason)
		if body, err := value.Encode(b.item); err == nil {
			rej.Size = int64(len(body))
			rej.Body = append([]byte(nil), body[:min(len(body), in.rc.cfg.RejectedBody)]...)
		}
		if list = append(list, rej); i == maxBadKept {
			break
		}
	}
	in.rc.ring.keep(r.Context(), in.src.ringRate, list...)
}
