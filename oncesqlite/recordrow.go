package oncesqlite

import (
	"encoding/json"
	"fmt"
	"hash/crc32"

	"github.com/oncekit/once"
)

// recordState is a record's state as it is stored. The numbers stand in the queries and never
// change. A lease that ended makes an attempt lost, whether or not that was written already.
type recordState int64

const (
	recInFlight  recordState = 1
	recCompleted recordState = 2
	recReleased  recordState = 3
	recLost      recordState = 4 // 4 + on_unknown is the state of a lost attempt
	recHeld      recordState = 5
)

// name returns the state as it is called where people look.
func (s recordState) name() once.RecordState {
	switch s {
	case recInFlight:
		return once.InFlight
	case recCompleted:
		return once.Completed
	case recReleased:
		return once.Released
	case recLost:
		return once.Lost
	case recHeld:
		return once.Held
	}
	return ""
}

// record is a record as it is stored.
type record struct {
	once.Grant
	seq         int64
	fingerprint once.Fingerprint
	state       recordState
	onUnknown   once.OnUnknown
	// Microseconds, the times by the store's clock; leaseEnd by that of leases, instant.lap.
	retention, claimed, leaseEnd, finished, last, expires int64

	kind once.OutcomeKind
	sum  int64
	size int64 // of the outcome's data
	// data is nil without an outcome, and for one that is longer than was asked for.
	data []byte
	note string
	// corrupt is true in a list for one that can't be read.
	corrupt bool
}

// recordColumns are what scanRecord reads. The last one is the data up to a length.
const recordColumns = `seq, identity, fingerprint, state, on_unknown, owner, fence, attempt,
	takeover, retention, claimed_at, lease_end, finished_at, last_at, expires_at, kind, sum,
	coalesce(length(outcome), -1), note, CASE WHEN length(outcome) <= ?1 THEN outcome END`

// scanRecord reads a record. A value that can't be is an error wrapping once.ErrCorrupt; what could
// be read is returned with it.
func scanRecord(r *stmt) (*record, error) {
	row := &record{
		seq: r.int(0), state: recordState(r.int(3)), onUnknown: once.OnUnknown(r.int(4)),
		retention: r.int(9), claimed: r.int(10), leaseEnd: r.int(11), finished: r.int(12),
		last: r.int(13), expires: r.int(14), kind: once.OutcomeKind(r.int(15)), sum: r.int(16),
		size: max(r.int(17), 0),
	}
	row.Fence, row.Attempt, row.Takeover = r.int(6), int(r.int(7)), r.int(8) != 0
	sound := copyExactly(row.Identity[:], r.raw.ColumnRawBlob(1)) &&
		copyExactly(row.fingerprint[:], r.raw.ColumnRawBlob(2)) &&
		copyExactly(row.Owner[:], r.raw.ColumnRawBlob(5))
	row.note = r.text(18)
	if row.data = r.blob(19); row.data == nil && r.int(17) == 0 {
		row.data = []byte{} // SQLite has no address for it
	}
	if !sound || !row.sound(r.int(4), r.int(15)) {
		return row, fmt.Errorf("record %s: %w", row.Identity.ID(), once.ErrCorrupt)
	}
	return row, nil
}

// sound reports whether the values are such as are written. The data of an outcome that was read
// has to be what its sum was made of.
func (row *record) sound(onUnknown, kind int64) bool {
	ended := row.state == recCompleted || row.state == recReleased
	return row.state.name() != "" && onUnknown >= 0 && onUnknown <= 1 && row.Fence > 0 &&
		row.Attempt > 0 && row.retention > 0 && row.claimed > 0 && row.last > 0 &&
		(!ended || row.finished > 0 && row.expires > 0) &&
		kind >= int64(once.Kept) && kind <= int64(once.Tombstone) &&
		(int64(len(row.data)) < row.size || checksum(row.data) == row.sum)
}

// copyExactly fills dst and reports whether src has its length.
func copyExactly(dst, src []byte) bool { return copy(dst, src) == len(dst) && len(src) == len(dst) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum tells data that the disk has changed: it would be told to somebody as an answer.
func checksum(data []byte) int64 { return int64(crc32.Checksum(data, castagnoli)) }

// expired reports whether a record is past its retention.
func (row *record) expired(now int64) bool {
	return (row.state == recCompleted || row.state == recReleased) && now >= row.expires
}

// lapsed reports whether nobody has said that the attempt ended: if it is lost, then because its
// lease ended. Its owner may still come back.
func (row *record) lapsed() bool { return row.finished == 0 }

// stateAt is the state as it is for whoever asks at a time of leases.
func (row *record) stateAt(lap int64) recordState {
	if row.state != recInFlight || lap < row.leaseEnd {
		return row.state
	}
	return lostState(row.onUnknown)
}

func lostState(p once.OnUnknown) recordState { return recLost + recordState(p) }

// grantedTo reports whether a grant is that of the record's latest owner.
func (row *record) grantedTo(g once.Grant) bool {
	return row.Owner == g.Owner && row.Fence == g.Fence
}

// Expiry is written anew only when an arrival comes later than this part of the retention after the
// one that is written, so that most replays write nothing. So that the record is never forgotten
// too soon it is kept longer by twice that.
const (
	touchPart = 32
	sparePart = 16
)

// expiryOf returns when a record is forgotten whose work ended, or that was asked for last, then.
func expiryOf(since, retention int64) int64 { return since + retention + retention/sparePart }

// touchAt is the time from which an arrival is written.
func (row *record) touchAt() int64 {
	return max(row.last, row.finished) + row.retention/touchPart
}

// public is what people are shown of a record.
func (row *record) public(at instant) once.Record {
	out := once.Record{
		Identity: row.Identity, Fingerprint: row.fingerprint, State: row.stateAt(at.lap).name(),
		OnUnknown: row.onUnknown, Fence: row.Fence, Attempt: row.Attempt,
		Note: decodeNote(row.note), ClaimedAt: timeOf(row.claimed),
		FinishedAt: timeOf(row.finished), LastAt: timeOf(row.last),
		LeaseEnd: at.shown(row.leaseEnd), ExpiresAt: timeOf(row.expires), Size: int(row.size),
	}
	if row.state == recCompleted {
		out.Outcome = once.Outcome{Kind: row.kind, Data: row.data}
	}
	return out
}

// storedNote is a note as it is written.
type storedNote struct {
	Scope   []string `json:"s,omitempty"`
	Key     string   `json:"k,omitempty"`
	Request string   `json:"r,omitempty"`
}

// encodeNote writes what people are shown, cut. What is no UTF-8 becomes U+FFFD, as in all JSON.
func encodeNote(n once.Note) string {
	if len(n.Scope) == 0 && n.Key == "" && n.Request == "" {
		return ""
	}
	n = n.Cut()
	// Texts can always be written.
	text, _ := json.Marshal(storedNote{Scope: n.Scope, Key: n.Key, Request: n.Request})
	return string(text)
}

// decodeNote reads a note; one that can't be read is shown as none, since nothing follows from it.
func decodeNote(text string) once.Note {
	var n storedNote
	if text == "" || json.Unmarshal([]byte(text), &n) != nil {
		return once.Note{}
	}
	return once.Note{Scope: n.Scope, Key: n.Key, Request: n.Request}
}
