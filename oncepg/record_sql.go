package oncepg

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oncekit/once"
)

// recordStatements are the statements over one table. In each of them $1 is what is added to the
// database's time, in µs, and $2 the identity; "now" is read once, so that all of a statement is
// judged by one time. It may have waited for a rival since: then "now" is too early, which is to
// the safe side. No lease is judged to have ended that runs, and none ends before its owner counts
// on it, who counts from before the statement was sent.
type recordStatements struct {
	table                                     string
	claim, look, complete, lose, release      string
	renew, arrive, hold, free, answer, sweeps string
}

// recordParts are what the statements have in common.
var recordParts = strings.NewReplacer(
	"{now}", "clock AS (SELECT clock_timestamp() + "+
		"$1::text::bigint * interval '1 microsecond' AS now)",
	"{past}", "(r.state IN ('completed', 'released') AND r.expires_at <= "+
		"(SELECT now FROM clock))",
	// A 16th later than was asked for, so that not each repeat has to be written down.
	"{expiry}", "(r.retention + (r.retention + 15) / 16) * interval '1 microsecond'",
	"{columns}", "r.identity, r.fingerprint, r.state, r.hold::text, r.owner, r.fence::text, "+
		"r.attempt::text, r.takeover::text, r.retention::text, "+
		microsOf("r.claimed_at")+", "+microsOf("r.lease_end")+", "+microsOf("r.last_at")+", "+
		microsOf("r.finished_at")+", "+microsOf("r.expires_at")+", r.tombstone::text, "+
		"coalesce(octet_length(r.outcome), -1)::text, "+
		"array_to_json(r.scope)::text, r.key, r.request",
	// See "Replays and standbys" in docs/postgresql.md.
	"{barrier}", standbyBarrier,
	"{mine}", "r.identity = $2::bytea AND r.owner = $3::bytea AND r.fence = $4::text::bigint",
	"{ends}", "outcome = NULL, tombstone = false",
)

func microsOf(column string) string {
	return "(extract(epoch FROM " + column + ") * 1000000)::bigint::text"
}

// claimSQL takes a record if it may be taken, and answers with the grant, or else with the record
// as it was. Where there is nothing to be taken it writes nothing: it needs neither a lock nor a
// flush. It answers nothing where a rival came in between: the next try sees what that one wrote.
//
// $3 fingerprint, $4 owner, $5 lease, $6 retention, $7 hold, $8 scope, $9 key, $10 request.
const claimSQL = `
WITH {now}, old AS (
	SELECT r.*, {free} AS free FROM {table} r WHERE r.identity = $2::bytea
), taken AS (
	INSERT INTO {table} AS r (identity, fingerprint, state, hold, owner, fence, attempt, takeover,
		retention, claimed_at, lease_end, last_at, scope, key, request)
	SELECT $2::bytea, $3::bytea, 'in_flight', $7::text::boolean, $4::bytea,
		(extract(epoch FROM now) * 1000000)::bigint, 1, false, $6::text::bigint, now,
		now + $5::text::bigint * interval '1 microsecond', now, $8::text::text[], $9::text,
		$10::text
	FROM clock WHERE NOT EXISTS (SELECT FROM old WHERE NOT free)
	ON CONFLICT (identity) DO UPDATE SET fingerprint = EXCLUDED.fingerprint,
		state = EXCLUDED.state, hold = EXCLUDED.hold, owner = EXCLUDED.owner,
		fence = greatest(r.fence + 1, EXCLUDED.fence),
		attempt = CASE WHEN {past} THEN 1 ELSE r.attempt + 1 END,
		takeover = NOT {past} AND r.state <> 'released',
		retention = EXCLUDED.retention, claimed_at = EXCLUDED.claimed_at,
		lease_end = EXCLUDED.lease_end, last_at = EXCLUDED.last_at,
		finished_at = NULL, expires_at = NULL, {ends},
		scope = CASE WHEN {past} THEN EXCLUDED.scope ELSE r.scope END,
		key = CASE WHEN {past} THEN EXCLUDED.key ELSE r.key END,
		request = CASE WHEN {past} THEN EXCLUDED.request ELSE r.request END
	WHERE {free}
	RETURNING fence, attempt, takeover
)
SELECT fence::text, attempt::text, takeover::text, NULL::text, NULL::bytea, NULL::text,
	{nulls}
FROM taken
UNION ALL
SELECT NULL, NULL, NULL, {at},
	CASE WHEN r.fingerprint = $3::bytea THEN r.outcome END,
	CASE WHEN r.state = 'completed' AND r.fingerprint = $3::bytea OR r.owner = $4::bytea
		THEN {barrier} END,
	{columns}
FROM old r, clock WHERE NOT EXISTS (SELECT FROM taken)`

// freeSQL tells a record that a claim may take. Whatever can't be read may not.
const freeSQL = `({past} OR r.fingerprint = $3::bytea AND r.outcome IS NULL AND (
	r.state = 'released' OR NOT r.hold AND NOT $7::text::boolean AND (r.state = 'unknown' OR
		r.state = 'in_flight' AND r.lease_end <= (SELECT now FROM clock) AND
		r.owner <> $4::bytea)))`

