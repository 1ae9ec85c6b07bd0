package oncepg

import (
	"regexp"
	"strings"

	"github.com/oncekit/once/internal/turn"
)

// beginSQL begins a transaction whose statements see what was committed before each of them,
// whatever the database's default is.
const beginSQL = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

// storeSQL are the statements of a store, with the names of its schema.
type storeSQL struct {
	schema string // quoted, with its dot

	receive, repeated, addRepeats, keepRepeats, ownRows   string
	begins, lookups                                       string
	turn, highest, setTurn, setNode, askNode              string
	rows, lines, arrivals, tasks, resources, history      string
	insertRows, changeHot, changeRow, moveRow, setPayload string
	deleteRows, putArrival, deleteArrivals                string
	putTasks, deleteTasks                                 string
	putHistory, deleteHistory, putResources               string
	putAudit, putRejected, deleteRejected, addCounter     string
}

// rowColumns are those of a row as they are scanned; see scanRow.
const rowColumns = `r.seq, r.identity, r.fingerprint, r.phase, r.lane, r.order_key, r.in_line,
	r.blocks, r.limit_passed, r.frees, r.acted, r.attempt, r.lost, r.revision, r.fence,
	r.duplicates, r.conflicts, coalesce(r.newest, 0), r.retention_ms, r.keep_body_ms,
	r.received_at, r.last_at, r.next_at, r.wait_until, r.started_at, r.finished_at, r.expires_at,
	r.sweep_at, r.lease_until, coalesce(r.node, ''), r.source, r.event, r.flow, r.task, r.key,
	r.resource, r.cause, r.peer, r.trace_parent, r.trace_state, r.error, r.dead_cause, r.waits,
	r.attempts, r.accepted`

// taskColumns are those of a task as they are scanned.
const taskColumns = `t.n, t.flow, t.task, t.state, t.version, t.gone, t.final, t.retention_ms,
	t.created_at, t.since_at, t.updated_at, t.overdue_at, t.sweep_at`

const arrivalColumns = `a.seq, a.n, a.at, a.outcome, a.peer, a.accepted, a.fingerprint, a.meta,
	a.body`

const resourceColumns = `r.kind, r.name, r.fence, r.flow, r.task, r.freeing, r.since_at, r.version`

// settingsSQL lets a transaction end that its process does not go on with ($1, milliseconds), and
// its commit be durable even where the default is that it need not. Every statement has an index: a
// plan that was made while a table was small, and is kept, must not read all of it when that is
// large.
const settingsSQL = `SELECT set_config('idle_in_transaction_session_timeout', $1::text, true),
	set_config('synchronous_commit', CASE current_setting('synchronous_commit')
		WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true),
	set_config('statement_timeout', '0', true), set_config('enable_seqscan', 'off', true),
	set_config('jit', 'off', true)`

// beginsSQL is a setting for transactions that give numbers to arrivals: they get one of their own
// first, so that whoever sees a number knows of the transaction.
const beginsSQL = `, pg_current_xact_id()::text`

// snapshotSQL tells which transactions have ended, and which have begun.
const snapshotSQL = `SELECT pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint
	FROM pg_current_snapshot() s`

// lookupsSQL are settings for the same reason, where rows are read: the two parts of each are put
// together one by one, by this process alone. The index is the same whatever the arguments are: to
// plan a statement with them each time costs more than the statement.
const lookupsSQL = `, set_config('enable_hashjoin', 'off', true),
	set_config('enable_mergejoin', 'off', true),
	set_config('plan_cache_mode', 'force_generic_plan', true),
	set_config('max_parallel_workers_per_gather', '0', true)`

