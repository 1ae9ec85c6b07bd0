// Package oncemongo makes operations happen once in effect over MongoDB: it keeps records and the
// queue, and it writes events into users' collections ([Writer]).
//
// MongoDB 5 or newer is supported, as replica set or sharded cluster with transactions, and as a
// single server or a compatible one without: there, what has to be one step is done in steps that
// anyone can finish. What is asked of each server is that an insert under a unique index and an
// update of one document by a condition are atomic; [Probe] looks whether they are.
//
// [Store] is the service's whole store, as package oncesqlite has one in a file; any number of
// processes may use one database. [Records] are records alone, for a guard of one's own.
//
// The client is the user's ([Options] has settings for it). This package asks for majority writes,
// journaled, and majority reads from the primary by itself, whatever the client's settings are.
package oncemongo
