package oncepg

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/turn"
	"github.com/oncekit/once/queue"
)

// receiveSQL stores arrivals whose identity is new, and counts them. Numbers are given in the order
// of the arrivals; rows are stored in that of their identities, so that no two windows wait for
// each other.
const receiveSQL = `WITH a AS MATERIALIZED (
	SELECT *, 2 * nextval('@queue_numbers') AS seq,
		coalesce($22::timestamptz, date_trunc('milliseconds', clock_timestamp())) AS now
	FROM unnest($1::bytea[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[],
		$7::bigint[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[],
		$14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::bytea[],
		$20::bytea[], $21::bytea[])
		AS u (identity, phase, lane, order_key, retention_ms, keep_body_ms, expires_ms, source,
		event, flow, task, key, key_marks, resource, cause, peer, trace_parent, trace_state,
		fingerprint, meta, body)
), stored AS (
	INSERT INTO @queue_content (seq, kind, identity, retention_ms, keep_body_ms, received_at,
		expires_at, source, event, key, key_marks, resource, cause, peer, trace_parent,
		trace_state, made_by, fingerprint, meta, body)
	SELECT seq, 1, identity, retention_ms, keep_body_ms, now,
		CASE WHEN expires_ms > 0 THEN now + expires_ms * interval '1 millisecond' END,
		source, event, key::text[], key_marks::bigint[], resource, cause, peer, trace_parent,
		trace_state, $23::bytea, fingerprint, meta, body
	FROM a ORDER BY identity
	ON CONFLICT (identity, kind) DO NOTHING
	RETURNING seq, identity
), begun AS (
	INSERT INTO @queue_work (seq, phase, lane, order_key, flow, task, sweep_at)
	SELECT seq, phase, lane, order_key, flow, task,
		CASE WHEN phase = 'unrouted' THEN now + keep_body_ms * interval '1 millisecond' END
	FROM a JOIN stored USING (seq)
), counted AS (
	INSERT INTO @counters AS c (what, source, state, slot, n)
	SELECT 'callback', source, CASE phase WHEN 'ready' THEN 'pending' ELSE phase END, $24::text,
		count(*) FROM a JOIN stored USING (seq) GROUP BY source, phase ORDER BY source, phase
	ON CONFLICT (what, source, state, slot) DO UPDATE SET n = c.n + excluded.n
)
SELECT identity, seq FROM stored`

// receiveArgs are the arguments of receiveSQL.
func (s *Store) receiveArgs(list []*queue.Arrival, slot string, token []byte) []any {
	n := len(list)
	var numbers [3][]int64
	var binaries [4][][]byte
	var texts [12][]string
	var arrays [2][]pgtype.Text
	grow(n, numbers[:])
	grow(n, binaries[:])
	grow(n, texts[:])
	grow(n, arrays[:])
	for i, a := range list {
		r := turn.NewRow(a, 0)
		numbers[0][i], numbers[1][i] = r.RetentionMS, r.KeepBodyMS
		if a.Expires > 0 {
			numbers[2][i] = turn.Millis(a.Expires)
		}
		binaries[0][i], binaries[1][i] = r.Identity[:], fingerprintOut(r.Fingerprint)
		binaries[2][i], binaries[3][i] = r.Meta, r.Body
		for j, text := range [...]string{string(r.Phase), r.Lane, r.OrderKey, r.Source, r.Event,
			r.Flow, r.Task, r.Resource, r.Cause, r.Peer, r.TraceParent, r.TraceState} {
			texts[j][i] = recordText(text)
		}
		arrays[0][i], arrays[1][i] = textsOut(r.Key), marksOut(r.Key)
	}
	return []any{binaries[0], texts[0], texts[1], texts[2], numbers[0], numbers[1], numbers[2],
		texts[3], texts[4], texts[5], texts[6], arrays[0], arrays[1], texts[7], texts[8], texts[9],
		texts[10], texts[11], binaries[1], binaries[2], binaries[3], s.nowOut(), token, slot}
}

func grow[T any](n int, lists [][]T) {
	for i := range lists {
		lists[i] = make([]T, n)
	}
}

