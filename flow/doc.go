// Package flow decides what a callback does to a task: which transition it is, whether it comes in
// time, which resources it takes and frees, and what has to be sent out because of it.
//
// A flow is a declared state machine ([Machine]) over task documents. [Engine.Decide] is a pure
// function from what a store holds and a row to a [queue.Settlement]; the store calls it inside its
// own transaction and applies the result whole or not at all. Nothing here keeps state, starts a
// goroutine or looks at a clock other than [queue.View.Now].
//
// # What is promised
//
//   - A callback for a state that the task isn't in changes nothing, also when it slipped past
//     every other guard: it is stale, early (parked) or illegal (a dead letter); see
//     [Engine.Decide].
//   - The acquires of one transition are all or nothing. A resource has at most one owner, and its
//     fence rises with each new one. Only the owner frees it.
//   - A resource with on_release effects is free only when all of them are acknowledged.
//   - Who waits for a resource gets it in the order of acceptance. A callback that was woken for a
//     resource and does not take it wakes the next one.
//   - A settlement built twice for the same row has the same effect ids.
//
// # What is expected of a store
//
//   - A row keeps its Waits from parking until the settlement that follows, also while it is woken,
//     tried again, or made due by a person.
//   - A wake makes rows due that wait, never the row of its own settlement.
//   - Where a store ends a row that has Waits without asking the engine (a person discards it, its
//     workers were lost too often), it wakes the first row of each of these waits.
//   - An effect whose identity is already there is left as it is.
package flow
