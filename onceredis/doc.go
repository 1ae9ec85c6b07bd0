// Package onceredis keeps the records of a once.Guard in Redis: on a single server, behind Sentinel
// or in a Cluster, over the client that its user already has.
//
// What is promised, for as long as the server keeps what it has acknowledged: everything that
// once.Store promises. Each step is one Lua script over one key, judged by the server's time, so
// that clients may disagree about the time. A replay takes one round trip; a first request takes
// two, one to claim and one to complete.
//
// What is not promised, since Redis doesn't: that an acknowledged claim survives a failover.
// Replicas are written to later than the client is answered, and a promoted one may never have seen
// the claim: the operation then runs a second time. Config.Wait makes that rarer and does not end
// it. Where an operation must not run twice, keep its records in SQLite, or let its final write to
// a database compare the fence. For the same reason Hold is refused unless Config.MayForget says
// that a held record may be forgotten.
//
// A server that would forget by design is refused by Open: one that evicts keys when its memory is
// full, or that keeps nothing on disk. Config says otherwise where that is meant.
package onceredis
