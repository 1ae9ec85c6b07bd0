package oncemongo

import (
	"encoding/hex"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// Names of the collections of the queue.
const (
	callbacks = "once_callbacks"
	effects   = "once_effects"
	arrivals  = "once_arrivals"
	tasks     = "once_tasks"
	history   = "once_history"
	resources = "once_resources"
	counters  = "once_counters"
	audit     = "once_audit"
	rejected  = "once_rejected"
	nodes     = "once_nodes"
	meta      = "once_meta"
)

// rowsOf names the collection of a kind's rows.
func rowsOf(k queue.Kind) string {
	if k == queue.Effect {
		return effects
	}
	return callbacks
}

// kindOf returns the kind of a row by its number: callbacks have even ones, effects odd ones, so
// that a grant, which is a number and a fence, names its collection.
func kindOf(seq int64) queue.Kind {
	if seq%2 == 0 {
		return queue.Callback
	}
	return queue.Effect
}

// row is a document of callbacks or effects. Slices in it are replaced, never changed in place.
type row struct {
	Seq int64 `bson:"_id"`
	// V is the number of the commit that wrote it last.
	V           int64       `bson:"v"`
	ID          string      `bson:"id"`
	Identity    string      `bson:"identity"`
	Fingerprint string      `bson:"fingerprint,omitempty"`
	State       queue.State `bson:"state"`
	Phase       phase       `bson:"phase"`
	Lane        string      `bson:"lane"`
	OrderKey    string      `bson:"order_key,omitempty"`
	// InLine is true for a row that holds up the later rows of its order key, or waits behind one.
	InLine   bool     `bson:"in_line,omitempty"`
	Source   string   `bson:"source"`
	Event    string   `bson:"event,omitempty"`
	Flow     string   `bson:"flow,omitempty"`
	Task     string   `bson:"task,omitempty"`
	Key      []string `bson:"key,omitempty"`
	Resource string   `bson:"resource,omitempty"`
	Frees    bool     `bson:"frees,omitempty"`
	Cause    string   `bson:"cause,omitempty"`
	Peer     string   `bson:"peer,omitempty"`

	Attempt  int   `bson:"attempt,omitempty"`
	Lost     int   `bson:"lost,omitempty"`
	Fence    int64 `bson:"fence,omitempty"`
	Revision int   `bson:"revision,omitempty"`

	Duplicates int64 `bson:"duplicates,omitempty"`
	Conflicts  int64 `bson:"conflicts,omitempty"`
	// Tries is how many attempts were ever remembered of it.
	Tries int64 `bson:"tries,omitempty"`

	ReceivedAt stamp `bson:"received_at"`
	LastAt     stamp `bson:"last_at,omitempty"`
	NextAt     stamp `bson:"next_at,omitempty"`
	StartedAt  stamp `bson:"started_at,omitempty"`
	FinishedAt stamp `bson:"finished_at,omitempty"`
	ExpiresAt  stamp `bson:"expires_at,omitempty"`
	SweepAt    stamp `bson:"sweep_at,omitempty"`
	// LeaseUntil and Node say until when who has it.
	LeaseUntil stamp  `bson:"lease_until,omitempty"`
	Node       string `bson:"node,omitempty"`

	Error       string      `bson:"error,omitempty"`
	DeadCause   queue.Cause `bson:"dead_cause,omitempty"`
	Blocks      bool        `bson:"blocks,omitempty"`
	LimitPassed bool        `bson:"limit_passed,omitempty"`
	Waits       []string    `bson:"waits,omitempty"`
	WaitUntil   stamp       `bson:"wait_until,omitempty"`
	Attempts    []attempt   `bson:"attempts,omitempty"`
	// Acted is true once a person did something to it.
	Acted bool `bson:"acted,omitempty"`
	// Accepted are the revisions that people made of conflicting arrivals.
	Accepted []revisionOf `bson:"accepted,omitempty"`
	// Newest is the number of the newest callback under the identity of this one, if that is
	// another one; see newer.go.
	Newest int64 `bson:"newest,omitempty"`

	RetentionMS int64   `bson:"retention_ms"`
	KeepBodyMS  int64   `bson:"keep_body_ms"`
	TraceParent string  `bson:"trace_parent,omitempty"`
	TraceState  string  `bson:"trace_state,omitempty"`
	Meta        payload `bson:"meta,omitempty"`
	Body        payload `bson:"body,omitempty"`

	// tried is true while what came of a try is settled, not the decision of a person or of the
	// store itself.
	tried bool
}

// attempt is one try as a row remembers it.
type attempt struct {
	N         int    `bson:"n"`
	StartedAt stamp  `bson:"started_at,omitempty"`
	EndedAt   stamp  `bson:"ended_at"`
	Result    string `bson:"result"`
	Error     string `bson:"error,omitempty"`
}

// revisionOf is other content that a person accepted.
type revisionOf struct {
	N           int64  `bson:"n"`
	Fingerprint string `bson:"fingerprint"`
	ID          string `bson:"id"`
}

// kind of the row.
func (r *row) kind() queue.Kind { return kindOf(r.Seq) }

// setPhase gives the row a phase, and the state that belongs to it.
func (r *row) setPhase(p phase) { r.Phase, r.State = p, p.state(r.kind()) }

// public returns the row as the queue knows it, without what can be long if head is true.
func (r *row) public(head bool) (queue.Row, error) {
	out := queue.Row{
		Seq: r.Seq, Kind: r.kind(), Lane: r.Lane, OrderKey: r.OrderKey, State: r.State,
		Source: r.Source, Event: r.Event, Flow: r.Flow, Task: r.Task,
		Key: slices.Clone(r.Key), Resource: r.Resource, Frees: r.Frees, Cause: r.Cause,
		Attempt: r.Attempt, Lost: r.Lost, Fence: r.Fence, Revision: r.Revision,
		Duplicates: r.Duplicates, Conflicts: r.Conflicts,
		ReceivedAt: r.ReceivedAt.time(), LastAt: max(r.LastAt, r.ReceivedAt).time(),
		NextAt: r.NextAt.time(), StartedAt: r.StartedAt.time(), FinishedAt: r.FinishedAt.time(),
		ExpiresAt: r.ExpiresAt.time(), Error: r.Error, DeadCause: r.DeadCause,
		LimitPassed: r.LimitPassed, Waits: slices.Clone(r.Waits), WaitUntil: r.WaitUntil.time(),
		TraceParent: r.TraceParent, TraceState: r.TraceState,
	}
	if !head {
		out.Meta, out.Body = slices.Clone(r.Meta), slices.Clone(r.Body)
	}
	err := unhex(out.Identity[:], r.Identity)
	if err == nil && r.Fingerprint != "" {
		err = unhex(out.Fingerprint[:], r.Fingerprint)
	}
	if err != nil {
		return out, fmt.Errorf("row %d: %w: %w", r.Seq, once.ErrCorrupt, err)
	}
	return out, nil
}

// identity returns the row's identity; zero if it can't be read.
func (r *row) identity() (id once.Identity) {
	_ = unhex(id[:], r.Identity) // public says so
	return id
}

// unhex reads exactly as many bytes as dst has.
func unhex(dst []byte, s string) error {
	b, err := hex.DecodeString(s)
	if err != nil {
		return err
	}
	if len(b) != len(dst) {
		return fmt.Errorf("%d bytes, want %d", len(b), len(dst))
	}
	copy(dst, b)
	return nil
}

// fingerprintText is a fingerprint as it is stored; empty for none.
func fingerprintText(fp once.Fingerprint) string {
	if fp == (once.Fingerprint{}) {
		return ""
	}
	return hex.EncodeToString(fp[:])
}

// stamp is a time in milliseconds since 1970, as BSON holds it; 0: none.
type stamp int64

func stampOf(t time.Time) stamp {
	if t.IsZero() {
		return 0
	}
	return stamp(t.UnixMilli())
}

func (s stamp) time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(s)).UTC()
}

