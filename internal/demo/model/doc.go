// Package model says what has to come of the demo's callbacks, written down by hand a second time:
// it shares no code with the server.
//
// It is given evidence: what the senders sent and were told, what the destinations were sent, and
// what the server says of itself when all is over. [Judge] works each task's callbacks through a
// small state machine of its own, in the order in which they were acknowledged, and compares. Two
// things are left to the server: when it gave a free roadway or station to whom, and when a task
// came into a state. The task's history says so, and is followed only where the machine finds it
// legal.
package model
