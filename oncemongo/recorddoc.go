package oncemongo

import (
	"encoding/hex"
	"fmt"
	"time"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once"
)

// The states of a stored record. One whose lease has ended stays in flight until somebody asks.
const (
	stateInFlight  = "in_flight"
	stateCompleted = "completed"
	stateReleased  = "released"
	stateUnknown   = "unknown"
)

const (
	policyRetry = "retry"
	policyHold  = "hold"

	kindKept      = "kept"
	kindTombstone = "tombstone"
)

// record is the document of an identity. Dates are the server's time, in ms, and 0 means that the
// field is missing.
type record struct {
	// ID is the identity in lower-case hex: people can look for it, and what it costs more than its
	// bytes is little beside the rest.
	ID    string `bson:"_id"`
	State string `bson:"state"`
	// What people are shown of the first claim.
	Request recordText   `bson:"request"`
	Key     recordText   `bson:"key"`
	Scope   []recordText `bson:"scope,omitempty"`

	OnUnknown string `bson:"on_unknown"`
	Attempt   int64  `bson:"attempt"`
	// Takeover is true if the latest attempt came after a lost one.
	Takeover   bool          `bson:"takeover"`
	ClaimedAt  bson.DateTime `bson:"claimed_at"`
	LeaseEnd   bson.DateTime `bson:"lease_end"`
	FinishedAt bson.DateTime `bson:"finished_at,omitempty"`
	// LastAt is the last arrival, at most 1/16 of the retention behind.
	LastAt      bson.DateTime `bson:"last_at"`
	RetentionMS int64         `bson:"retention_ms"`
	// ExpiresAt is missing while the record may not be forgotten: a TTL index never removes it.
	ExpiresAt bson.DateTime `bson:"expires_at,omitempty"`

	Fingerprint []byte `bson:"fingerprint"`
	// Owner of the latest attempt, or the token of a later decision.
	Owner []byte `bson:"owner"`
	Fence int64  `bson:"fence"`
	// Revision rises with each write of this document.
	Revision int64 `bson:"revision"`

	Kind    string `bson:"outcome_kind,omitempty"`
	Size    int64  `bson:"outcome_bytes,omitempty"`
	Outcome []byte `bson:"outcome,omitempty"`

	id once.Identity
}

// recordText is a text that may be none: what BSON and its readers can't hold as a string is stored
// as bytes.
type recordText string

// MarshalBSONValue implements [bson.ValueMarshaler].
func (s recordText) MarshalBSONValue() (byte, []byte, error) {
	var t bson.Type
	var data []byte
	var err error
	if s.isString() {
		t, data, err = bson.MarshalValue(string(s))
	} else {
		t, data, err = bson.MarshalValue([]byte(s))
	}
	return byte(t), data, err
}

func (s recordText) isString() bool {
	for i := range len(s) {
		if s[i] == 0 {
			return false
		}
	}
	return utf8.ValidString(string(s))
}

// UnmarshalBSONValue implements [bson.ValueUnmarshaler].
func (s *recordText) UnmarshalBSONValue(t byte, data []byte) error {
	v := bson.RawValue{Type: bson.Type(t), Value: data}
	if str, ok := v.StringValueOK(); ok {
		*s = recordText(str)
		return nil
	}
	if _, b, ok := v.BinaryOK(); ok {
		*s = recordText(b)
		return nil
	}
	return fmt.Errorf("a text is of BSON's type %s", bson.Type(t))
}

// parseRecord reads a document: with its outcome, or as a part without it. It returns
// [once.ErrCorrupt].
func parseRecord(raw bson.Raw, part outcomePart) (*record, error) {
	var r record
	if err := bson.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", once.ErrCorrupt, err)
	}
	bad := func(what string) (*record, error) {
		return nil, fmt.Errorf("%w: it has no %s", once.ErrCorrupt, what)
	}
	ended := false
	switch r.State {
	case stateInFlight, stateUnknown:
	case stateCompleted, stateReleased:
		ended = true
	default:
		return bad("state that is known")
	}
	switch {
	case !r.readID():
		return bad("identity")
	case r.OnUnknown != policyRetry && r.OnUnknown != policyHold:
		return bad("on_unknown that is known")
	case len(r.Fingerprint) != len(once.Fingerprint{}):
		return bad("fingerprint")
	case len(r.Owner) != len(once.Owner{}):
		return bad("owner")
	case r.Fence < 1 || r.Attempt < 1 || r.Revision < 1 || r.RetentionMS < 1:
		return bad("fence, attempt, revision or retention above 0")
	case r.ClaimedAt < 1 || r.LeaseEnd < 1 || r.LastAt < 1:
		return bad("dates of its claim, lease and arrival")
	case ended != (r.ExpiresAt > 0) || r.State != stateInFlight && r.FinishedAt < 1:
		return bad("date of its end or expiry that belongs to its state")
	case r.State != stateCompleted && (r.Kind != "" || len(r.Outcome) > 0):
		return bad("state of a record with an outcome")
	case r.State == stateCompleted && r.Kind != kindKept && r.Kind != kindTombstone:
		return bad("outcome that is known")
	case part == withOutcome && r.Size != int64(len(r.Outcome)):
		return bad("outcome of the length that is noted")
	}
	return &r, nil
}

func recordID(id once.Identity) string { return hex.EncodeToString(id[:]) }

// readID reads the identity of a document that was read.
func (r *record) readID() bool {
	b, err := hex.DecodeString(r.ID)
	if err != nil || len(b) != len(r.id) {
		return false
	}
	r.id = once.Identity(b)
	return recordID(r.id) == r.ID
}

// ended tells a record that has an expiry.
func (r *record) ended() bool { return r.State == stateCompleted || r.State == stateReleased }

func (r *record) outcome() once.Outcome {
	o := once.Outcome{Kind: once.Kept, Data: r.Outcome}
	if r.Kind == kindTombstone {
		o.Kind = once.Tombstone
	}
	return o
}

// public is what people are shown of a record, at the server's time in ms.
func (r *record) public(now int64) once.Record {
	out := once.Record{
		Identity: r.id, Fingerprint: once.Fingerprint(r.Fingerprint),
		State: r.stateAt(now), OnUnknown: r.policy(), Fence: r.Fence, Attempt: int(r.Attempt),
		Note:      once.Note{Key: string(r.Key), Request: string(r.Request)},
		ClaimedAt: r.ClaimedAt.Time(), LastAt: r.LastAt.Time(), LeaseEnd: r.LeaseEnd.Time(),
		FinishedAt: recordDate(r.FinishedAt), ExpiresAt: recordDate(r.ExpiresAt),
		Outcome: r.outcome(), Size: int(r.Size),
	}
	for _, s := range r.Scope {
		out.Note.Scope = append(out.Note.Scope, string(s))
	}
	return out
}

// recordDate is a date that may be missing.
func recordDate(d bson.DateTime) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return d.Time()
}

func (r *record) policy() once.OnUnknown {
	if r.OnUnknown == policyHold {
		return once.Hold
	}
	return once.Retry
}

// stateAt is the state as people see it.
func (r *record) stateAt(now int64) once.RecordState {
	switch {
	case r.State == stateCompleted:
		return once.Completed
	case r.State == stateReleased:
		return once.Released
	case r.State == stateInFlight && now < int64(r.LeaseEnd):
		return once.InFlight
	case r.OnUnknown == policyHold:
		return once.Held
	}
	return once.Lost
}
