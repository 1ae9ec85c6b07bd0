package once

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// Owner is the token of one attempt: 16 random bytes that nobody else has, not even the same
// process after a restart. It compares by ==.
type Owner [16]byte

// NewOwner returns a token that was never used.
func NewOwner() Owner {
	var o Owner
	_, _ = rand.Read(o[:]) // never fails, as crypto/rand documents
	return o
}

// String returns the token in lower-case hex.
func (o Owner) String() string { return hex.EncodeToString(o[:]) }

// OnUnknown says what follows when an attempt ended and nobody can know whether it had its effect.
type OnUnknown byte

// The choices. The numbers are stored and never change.
const (
	// Retry: the next one who asks runs it again. For work that bears it.
	Retry OnUnknown = 0
	// Hold: nobody runs it again until a person has decided.
	Hold OnUnknown = 1
)

// String returns the choice as it is written in configuration: retry or hold.
func (p OnUnknown) String() string {
	switch p {
	case Retry:
		return "retry"
	case Hold:
		return "hold"
	}
	return fmt.Sprintf("OnUnknown(%d)", byte(p))
}

// Claim asks for an identity.
type Claim struct {
	Identity    Identity
	Fingerprint Fingerprint
	// Owner is the token of whoever asks; a new one for each claim.
	Owner Owner
	// Lease is how long the grant lasts unless it is renewed, from the store's present time. It and
	// Retention are at least a microsecond, the unit in which stores count.
	Lease time.Duration
	// Retention is how long the record is remembered after the later of the last arrival and the
	// end of the work.
	Retention time.Duration
	// OnUnknown is kept with the record: it says what follows if this attempt is lost. An earlier
	// attempt that is lost is held if either its own claim or this one says so.
	OnUnknown OnUnknown
	// Note is shown to people.
	Note Note
}

// Grant is what the taker of an identity holds. Every later write is conditional on it.
type Grant struct {
	Identity Identity
	Owner    Owner
	// Fence rises with each owner of an identity, over releases, expiry and restarts. What is
	// written elsewhere can carry it, so that a late write of an earlier owner is refused there.
	Fence int64
	// Attempt counts the grants of the record, from 1.
	Attempt int
	// Takeover is true if an earlier attempt of this record was lost: it may have had its effect.
	Takeover bool
}

// Note is what people are shown of a record: that of its first claim. It is no part of the
// identity. Stores keep what [Note.Cut] leaves of it.
type Note struct {
	// Scope holds the parts of the scope; none for [NoScope]. Nobody changes the list afterwards.
	Scope []string
	// Key is the beginning of the key, never all of it.
	Key string
	// Request names what was asked: a method and a path, or the name of a function.
	Request string
}

// MaxNoteText bounds each text of a [Note], in bytes.
const MaxNoteText = 256

// Cut returns the note as stores keep it: with at most [MaxScopeParts] parts of its scope, and of
// each text at most [MaxNoteText] bytes of whole characters. The caller's list stays as it is.
func (n Note) Cut() Note {
	n.Key, n.Request = cutText(n.Key), cutText(n.Request)
	n.Scope = n.Scope[:min(len(n.Scope), MaxScopeParts)]
	if slices.ContainsFunc(n.Scope, func(s string) bool { return len(s) > MaxNoteText }) {
		n.Scope = slices.Clone(n.Scope)
		for i, s := range n.Scope {
			n.Scope[i] = cutText(s)
		}
	}
	return n
}

// cutText cuts between two characters.
func cutText(s string) string {
	if len(s) <= MaxNoteText {
		return s
	}
	end := MaxNoteText
	for end > MaxNoteText-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// OutcomeKind says what is known of an attempt that ended.
type OutcomeKind byte

// The kinds of outcomes. The numbers are stored and never change.
const (
	// Kept: Data is the whole outcome.
	Kept OutcomeKind = 0
	// Tombstone: the work is done and is not run again; Data tells what can be told of an outcome
	// whose body was not kept.
	Tombstone OutcomeKind = 1
	// Unknown: the attempt ended and nobody can know whether it had its effect.
	Unknown OutcomeKind = 2
)

// Outcome is what came of the operation.
type Outcome struct {
	Kind OutcomeKind
	// Data is in the encoding of whoever completes; stores keep a copy as it is. Unknown has none.
	Data []byte
}

// RecordState is the state of a record, as people see it.
type RecordState string

// The states of a record. There is no other, but in a list the empty one of what can't be read.
const (
	// InFlight: somebody has it, and the lease runs.
	InFlight RecordState = "in_flight"
	// Completed: it has an outcome, or a tombstone.
	Completed RecordState = "completed"
	// Released: nobody has it; the work had no effect. Its fingerprint is still compared.
	Released RecordState = "released"
	// Lost: an attempt ended without an outcome, and the next one who asks runs it again.
	Lost RecordState = "unknown"
	// Held: an attempt ended without an outcome, and a person has to decide.
	Held RecordState = "held"
)

// Record is what a store remembers of an identity.
type Record struct {
	Identity    Identity
	Fingerprint Fingerprint
	State       RecordState
	OnUnknown   OnUnknown
	Fence       int64
	Attempt     int
	Note        Note
	// ClaimedAt is when the latest attempt began, FinishedAt when it ended; zero while it has not.
	ClaimedAt, FinishedAt time.Time
	// LastAt is the last arrival that was written down: stores leave out those that change no
	// expiry, and those that come within a sixteenth of the retention after another one.
	LastAt time.Time
	// LeaseEnd is when the lease of the latest attempt ends or has ended.
	LeaseEnd time.Time
	// ExpiresAt is when the record may be forgotten; zero: never, in the state that it is in.
	ExpiresAt time.Time
	// Outcome of a completed record; Data is nil where only the list of records was asked for.
	Outcome Outcome
	// Size is the length of the outcome's data in bytes.
	Size int
}
