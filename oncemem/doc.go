// Package oncemem keeps the records of a once.Guard in memory, bounded by bytes: for tests, for a
// single process that may forget everything when it ends, and as the model that other stores are
// compared with.
//
// What is promised: everything that once.Store promises, for as long as the process lives. A live
// record is never evicted: a store that is full refuses new keys with once.ErrUnavailable, after
// it has removed what is past its retention.
//
// What is not promised: a restart forgets all, and so does every other process: two replicas with a
// store of this kind run everything twice. That is why Config.SingleInstance has to be set.
package oncemem
