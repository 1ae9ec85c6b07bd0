package fill

import (
	"crypto/sha256"
	"fmt"
	"strconv"

	"github.com/oncekit/once"
	"github.com/oncekit/once/bench/internal/load"
	"github.com/oncekit/once/flow"
	"github.com/oncekit/once/queue"
)

// Names in the configuration of the benchmark.
const (
	source      = "rcs"
	flowName    = "transport"
	destination = "wms"
	lane        = "effect/wms"
	effectName  = "tell-wms"
	unknown     = "note" // an event that nothing is declared for
)

// row is one callback or effect as it is written.
type row struct {
	queue.Row
	phase     int64 // as in oncesqlite/phase.go; -1: done
	fp        []byte
	sweep     bool // it will be swept
	keyText   string
	peer      string
	swept     bool // meta and body are gone
	completed bool // its work has ended
	first     bool // the first of its task
}

// Phases of rows, as oncesqlite/phase.go numbers them.
const (
	phaseReady    = 0
	phaseDead     = 6
	phaseStale    = 7
	phaseUnrouted = 8
	phaseDone     = -1
)

// callback makes the callback that the load generator would send as number n. Of a thousand one is
// dead, ten are stale and five unrouted; the others are done.
func callback(plan *load.Plan, scope once.Scope, n int64) (row, error) {
	req, task, event := plan.Callback(n)
	r := row{phase: phaseDone, sweep: true, swept: true, completed: true,
		peer: "127.0.0.1:" + strconv.FormatInt(32768+n%16384, 10)}
	r.Kind, r.State, r.Source = queue.Callback, queue.Done, source
	switch at := n % 1000; {
	case at == 0:
		r.phase, r.State, r.sweep = phaseDead, queue.Dead, false
		r.DeadCause, r.Error = queue.CauseIllegal, "illegal in the state created"
	case at <= 10:
		r.phase, r.State = phaseStale, queue.Stale
	case at <= 15:
		r.phase, r.State, event = phaseUnrouted, queue.Unrouted, unknown
	}
	key, err := once.KeyOf(req, task, event)
	if err != nil {
		return r, err
	}
	if r.Identity, err = once.Identify(scope, key); err != nil {
		return r, err
	}
	r.Fingerprint = fingerprint(req, task, event)
	r.fp = r.Fingerprint[:]
	r.Event, r.Flow, r.Task, r.Key = event, flowName, task, key.Strings()
	r.first = event == plan.Events[0]
	r.OrderKey, r.Lane = flow.OrderKey(flowName, task), flow.Lane
	r.keyText = fmt.Sprintf(`[%q,%q,%q]`, req, task, event)
	return r, nil
}

// fingerprint digests a body of the load generator: its members, sorted.
func fingerprint(req, task, event string) once.Fingerprint {
	return once.NewFingerprint(once.FingerprintJSONV1, sha256.Sum256(fmt.Appendf(nil,
		`{"callbackMethod":%q,"reqCode":%q,"taskCode":%q}`, event, req, task)))
}

// effect makes the effect of a callback, waiting for its destination.
func effect(cause *row) row {
	id := once.DeriveIdentity(cause.Identity, effectName+"\x00", 0)
	r := row{phase: phaseReady}
	r.Identity, r.Kind, r.State = id, queue.Effect, queue.Pending
	r.Source, r.Event, r.Flow, r.Task = destination, effectName, flowName, cause.Task
	r.OrderKey, r.Lane, r.Cause = cause.OrderKey, lane, cause.ID()
	r.Meta = []byte("{}")
	r.Body = fmt.Appendf(nil, `{"id":%q,"state":"unloaded","task":%q}`, id.ID(), cause.Task)
	return r
}