func newStoreSQL(schema string) *storeSQL {
	s := &storeSQL{schema: quoteColumn(schema) + "."}
	at := s.at
	s.begins, s.lookups = settingsSQL+beginsSQL, settingsSQL+lookupsSQL
	s.receive, s.repeated = at(receiveSQL), at(repeatedSQL)
	s.addRepeats, s.keepRepeats = at(addRepeatsSQL), at(keepRepeatsSQL)
	s.ownRows = at(`UPDATE @queue_content SET made_by = made_by WHERE identity = ANY($1::bytea[])
		AND kind = 1 AND made_by = $2 RETURNING identity, seq`)
	s.turn = at(`SELECT n, state FROM @queue_turn FOR UPDATE`)
	s.highest = at(`SELECT last_value, clock_timestamp() FROM @queue_numbers`)
	s.setTurn = at(`UPDATE @queue_turn SET n = n + 1, state = $1::text::json`)
	s.setNode = at(`INSERT INTO @queue_nodes AS o (node, n, started_at, seen_at)
		VALUES ($1, $2, $3, $3) ON CONFLICT (node) DO UPDATE SET n = excluded.n,
		seen_at = greatest(o.seen_at, excluded.seen_at)`)
	s.askNode = at(`UPDATE @queue_nodes SET seen_at = seen_at WHERE node = $1 RETURNING n`)

	s.rows = at(`SELECT ` + rowColumns + `, r.meta, r.body FROM @queue_rows r WHERE `)
	s.lines = at(`SELECT k.key, coalesce(l.holder, 0), coalesce(l.head, 0)
		FROM unnest($2::text[]) AS k (key), LATERAL (
			SELECT min(seq) FILTER (WHERE phase = 'working') AS holder,
				min(seq) FILTER (WHERE in_line) AS head FROM @queue_work
			WHERE lane = $1 AND left(order_key, 200) = left(k.key, 200) AND order_key = k.key
				AND (in_line OR phase = 'working')) l
		WHERE l.holder IS NOT NULL OR l.head IS NOT NULL`)
	s.arrivals = at(`SELECT ` + arrivalColumns + ` FROM @queue_arrivals a WHERE `)
	s.tasks = at(`SELECT ` + taskColumns + `, t.fields, t.taken FROM @tasks t WHERE `)
	s.resources = at(`SELECT ` + resourceColumns + ` FROM @resources r WHERE `)
	s.history = at(`SELECT n, version FROM @task_history WHERE n = $1 LIMIT $2`)

	s.insertRows = at(insertRowsSQL)
	s.changeHot = at(changeHotSQL)
	s.changeRow = at(changeRowSQL)
	s.moveRow = at(`UPDATE @queue_content SET source = $2, event = $3 WHERE seq = $1`)
	s.setPayload = at(`UPDATE @queue_content SET fingerprint = $2, trace_parent = $3,
		trace_state = $4, meta = $5, body = $6 WHERE seq = $1`)
	s.deleteRows = at(`WITH gone AS (DELETE FROM @queue_work WHERE seq = ANY($1::bigint[]))
		DELETE FROM @queue_content WHERE seq = ANY($1::bigint[])`)
	s.putArrival = at(`INSERT INTO @queue_arrivals AS a (seq, n, at, outcome, peer, accepted,
		fingerprint, meta, body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (seq, n) DO UPDATE SET accepted = $6, meta = $8, body = $9`)
	s.deleteArrivals = at(`DELETE FROM @queue_arrivals a
		USING unnest($1::bigint[], $2::bigint[]) AS g (seq, n) WHERE a.seq = g.seq AND a.n = g.n`)
	s.putTasks = at(putTasksSQL)
	s.deleteTasks = at(`DELETE FROM @tasks WHERE n = ANY($1::bigint[])`)
	s.putHistory = at(`INSERT INTO @task_history (n, version, at, event, state_before, state_after,
		note, actor, reason, callback) SELECT * FROM unnest($1::bigint[], $2::bigint[],
		$3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
		$10::text[])`)
	s.deleteHistory = at(`DELETE FROM @task_history h
		USING unnest($1::bigint[], $2::bigint[]) AS g (n, version)
		WHERE h.n = g.n AND h.version = g.version`)
	s.putResources = at(`INSERT INTO @resources AS r (kind, name, fence, flow, task, freeing,
		since_at, version) SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[],
		$5::text[], $6::integer[], $7::timestamptz[], $8::bigint[])
		ON CONFLICT (kind, name) DO UPDATE SET fence = excluded.fence, flow = excluded.flow,
		task = excluded.task, freeing = excluded.freeing, since_at = excluded.since_at,
		version = excluded.version`)
	s.putAudit = at(`INSERT INTO @audit (n, target, at, action, actor, reason)
		VALUES ($1, $2, $3, $4, $5, $6)`)
	s.putRejected = at(`INSERT INTO @rejected (id, source, ring, at, outcome, reason, peer, size,
		meta, body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`)
	s.deleteRejected = at(`DELETE FROM @rejected WHERE id = ANY($1::bigint[])`)
	s.addCounter = at(`INSERT INTO @counters AS c (what, source, state, slot, n)
		SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[])
		ON CONFLICT (what, source, state, slot) DO UPDATE SET n = c.n + excluded.n`)
	return s
}

// atName is a name with an @ before it, which the operator @> is not.
var atName = regexp.MustCompile(`@[a-z]+`)

// at writes a statement with the names of the schema: an @ before a name stands for it.
func (s *storeSQL) at(text string) string {
	return atName.ReplaceAllStringFunc(text, func(name string) string {
		return s.schema + name[1:]
	})
}

