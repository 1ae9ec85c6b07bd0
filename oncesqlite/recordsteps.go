package oncesqlite

import (
	"errors"
	"math"

	"github.com/oncekit/once"
)

// The steps of a record in the writer's transaction. Each writes with one statement, so that it
// needs no savepoint; what it answers is no error of the transaction.

const (
	insertRecord = `INSERT INTO records (identity, fingerprint, state, on_unknown, owner, fence,
	attempt, retention, claimed_at, lease_end, last_at, note)
	VALUES (?, ?, 1, ?, ?, ?, 1, ?, ?, ?, ?, ?)`

	// takeRecord gives a record to another owner. Of an expired one nothing stays but its fence; it
	// comes to stand where a new one would.
	takeRecord = `UPDATE records SET seq = ?, fingerprint = ?, state = 1, on_unknown = ?, owner = ?,
	fence = ?, attempt = ?, takeover = ?, retention = ?, claimed_at = ?, lease_end = ?,
	finished_at = 0, last_at = ?, expires_at = NULL, note = ?, kind = 0, sum = 0, outcome = NULL
	WHERE seq = ?`

	finishRecord = `UPDATE records SET state = ?, kind = ?, sum = ?, outcome = ?, finished_at = ?,
	expires_at = ?, fence = ? WHERE seq = ?`
)

// Lengths of data up to which it is read with a record.
const (
	noData    = -1
	wholeData = math.MaxInt32
)

// recordByPlace finds the record of an identity ?2 by its first bytes ?3; see records.sql.
const recordByPlace = "SELECT " + recordColumns +
	" FROM records WHERE substr(identity, 1, 8) = ?3 AND identity = ?2"

// recordBy returns the record of an identity; nil: there is none.
func recordBy(c *conn, id once.Identity, maxData int64) (row *record, err error) {
	s, err := c.prepare(recordByPlace)
	if err != nil {
		return nil, err
	}
	s.bindInt(1, maxData)
	s.bindBlob(2, id[:])
	s.bindBlob(3, id[:8])
	if s.step() {
		row, err = scanRecord(s)
	}
	if e := s.reset(); e != nil {
		return nil, e
	}
	return row, err
}

// claimAnswer is the answer to a claim.
type claimAnswer struct {
	grant once.Grant
	err   error
	// long is true for a replay whose data has to be read elsewhere; the grant has the fence.
	long bool
}

// claimRecord takes an identity, or says why it can't be taken.
func (t *txn) claimRecord(c *once.Claim, note string) (claimAnswer, error) {
	row, err := recordBy(t.c, c.Identity, maxCached)
	switch {
	case errors.Is(err, once.ErrCorrupt):
		return claimAnswer{err: err}, nil
	case err != nil:
		return claimAnswer{}, err
	case row == nil:
		return t.insertRecord(c, note)
	case row.expired(t.now):
		return t.takeRecord(row, c, note)
	case row.fingerprint != c.Fingerprint:
		return claimAnswer{err: once.ErrMismatch}, nil
	}
	return t.claimKnown(row, c, note)
}

// insertRecord makes the record of an identity that has none. Nobody else writes: it was looked for
// in this transaction.
func (t *txn) insertRecord(c *once.Claim, note string) (claimAnswer, error) {
	s, err := t.c.prepare(insertRecord)
	if err != nil {
		return claimAnswer{}, err
	}
	g := once.Grant{Identity: c.Identity, Owner: c.Owner, Attempt: 1,
		Fence: max(t.s.records.forgotten+1, t.now)}
	s.bindBlob(1, c.Identity[:])
	s.bindBlob(2, c.Fingerprint[:])
	s.bindInt(3, int64(c.OnUnknown))
	s.bindBlob(4, c.Owner[:])
	s.bindInt(5, g.Fence)
	s.bindInt(6, c.Retention.Microseconds())
	s.bindInt(7, t.now)
	s.bindInt(8, t.lap+c.Lease.Microseconds())
	s.bindInt(9, t.now)
	s.bindOpt(10, note)
	if err := s.run(); err != nil {
		return claimAnswer{}, err
	}
	t.countRecord(recInFlight, 1)
	return claimAnswer{grant: g}, nil
}

// claimKnown decides on a record with the same content.
func (t *txn) claimKnown(row *record, c *once.Claim, note string) (claimAnswer, error) {
	if row.lapsed() && row.Owner == c.Owner {
		return claimAnswer{grant: row.Grant}, nil // its answer was lost
	}
	switch state := row.stateAt(t.lap); {
	case state == recCompleted:
		return t.replayRecord(row)
	case state == recInFlight:
		return claimAnswer{err: &once.InFlightError{
			Rest: micro(row.leaseEnd - t.lap), Age: micro(t.now - row.claimed),
		}}, nil
	case state == recReleased:
		return t.takeRecord(row, c, note)
	case state == recLost && c.OnUnknown == once.Retry:
		return t.takeRecord(row, c, note)
	}
	since := timeOf(row.finished)
	if row.lapsed() {
		since = t.shown(row.leaseEnd)
	}
	held := claimAnswer{err: &once.UnknownError{Since: since}}
	if row.state == recHeld {
		return held, nil
	}
	t.countRecord(row.state, -1)
	t.countRecord(recHeld, 1)
	return held, t.c.exec("UPDATE records SET state = 5, on_unknown = 1 WHERE seq = ?", row.seq)
}

