package wire

// Change is the body of every change.
type Change struct {
	Actor  string `json:"actor" doc:"Who makes the change; kept with it. At most 200 bytes."`
	Reason string `json:"reason" doc:"Why; kept with it. At most 2000 bytes."`
}

// Who returns the change itself, also of those that embed it.
func (ch *Change) Who() *Change { return ch }

// AcceptChange makes a conflicting arrival a revision.
type AcceptChange struct {
	Change
	Receipt *int64 `json:"receipt" null:"no" doc:"The conflict: n of one of the receipts."`
}

// MoveChange puts a task into another state.
type MoveChange struct {
	Change
	To string `json:"to" doc:"The new state."`
}

// ReleaseChange frees a resource.
type ReleaseChange struct {
	Change
	From *Owner `json:"from,omitempty" null:"no" doc:"Only if this task has it: refused otherwise."`
}

// TransferChange gives a resource to a task.
type TransferChange struct {
	Change
	From *Owner `json:"from,omitempty" null:"no" doc:"Only if this task has it: refused otherwise."`
	To   *Owner `json:"to" null:"no" doc:"The new owner."`
}
