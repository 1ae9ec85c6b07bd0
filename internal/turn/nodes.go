package turn

import "time"

const (
	// waitGrace bounds the time by which the limits of waits are put off after a start: while
	// nobody served the store, nothing could come of what was waited for.
	waitGrace = time.Minute
	// BackPerCommit bounds the rows of a lost node that one batch takes back.
	BackPerCommit = 256
)

// ArriveAfter puts the limits of waits off by the time for which nobody served the store: since it
// was last known to be; 0: never, it is new.
func (t *Batch) ArriveAfter(known Stamp) {
	if known = max(known, t.start.At); known == 0 { // in a new store nothing waits
		return
	}
	end := t.now + min(t.now-known, Stamp(waitGrace.Milliseconds()))
	if end > t.now && end > t.state.WaitsEnd {
		t.set(func(s *State) { s.WaitsEnd = end })
	}
}

// TakeBack makes rows due that a node had in hand which has ended, and returns how many; fewer than
// BackPerCommit: none is left.
func (t *Batch) TakeBack(node string) (int, error) {
	rows, err := t.selectRows(RowQuery{Node: node, Phases: []Phase{Working}}, BackPerCommit)
	if err != nil {
		return 0, err
	}
	for _, r := range rows {
		if err := t.backToDue(r, "the process that worked it ended"); err != nil {
			return 0, err
		}
	}
	return len(rows), nil
}
