// Package api is the listener of the operator: health, metrics and the API under /api/v1.
//
// One table of routes registers the handlers, checks parameters and makes the OpenAPI description,
// so that none of the three can say something else than the others. What a caller sees is in
// docs/api.md.
//
// What is promised: an answer is given only to a request that names this host and that no page of
// another origin has sent; a change needs an actor and a reason, is kept with both, and changes
// nothing when it is refused; a page takes a bounded time. Answers with a body are JSON, refusals
// are problem details (RFC 9457).
package api