// insertRowsSQL stores rows that nobody has tried.
const insertRowsSQL = `WITH a AS (
	SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::text[], $4::text[], $5::text[],
		$6::boolean[], $7::integer[], $8::bigint[], $9::bigint[], $10::timestamptz[],
		$11::timestamptz[], $12::timestamptz[], $13::text[], $14::text[], $15::text[], $16::text[],
		$17::text[], $18::text[], $19::text[], $20::text[], $21::text[], $22::text[], $23::text[],
		$24::bytea[], $25::bytea[], $26::bytea[])
		AS u (seq, identity, phase, lane, order_key, frees, revision, retention_ms, keep_body_ms,
		received_at, expires_at, sweep_at, source, event, flow, task, key, key_marks, resource,
		cause, peer, trace_parent, trace_state, fingerprint, meta, body)
), begun AS (
	INSERT INTO @queue_work (seq, phase, lane, order_key, flow, task, sweep_at)
	SELECT seq, phase, lane, order_key, flow, task, sweep_at FROM a
)
INSERT INTO @queue_content (seq, kind, identity, frees, revision, retention_ms, keep_body_ms,
	received_at, expires_at, source, event, key, key_marks, resource, cause, peer, trace_parent,
	trace_state, fingerprint, meta, body)
SELECT seq, 1 + (seq & 1), identity, frees, revision, retention_ms, keep_body_ms, received_at,
	expires_at, source, event, key::text[], key_marks::bigint[], resource, cause, peer,
	trace_parent, trace_state, fingerprint, meta, body
FROM a`

// changeHotSQL is what the most usual changes of rows write: a lease, and the end of a try.
const changeHotSQL = `UPDATE @queue_work r SET phase = a.phase, in_line = a.in_line,
	attempt = a.attempt, lost = a.lost, fence = a.fence, next_at = a.next_at,
	started_at = a.started_at, finished_at = a.finished_at, sweep_at = a.sweep_at,
	lease_until = a.lease_until, node = a.node, error = a.error
FROM unnest($1::bigint[], $2::text[], $3::boolean[], $4::integer[], $5::integer[], $6::bigint[],
	$7::timestamptz[], $8::timestamptz[], $9::timestamptz[], $10::timestamptz[],
	$11::timestamptz[], $12::text[], $13::text[])
	AS a (seq, phase, in_line, attempt, lost, fence, next_at, started_at, finished_at, sweep_at,
	lease_until, node, error)
WHERE r.seq = a.seq`

// changeRowSQL writes everything of a row that changes but its payload and what [storeSQL.moveRow]
// writes. Arrivals are counted by what they add: others may be counted meanwhile.
const changeRowSQL = `UPDATE @queue_work SET phase = $2, in_line = $3, attempt = $4, lost = $5,
	fence = $6, next_at = $7, started_at = $8, finished_at = $9, sweep_at = $10, lease_until = $11,
	node = $12, error = $13, lane = $14, order_key = $15, flow = $16, task = $17, blocks = $18,
	limit_passed = $19, acted = $20, duplicates = duplicates + $21, conflicts = conflicts + $22,
	newest = $23, last_at = greatest(last_at, $24), wait_until = $25, dead_cause = $26,
	waits = $27::text::text[], attempts = $28::text::json, accepted = $29::text::json,
	wait_marks = $30::text::bigint[]
WHERE seq = $1`

// putTasksSQL makes tasks, and makes them as they are to be.
const putTasksSQL = `INSERT INTO @tasks (flow, task, n, state, version, gone, final, retention_ms,
	created_at, since_at, updated_at, overdue_at, sweep_at, fields, taken)
SELECT flow, task, n, state, version, gone, final, retention_ms, created_at, since_at, updated_at,
	overdue_at, sweep_at, fields::json, taken::json
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::boolean[],
	$7::boolean[], $8::bigint[], $9::timestamptz[], $10::timestamptz[], $11::timestamptz[],
	$12::timestamptz[], $13::timestamptz[], $14::text[], $15::text[])
	AS a (flow, task, n, state, version, gone, final, retention_ms, created_at, since_at,
	updated_at, overdue_at, sweep_at, fields, taken)
ON CONFLICT (flow, task) DO UPDATE SET state = excluded.state, version = excluded.version,
	gone = excluded.gone, final = excluded.final, retention_ms = excluded.retention_ms,
	since_at = excluded.since_at, updated_at = excluded.updated_at,
	overdue_at = excluded.overdue_at, sweep_at = excluded.sweep_at, fields = excluded.fields,
	taken = excluded.taken`

// phaseLiterals are written into statements as they are, so that the indexes of a few phases are
// found.
func phaseLiterals(phases []turn.Phase) string {
	list := make([]string, len(phases))
	for i, p := range phases {
		list[i] = "'" + string(p) + "'"
	}
	return strings.Join(list, ", ")
}