// replayRecord answers from a completed record, and writes that it was asked for if the last time
// that is written is long ago.
func (t *txn) replayRecord(row *record) (claimAnswer, error) {
	if t.now >= row.touchAt() {
		row.last, row.expires = t.now, expiryOf(t.now, row.retention)
		err := t.c.exec("UPDATE records SET last_at = ?, expires_at = ? WHERE seq = ?", row.last,
			row.expires, row.seq)
		if err != nil {
			return claimAnswer{}, err
		}
	}
	if row.size > int64(len(row.data)) {
		return claimAnswer{long: true, grant: row.Grant}, nil
	}
	o := &outcome{fingerprint: row.fingerprint, finished: row.finished, touch: row.touchAt(),
		outcome: once.Outcome{Kind: row.kind, Data: row.data}}
	t.rememberOutcome(row.Identity, o)
	return claimAnswer{err: o.replay()}, nil
}

// takeRecord makes the claimant the owner of a record that nobody has.
func (t *txn) takeRecord(row *record, c *once.Claim, note string) (claimAnswer, error) {
	seq, was := row.seq, row.state
	g := once.Grant{Identity: c.Identity, Owner: c.Owner, Fence: max(row.Fence+1, t.now),
		Attempt: row.Attempt + 1, Takeover: was != recReleased}
	if row.expired(t.now) {
		g.Attempt, g.Takeover, row.note = 1, false, note
		newest, err := t.c.int("SELECT max(seq) FROM records")
		if err != nil {
			return claimAnswer{}, err
		}
		seq = newest + 1
	}
	err := t.c.exec(takeRecord, seq, c.Fingerprint[:], int64(c.OnUnknown), c.Owner[:], g.Fence,
		g.Attempt, g.Takeover, c.Retention.Microseconds(), t.now, t.lap+c.Lease.Microseconds(),
		t.now, nullText(row.note), row.seq)
	if err != nil {
		return claimAnswer{}, err
	}
	t.countRecord(was, -1)
	t.countRecord(recInFlight, 1)
	t.forgetOutcome(c.Identity)
	return claimAnswer{grant: g}, nil
}

// ending is how an attempt ends. recLost stands for what follows from its record's on_unknown.
type ending struct {
	state   recordState
	outcome once.Outcome
}

// endRecord ends the attempt of a grant. It returns the answer, and an error of the store.
func (t *txn) endRecord(g once.Grant, end *ending) (answer, err error) {
	row, err := recordBy(t.c, g.Identity, noData)
	switch {
	case errors.Is(err, once.ErrCorrupt):
		return err, nil
	case err != nil:
		return nil, err
	case row == nil || !row.grantedTo(g) || row.expired(t.now):
		return once.ErrLeaseLost, nil
	}
	switch {
	case row.state == recCompleted && end.state != recReleased,
		row.state == recReleased && end.state == recReleased:
		return nil, nil // it was said before
	case row.state == recCompleted || row.state == recReleased:
		return once.ErrLeaseLost, nil
	case end.state == recLost && !row.lapsed():
		return nil, nil
	}
	return nil, t.finishRecord(row, end)
}

// finishRecord ends the attempt of a record in whatever state it is.
func (t *txn) finishRecord(row *record, end *ending) error {
	was, o := row.state, end.outcome
	row.finished, row.expires = t.now, 0
	if row.state = end.state; row.state == recLost {
		row.state = lostState(row.onUnknown)
	} else {
		row.expires = expiryOf(max(t.now, row.last), row.retention)
	}
	s, err := t.c.prepare(finishRecord)
	if err != nil {
		return err
	}
	s.bindInt(1, int64(row.state))
	s.bindInt(2, int64(o.Kind))
	s.bindInt(3, checksum(o.Data))
	s.bindBlob(4, o.Data)
	s.bindInt(5, row.finished)
	s.bindTime(6, row.expires)
	s.bindInt(7, row.Fence)
	s.bindInt(8, row.seq)
	if err := s.run(); err != nil {
		return err
	}
	t.countRecord(was, -1)
	t.countRecord(row.state, 1)
	if row.state != recCompleted {
		t.forgetOutcome(row.Identity)
		return nil
	}
	t.rememberOutcome(row.Identity, &outcome{fingerprint: row.fingerprint, outcome: o,
		finished: row.finished, touch: row.touchAt()})
	return nil
}

// renewRecord lets a lease end at another time.
func (t *txn) renewRecord(g once.Grant, end int64) (answer, err error) {
	row, err := recordBy(t.c, g.Identity, noData)
	switch {
	case errors.Is(err, once.ErrCorrupt):
		return err, nil
	case err != nil:
		return nil, err
	case row == nil || !row.grantedTo(g) || !row.lapsed():
		return once.ErrLeaseLost, nil
	}
	if row.state != recInFlight { // it was written that it is lost, and its owner came back
		t.countRecord(row.state, -1)
		t.countRecord(recInFlight, 1)
	}
	return nil, t.c.exec("UPDATE records SET state = 1, lease_end = ? WHERE seq = ?", end, row.seq)
}

// resolveRecord carries out what a person has decided.
func (t *txn) resolveRecord(id once.Identity, res *once.Resolution) (answer, err error) {
	row, err := recordBy(t.c, id, noData)
	switch {
	case errors.Is(err, once.ErrCorrupt):
		return err, nil
	case err != nil:
		return nil, err
	case row == nil || row.expired(t.now):
		return once.ErrNotFound, nil
	case res.Fence != 0 && res.Fence != row.Fence:
		return once.ErrState, nil
	}
	lost := row.stateAt(t.lap) == recLost || row.stateAt(t.lap) == recHeld
	end := ending{state: recReleased}
	switch {
	case res.Decision == once.AnswerWith && lost && res.Outcome.Kind < once.Unknown:
		end = ending{state: recCompleted, outcome: res.Outcome}
	case res.Decision == once.RunAgain && lost:
	case res.Decision == once.ReleaseDone && row.state == recCompleted:
	default:
		return once.ErrState, nil
	}
	row.Fence++ // a late owner has lost its lease
	return nil, t.finishRecord(row, &end)
}
