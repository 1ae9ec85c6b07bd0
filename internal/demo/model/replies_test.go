package model

import (
	"testing"
	"time"
)

func TestWrongRepliesAreCountedAndTheFirstIsNamed(t *testing.T) {
	t.Parallel()
	e := right()
	a, b := e.Callbacks[0], e.Callbacks[7] // a1 startFE of A, b4 finish of B
	a.Sends[0].At, a.Sends[0].Wrong = 3*time.Second, "the later one"
	b.Sends[1].At, b.Sends[1].Wrong = 2*time.Second, "the earlier one"
	r := Judge(e)
	want := Fault{WrongReply, "B",
		"the first of 2: to b4 finish (at the same time): the earlier one"}
	if r.OK() || r.WrongReplies != 2 || len(r.Faults) != 1 || r.Faults[0] != want {
		t.Errorf("%d wrong, %+v, want %+v", r.WrongReplies, r.Faults, want)
	}
	if r := Judge(right()); r.WrongReplies != 0 {
		t.Errorf("%d wrong in a right world", r.WrongReplies)
	}
}