// nowOut is the time of a test's clock; NULL: the database's.
func (s *Store) nowOut() pgtype.Timestamptz {
	if s.cfg.Now == nil {
		return pgtype.Timestamptz{}
	}
	return stampOut(turn.StampOf(s.cfg.Now()))
}

// storeFirsts stores what is new of calls of one arrival each, all in one round trip, and returns
// the calls whose identity was there.
func (s *Store) storeFirsts(ctx context.Context, slot string, token []byte, calls []*intake) (
	rest []*intake, err error,
) {
	if len(calls) == 0 {
		return nil, nil
	}
	list := make([]*queue.Arrival, len(calls))
	for i, in := range calls {
		list[i] = &in.list[0]
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	tx := &storeTx{s: s, ctx: ctx, conn: conn}
	defer tx.end()
	var stored map[once.Identity]int64
	err = sure(ctx, conn.Conn(), func() (err error) {
		stored, err = s.storeNew(ctx, conn, slot, token, list, true)
		return err
	})
	if err == nil {
		err = s.fail(pointCommitted)
	}
	if err != nil {
		return nil, err
	}
	rang := map[string]bool{}
	for _, in := range calls {
		a := &in.list[0]
		seq, ok := stored[a.Identity]
		if !ok {
			rest = append(rest, in)
			continue
		}
		rang[a.Lane] = true
		in.answer([]queue.Receipt{{Outcome: queue.Accepted, Seq: seq, State: a.State}}, nil)
	}
	s.ringLanes(rang)
	return rest, nil
}

func (s *Store) ringLanes(lanes map[string]bool) {
	for lane := range lanes {
		s.bells.ring(lane)
	}
}

// storeNew stores what is new of arrivals and returns their numbers. whole is a transaction of its
// own; else it only begins one.
func (s *Store) storeNew(ctx context.Context, in sender, slot string, token []byte,
	list []*queue.Arrival, whole bool) (map[once.Identity]int64, error) {
	if s.killed.Load() {
		return nil, errStoreKilled
	}
	stored := make(map[once.Identity]int64, len(list))
	var batch pgx.Batch
	batch.Queue(beginSQL)
	s.queueSettings(&batch, s.sql.begins)
	receive := batch.Queue(s.sql.receive, s.receiveArgs(list, slot, token)...)
	receive.Query(func(rows pgx.Rows) error {
		var id []byte
		var seq int64
		_, err := pgx.ForEachRow(rows, []any{&id, &seq}, func() error {
			stored[once.Identity(id)] = seq
			return nil
		})
		return err
	})
	if whole {
		batch.Queue("COMMIT")
	}
	return stored, in.SendBatch(ctx, &batch).Close()
}

func (s *Store) queueSettings(batch *pgx.Batch, sql string) {
	batch.Queue(sql, strconv.FormatInt(s.cfg.Frozen.Milliseconds(), 10))
}

// repeated is what is known of a row that an arrival repeats.
type repeated struct {
	seq, arrivals, newest int64
	phase                 turn.Phase
	lastAt, now           turn.Stamp
	fingerprint, madeBy   []byte
	counted               int64 // arrivals that are added to it
}

const repeatedSQL = `SELECT identity, seq, phase, coalesce(newest, 0), fingerprint, made_by,
	duplicates + conflicts, coalesce(last_at, received_at), coalesce($2::timestamptz,
	date_trunc('milliseconds', clock_timestamp()))
	FROM @queue_rows WHERE identity = ANY($1::bytea[]) AND kind = 1 ORDER BY seq FOR UPDATE`

// addRepeatsSQL counts duplicates. A row that this very call stored is written too: whoever is told
// of it then has a commit behind that.
const addRepeatsSQL = `UPDATE @queue_work r SET duplicates = r.duplicates + a.n,
	last_at = CASE WHEN a.n > 0 THEN greatest(r.last_at, a.at) ELSE r.last_at END
	FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[]) AS a (seq, n, at)
	WHERE r.seq = a.seq`

// keepRepeatsSQL keeps arrivals, and of very many the first and the last ones.
const keepRepeatsSQL = `WITH kept AS (
	INSERT INTO @queue_arrivals (seq, n, at, outcome, peer, fingerprint)
	SELECT seq, n, at, 'duplicate', peer, fingerprint FROM unnest($1::bigint[], $2::bigint[],
		$3::timestamptz[], $4::text[], $5::bytea[]) AS a (seq, n, at, peer, fingerprint)
)
DELETE FROM @queue_arrivals o USING unnest($1::bigint[], $2::bigint[]) AS a (seq, n)
WHERE o.seq = a.seq AND o.n = a.n - $6::bigint AND o.n > $6::bigint AND o.outcome = 'duplicate'`

// countRepeats answers calls whose identity is there, as far as they are plain duplicates, and
// returns the others. The rows are read in a statement of their own, after those that were in the
// way have ended, and are locked until they are counted.
func (s *Store) countRepeats(ctx context.Context, token []byte, calls []*intake) (
	later []*intake, err error,
) {
	if len(calls) == 0 {
		return nil, nil
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	tx := &storeTx{s: s, ctx: ctx, conn: conn}
	defer tx.end()
	known, err := s.readRepeated(ctx, tx, calls)
	if err != nil {
		return nil, err
	}
	var kept repeats
	var answers []func()
	for _, in := range calls {
		r := known[in.list[0].Identity]
		own := in.first && r != nil && bytes.Equal(r.madeBy, token)
		receipt, ok := r.judge(&in.list[0], own, &kept)
		if !ok {
			later = append(later, in)
			continue
		}
		answers = append(answers, func() { in.answer([]queue.Receipt{receipt}, nil) })
	}
	if len(answers) == 0 {
		return later, nil
	}
	for _, r := range known {
		kept.rows = append(kept.rows, r)
	}
	var batch pgx.Batch
	kept.queue(s.sql, &batch)
	batch.Queue("COMMIT")
	err = sure(ctx, tx.conn.Conn(), func() error { return tx.conn.SendBatch(ctx, &batch).Close() })
	if err != nil {
		return nil, err
	}
	if err := s.fail(pointCommitted); err != nil {
		return nil, err
	}
	for _, answer := range answers {
		answer()
	}
	return later, nil
}

func (s *Store) readRepeated(ctx context.Context, tx *storeTx, calls []*intake) (
	map[once.Identity]*repeated, error,
) {
	ids := make([][]byte, len(calls))
	for i, in := range calls {
		ids[i] = in.list[0].Identity[:]
	}
	known := make(map[once.Identity]*repeated, len(calls))
	var batch pgx.Batch
	batch.Queue(beginSQL)
	s.queueSettings(&batch, s.sql.lookups)
	batch.Queue(s.sql.repeated, ids, s.nowOut()).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			r := &repeated{}
			var id []byte
			err := rows.Scan(&id, &r.seq, (*string)(&r.phase), &r.newest, &r.fingerprint, &r.madeBy,
				&r.arrivals, into(&r.lastAt), into(&r.now))
			if err != nil {
				return err
			}
			known[once.Identity(id)] = r
		}
		return rows.Err()
	})
	return known, tx.conn.SendBatch(ctx, &batch).Close()
}