// add returns a later time; d is at least a millisecond where it is above 0.
func (s stamp) add(d time.Duration) stamp { return s + stamp(millis(d)) }

// millis rounds up, so that what is asked for is never cut short.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// MarshalBSONValue writes a stamp as a date.
func (s stamp) MarshalBSONValue() (byte, []byte, error) {
	t, b, err := bson.MarshalValue(bson.DateTime(s))
	return byte(t), b, err
}

// UnmarshalBSONValue reads a date.
func (s *stamp) UnmarshalBSONValue(t byte, b []byte) error {
	v := bson.RawValue{Type: bson.Type(t), Value: b}
	ms, ok := v.DateTimeOK()
	if !ok {
		return fmt.Errorf("%v where a date was written", v.Type)
	}
	*s = stamp(ms)
	return nil
}

// IsZero lets omitempty leave out what is no time.
func (s stamp) IsZero() bool { return s == 0 }

// payload is stored as text where it is text, for people, else as bytes. What is empty but there
// is told from what is not there.
type payload []byte

// IsZero lets omitempty keep a payload of no bytes.
func (p payload) IsZero() bool { return p == nil }

// MarshalBSONValue writes a text or bytes.
func (p payload) MarshalBSONValue() (byte, []byte, error) {
	var v any = bson.Binary{Data: p}
	if len(p) > 0 && isText(p) {
		v = string(p)
	}
	t, b, err := bson.MarshalValue(v)
	return byte(t), b, err
}

// UnmarshalBSONValue is the reverse of MarshalBSONValue.
func (p *payload) UnmarshalBSONValue(t byte, b []byte) error {
	v := bson.RawValue{Type: bson.Type(t), Value: b}
	if s, ok := v.StringValueOK(); ok {
		*p = []byte(s)
		return nil
	}
	_, data, ok := v.BinaryOK()
	if !ok {
		return fmt.Errorf("%v where a text or bytes were written", v.Type)
	}
	*p = append([]byte{}, data...)
	return nil
}

// isText reports whether bytes are a text that every reader shows as it is.
func isText(b []byte) bool {
	return utf8.Valid(b) && !slices.ContainsFunc(b, func(c byte) bool {
		return c == 0
	})
}
