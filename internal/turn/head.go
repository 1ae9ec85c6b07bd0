package turn

import "time"

// Rows that are through leave dead entries in the index of what is due, until the database has
// cleaned up: whoever looks for the first due row passes over all of them. Under load that is a
// minute's work, at each look. So the state keeps of each lane a number below which no row is due.
//
// Only the turn makes stored rows due, and lowers the number when it does. What arrives beside the
// turn has a number above all that were there, but it may be committed after a later one. So the
// first due row of a look becomes the number only when all transactions have ended that had begun
// by then: none of them can bring a row below it any more.

// lookAgain is how often all rows of a lane are looked at, whatever its head says: what nobody
// thought of does not wait for ever.
const lookAgain = 10 * time.Second

// LaneHead says where the rows of a lane begin that may be due.
type LaneHead struct {
	// From: no row with a lower number is due.
	From int64 `json:"from,omitempty"`
	// Next becomes From when all transactions numbered below NextTx have ended.
	Next   int64 `json:"next,omitempty"`
	NextTx int64 `json:"next_tx,omitempty"`
	// LookedAt is when all rows were looked at last.
	LookedAt Stamp `json:"looked_at,omitempty"`
}

// lower makes sure that a row which became due is not passed over.
func (h *LaneHead) lower(seq int64) {
	h.From, h.Next = min(h.From, seq), min(h.Next, seq)
}

// Snapshot says which transactions have ended. The zero value says nothing.
type Snapshot struct {
	// Oldest: all transactions with a lower number have ended.
	Oldest int64
	// Next: all transactions that have begun have a lower number. Whoever gave a row a number that
	// the batch knows of had begun by then.
	Next int64
}

// lookFrom is the number from which on the batch looks for what is due in a lane.
func (t *Batch) lookFrom(lane string) (from int64, all bool) {
	h := t.lane(lane).LaneHead
	if h.From == 0 || t.now >= h.LookedAt.Add(lookAgain) {
		return 0, true
	}
	for _, seq := range t.Rows.dirty {
		if r := t.Rows.cells[seq].now; r != nil && r.Phase == Ready && r.Lane == lane {
			h.lower(seq)
		}
	}
	return h.From, false
}

// noteHead notes the first due row that a look has found in a lane; 0: there is none.
func (t *Batch) noteHead(lane string, first int64, all bool) {
	if t.snapshot.Next == 0 {
		return
	}
	// What came while the batch runs may have come before what has a lower number.
	if first == 0 || first > t.known+1 {
		first = t.known + 1
	}
	h := t.lane(lane).LaneHead
	if all {
		h.LookedAt, h.From = t.now, min(h.From, first)
	}
	switch {
	case h.Next == 0 || h.NextTx > t.snapshot.Next: // or these are the numbers of another server
		h.Next, h.NextTx = first, t.snapshot.Next
	case h.NextTx <= t.snapshot.Oldest:
		h.From = min(h.Next, first)
		h.Next, h.NextTx = first, t.snapshot.Next
	}
	if h != t.lane(lane).LaneHead {
		t.setLane(lane, func(l *LaneState) { l.LaneHead = h })
	}
}

// heads are the lanes' heads with what the batch made due.
func (t *Batch) heads() map[string]LaneHead {
	out := make(map[string]LaneHead, len(t.lanes))
	for name, l := range t.lanes {
		out[name] = l.LaneHead
	}
	for _, seq := range t.Rows.dirty {
		if r := t.Rows.cells[seq].now; r != nil && r.Phase == Ready {
			if h, ok := out[r.Lane]; ok {
				h.lower(seq)
				out[r.Lane] = h
			}
		}
	}
	return out
}