// judge tells what an arrival is, if it is a plain duplicate or, which own tells, the very one that
// was stored by a try whose answer was lost.
func (r *repeated) judge(a *queue.Arrival, own bool, kept *repeats) (queue.Receipt, bool) {
	if r == nil { // it was swept in between
		return queue.Receipt{}, false
	}
	if own {
		return queue.Receipt{Outcome: queue.Accepted, Seq: r.seq, State: a.State}, true
	}
	anew := a.NewAfter > 0 && r.now-r.lastAt > turn.Stamp(turn.Millis(a.NewAfter))
	if r.phase == turn.Dead || r.newest != 0 || anew ||
		!bytes.Equal(r.fingerprint, fingerprintOut(a.Fingerprint)) {
		return queue.Receipt{}, false
	}
	r.counted++
	r.arrivals++
	r.lastAt = r.now
	kept.add(r, a)
	return queue.Receipt{Outcome: queue.Duplicate, Seq: r.seq,
		State: r.phase.State(queue.Callback)}, true
}

// repeats are arrivals to be kept.
type repeats struct {
	rows         []*repeated
	seq, n       []int64
	at           []pgtype.Timestamptz
	peer         []string
	fingerprints [][]byte
}

func (k *repeats) add(r *repeated, a *queue.Arrival) {
	k.seq, k.n = append(k.seq, r.seq), append(k.n, r.arrivals)
	k.at, k.peer = append(k.at, stampOut(r.now)), append(k.peer, recordText(a.Peer))
	k.fingerprints = append(k.fingerprints, fingerprintOut(a.Fingerprint))
}

