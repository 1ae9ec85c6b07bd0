package queue

// Kind tells the two directions of rows apart.
type Kind uint8

// The kinds of rows. The numbers are stored; they never change.
const (
	// Callback is a message that came in and waits for its handler.
	Callback Kind = 1
	// Effect is a message that is to go out and waits for its destination.
	Effect Kind = 2
)

// String returns "callback" or "effect".
func (k Kind) String() string {
	if k == Effect {
		return "effect"
	}
	return "callback"
}

// State says where a row stands. The texts are used in the API, in metrics and in configuration.
type State string

// The states of rows. Pending, Running, Sending, Parked, Dead and Held rows are never swept.
const (
	// Pending rows wait for their turn, for their next try, or behind an earlier row of their key.
	Pending State = "pending"
	// Running callbacks are in the hands of a worker.
	Running State = "running"
	// Sending effects are in the hands of a sender.
	Sending State = "sending"
	// Done rows had their effect.
	Done State = "done"
	// Parked callbacks wait for their task to move or for a resource to become free.
	Parked State = "parked"
	// Stale callbacks came too late to have an effect; they are kept.
	Stale State = "stale"
	// Unrouted callbacks carry an event that nothing is declared for; they are kept.
	Unrouted State = "unrouted"
	// Dead rows need a person: a dead letter.
	Dead State = "dead"
	// Held rows had an attempt of which nobody knows whether it had its effect; a person decides.
	Held State = "held"
	// Expired effects were not sent in time and are not sent any more.
	Expired State = "expired"
	// Discarded rows were given up by a person.
	Discarded State = "discarded"
)

// States returns the states a row of kind k can have, in the order in which people read them.
func States(k Kind) []State {
	if k == Effect {
		return []State{Pending, Sending, Done, Held, Dead, Expired, Discarded}
	}
	return []State{Pending, Running, Done, Parked, Stale, Unrouted, Dead, Held, Discarded}
}

// Valid reports whether s is a state of kind k.
func (s State) Valid(k Kind) bool {
	for _, have := range States(k) {
		if have == s {
			return true
		}
	}
	return false
}

// Final reports whether a row in state s is finished and may be swept after its retention.
func (s State) Final() bool {
	switch s {
	case Done, Stale, Unrouted, Expired, Discarded:
		return true
	}
	return false
}

// Working returns the state of a row of kind k that is in somebody's hands.
func (k Kind) Working() State {
	if k == Effect {
		return Sending
	}
	return Running
}

// Cause says why a row is dead. It decides whether a later arrival may revive or replace it.
type Cause string

// The causes of a dead letter.
const (
	// CauseTransient: the tries were used up on failures that might have passed.
	CauseTransient Cause = "transient"
	// CausePermanent: the handler or destination refused it for good.
	CausePermanent Cause = "permanent"
	// CausePoison: its workers were lost again and again while they held it.
	CausePoison Cause = "poison"
	// CauseIllegal: the flow does not allow the event in the task's state.
	CauseIllegal Cause = "illegal"
	// CauseWaited: it waited for its predecessor or a resource longer than its limit.
	CauseWaited Cause = "waited"
	// CauseBusy: what it needs belongs to another task, and the flow says not to wait.
	CauseBusy Cause = "busy"
	// CauseCircle: its wait would have closed a circle of owners.
	CauseCircle Cause = "circle"
)

// Outcome is what the sender of an arrival is told.
type Outcome string

// The outcomes. The texts are used in metrics, in replies and in the API.
const (
	// Accepted: the first arrival under its identity; it is stored and will be worked.
	Accepted Outcome = "accepted"
	// Duplicate: the identity is known with the same content.
	Duplicate Outcome = "duplicate"
	// Conflict: the identity is known with other content; both are kept, the first one counts.
	Conflict Outcome = "conflict"
	// Invalid: no callback could be made of the message; it is in the ring of refused messages.
	Invalid Outcome = "invalid"
	// Unauthorized: the sender did not prove who it is.
	Unauthorized Outcome = "unauthorized"
	// Unavailable: the store could not make the callback durable; nothing was accepted.
	Unavailable Outcome = "unavailable"
	// Probe: the sender tried whether somebody answers; nothing was stored.
	Probe Outcome = "probe"
)
