// Package torture is the crash test: the real process under load, killed again and again, and then
// everything it acknowledged compared with a model that shares no code with it.
//
// Three processes take part. The server is the one under test; it dies by SIGKILL at a place that
// is chosen for each life: inside the store's transaction, between commit and reply, with an effect
// in its hands, in a sweep, or at any moment. The sink is the destination of its effects: it counts
// each one durably before it answers, is slow, refuses and hangs up now and then, and outlives the
// server. The test itself is the sender, which repeats whatever was not answered, and much besides.
//
// The tests say what is compared. docs/testing.md says how to run it for long.
package torture
