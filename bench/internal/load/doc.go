// Package load is the load generator: one thread that serves all connections through epoll, with
// requests that are encoded beforehand and patched in place. A request costs a few microseconds,
// nearly all of them in the kernel, because the generator shares its machine with what it measures.
//
// A closed loop sends the next request on a connection when the reply to the last one is there. An
// open loop sends at a rate: latencies count from the moment at which a request was due, so a
// server that stalls can't hide it (no coordinated omission).
//
// Every reply is checked: its status, the begin of its body, and that it names the request.
package load
