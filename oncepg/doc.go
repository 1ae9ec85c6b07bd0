// Package oncepg keeps things in PostgreSQL, over the *pgxpool.Pool or *sql.DB that its user has:
// [Store] is that of the service (callbacks, effects, tasks and resources) and [Records] are those
// of a once.Guard, in a schema that [Migrate] makes; [Writer] writes events,
// each once in effect, into its user's own tables, also inside the user's own transaction.
//
// Leases and retentions are judged by the database's clock alone, so that the clocks of any number
// of processes may differ.
//
// An event is one statement: it records the event's id under a unique index, changes the row, and
// returns what came of both, so that there is no moment at which one is there without the other. A
// statement that met a rival is carried out again; rivals never surface as an error of uniqueness,
// serialization or deadlock. Where the answer to a commit was lost, the record tells by the token
// of the call whether it was this call that wrote it.
//
// Nothing is held on to between two statements: no session locks, no LISTEN, so a pooler in
// transaction mode may stand between (set the pool's exec mode as pgx asks for it).
//
// What is promised ends with the retention: an event that comes again after its record was swept is
// applied again.
package oncepg