func (k *repeats) queue(s *storeSQL, batch *pgx.Batch) {
	slices.SortFunc(k.rows, func(a, b *repeated) int { return cmp.Compare(a.seq, b.seq) })
	var seq, n []int64
	var at []pgtype.Timestamptz
	for _, r := range k.rows {
		seq, n, at = append(seq, r.seq), append(n, r.counted), append(at, stampOut(r.now))
	}
	batch.Queue(s.addRepeats, seq, n, at)
	if len(k.seq) > 0 {
		batch.Queue(s.keepRepeats, k.seq, k.n, k.at, k.peer, k.fingerprints, turn.KeptArrivals)
	}
}

// appendMany stores a call of several arrivals if all of them are new, and reports whether it has
// answered the call.
func (s *Store) appendMany(ctx context.Context, slot string, in *intake) bool {
	list := make([]*queue.Arrival, len(in.list))
	for i := range in.list {
		list[i] = &in.list[i]
	}
	token := []byte(rand.Text())
	var stored map[once.Identity]int64
	err := s.tries(ctx, func(again bool) (err error) {
		stored, err = s.storeAll(ctx, slot, token, list, again)
		return err
	})
	if err != nil && troubleOf(err) != noTrouble {
		in.answer(nil, turn.AsUnavailable(turn.Fault(err)))
		return true
	}
	if err != nil || len(stored) < len(list) {
		return false
	}
	receipts := make([]queue.Receipt, len(list))
	rang := map[string]bool{}
	for i, a := range list {
		rang[a.Lane] = true
		receipts[i] = queue.Receipt{Outcome: queue.Accepted, Seq: stored[a.Identity],
			State: a.State}
	}
	in.answer(receipts, nil)
	s.ringLanes(rang)
	return true
}

// storeAll stores all of the arrivals or none: then it returns fewer of them. again tells that a
// try before may have stored them.
func (s *Store) storeAll(ctx context.Context, slot string, token []byte, list []*queue.Arrival,
	again bool) (map[once.Identity]int64, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	tx := &storeTx{s: s, ctx: ctx, conn: conn}
	defer tx.end()
	stored, err := s.storeNew(ctx, conn, slot, token, list, false)
	if err != nil {
		return nil, err
	}
	if len(stored) < len(list) {
		if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil || !again {
			return nil, err
		}
		err := sure(ctx, conn.Conn(), func() (err error) {
			stored, err = s.ownRows(ctx, conn, token, list)
			return err
		})
		return stored, err
	}
	err = sure(ctx, conn.Conn(), func() error { return tx.simple("COMMIT") })
	if err != nil {
		return nil, err
	}
	if err := s.fail(pointCommitted); err != nil {
		return nil, err
	}
	return stored, nil
}

// ownRows returns the numbers of rows that this call has stored, with a write behind them.
func (s *Store) ownRows(ctx context.Context, in sender, token []byte, list []*queue.Arrival) (
	map[once.Identity]int64, error,
) {
	ids := make([][]byte, len(list))
	for i, a := range list {
		ids[i] = a.Identity[:]
	}
	rows, err := in.Query(ctx, s.sql.ownRows, ids, token)
	if err != nil {
		return nil, err
	}
	stored := make(map[once.Identity]int64, len(list))
	var id []byte
	var seq int64
	_, err = pgx.ForEachRow(rows, []any{&id, &seq}, func() error {
		stored[once.Identity(id)] = seq
		return nil
	})
	return stored, err
}