// lookSQL reads a record: $3 asks for the data of its outcome, and $4 is the owner who wants to
// know.
const lookSQL = `
WITH {now}
SELECT {at}, CASE WHEN $3::text::boolean THEN r.outcome END,
	CASE WHEN r.owner = $4::bytea THEN {barrier} END, {columns}
FROM {table} r, clock WHERE r.identity = $2::bytea`

// endSQL changes a record of whoever owns it, if the change still can be made, and answers whether
// it was.
const endSQL = `
WITH {now}, done AS (
	UPDATE {table} r SET {set} FROM clock WHERE {mine} AND {when} RETURNING 1
) SELECT count(*)::text FROM done`

const (
	finishSet = "finished_at = now, expires_at = greatest(now, r.last_at) + {expiry}, "
	openState = "r.state IN ('in_flight', 'unknown')"
)

// recordSweepSQL removes up to $2 records that are past their retention. Those that somebody is
// about to take are left.
const recordSweepSQL = `
WITH {now}, old AS (
	SELECT r.identity FROM {table} r WHERE r.expires_at <= (SELECT now FROM clock)
	ORDER BY r.expires_at LIMIT $2::text::bigint FOR UPDATE SKIP LOCKED
), gone AS (
	DELETE FROM {table} r USING old WHERE r.identity = old.identity RETURNING 1
) SELECT count(*)::text FROM gone`

// recordColumns are how many columns stand for {columns}.
const recordColumns = 19

func newRecordStatements(schema string) recordStatements {
	table := quoteColumn(schema) + ".records"
	nulls := "NULL::bytea, NULL::bytea, NULL::text, NULL::text, NULL::bytea" +
		strings.Repeat(", NULL::text", recordColumns-5)
	fill := func(text string) string {
		text = strings.ReplaceAll(text, "{free}", freeSQL)
		text = strings.NewReplacer("{at}", microsOf("now"), "{nulls}", nulls).Replace(text)
		text = recordParts.Replace(text)
		return strings.ReplaceAll(text, "{table}", table) // last: it is the user's
	}
	change := func(set, when string) string {
		return fill(strings.NewReplacer("{set}", set, "{when}", when).Replace(endSQL))
	}
	seen := "r.state = $5::text AND r.lease_end = to_timestamp(0) + " +
		"$6::text::bigint * interval '1 microsecond'"
	decided := "owner = $7::bytea, fence = greatest(r.fence + 1, " +
		"(extract(epoch FROM now) * 1000000)::bigint), "
	const outcome = "state = 'completed', tombstone = $5::text::boolean, outcome = $6::bytea"
	return recordStatements{
		table: table,
		claim: fill(claimSQL), look: fill(lookSQL), sweeps: fill(recordSweepSQL),
		complete: change(finishSet+outcome, openState),
		lose:     change("finished_at = now, state = 'unknown'", "r.state = 'in_flight'"),
		release:  change(finishSet+"state = 'released', {ends}", openState),
		renew: change("lease_end = now + $5::text::bigint * interval '1 microsecond'",
			"r.state = 'in_flight'"),
		arrive: change("last_at = now, expires_at = now + {expiry}",
			"r.state = 'completed' AND r.last_at < now"),
		hold: change("hold = true", seen),
		free: change(decided+finishSet+"state = 'released', {ends}", seen),
		answer: change(decided+finishSet+
			"state = 'completed', tombstone = $8::text::boolean, outcome = $9::bytea", seen),
	}
}

// recordOffset is what tests add to the database's time, in µs.
type recordOffset struct{ us atomic.Int64 }

func (o *recordOffset) arg() string { return strconv.FormatInt(o.us.Load(), 10) }

// span is an argument: a span in µs.
func span(d time.Duration) string {
	return strconv.FormatInt(min(d, maxSpan).Microseconds(), 10)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func (r *Records) claimArgs(c *once.Claim) []any {
	note := c.Note.Cut()
	return []any{
		r.offset.arg(), c.Identity[:], c.Fingerprint[:], c.Owner[:], span(c.Lease),
		span(c.Retention), strconv.FormatBool(c.OnUnknown == once.Hold), scopeText(note.Scope),
		recordText(note.Key), recordText(note.Request),
	}
}

func (r *Records) grantArgs(g once.Grant) []any {
	return []any{r.offset.arg(), g.Identity[:], g.Owner[:], number(g.Fence)}
}

// completeQuery ends an attempt with an outcome.
func (r *Records) completeQuery(g once.Grant, o once.Outcome) query {
	if o.Kind == once.Unknown {
		return query{r.sql.lose, r.grantArgs(g)}
	}
	return query{r.sql.complete, append(r.grantArgs(g),
		strconv.FormatBool(o.Kind == once.Tombstone), notNull(o.Data))}
}

// notNull is data that is there, also where it is empty.
func notNull(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}
