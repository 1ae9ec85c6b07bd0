package oncemongo

import (
	"bytes"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once"
)

// The steps, as decisions: each is given the record as it is stored, nil if there is none, and the
// server's time in ms. It returns the record as it is to be, or nil if nothing is to be written,
// and what its caller is told once that is written. It does no I/O and leaves the stored one as it
// is, since it is asked again when another writer came first or an answer was lost.

// expired tells a record that is absent, whether or not it was removed already.
func (r *record) expired(now int64) bool { return r.ended() && now >= int64(r.ExpiresAt) }

// isOwn tells a record that the claim's owner has: the answer to its first try was lost.
func (r *record) isOwn(c *once.Claim) bool {
	return r != nil && r.State == stateInFlight && bytes.Equal(r.Owner, c.Owner[:])
}

// claim takes an identity. The record that it returns without an error bears the grant.
func (r *record) claim(c *once.Claim, now int64) (*record, error) {
	if r == nil || r.expired(now) {
		return r.first(c, now), nil
	}
	if !bytes.Equal(r.Fingerprint, c.Fingerprint[:]) {
		return nil, once.ErrMismatch
	}
	if r.isOwn(c) {
		return r, nil
	}
	switch {
	case r.State == stateCompleted:
		return r.arrival(now), &once.ReplayError{
			Outcome: r.outcome(), CompletedAt: r.FinishedAt.Time(),
		}
	case r.State == stateInFlight && now < int64(r.LeaseEnd):
		return nil, &once.InFlightError{
			Rest: spanOf(int64(r.LeaseEnd) - now), Age: spanOf(max(now-int64(r.ClaimedAt), 0)),
		}
	case r.State != stateReleased && (r.OnUnknown == policyHold || c.OnUnknown == once.Hold):
		held := &once.UnknownError{Since: r.lostAt()}
		if r.OnUnknown == policyHold {
			return nil, held
		}
		next := *r
		next.OnUnknown = policyHold // from now on, whoever asks
		return &next, held
	}
	next := *r
	next.Takeover = r.State != stateReleased
	next.take(c, now)
	return &next, nil
}

// first is the record of a first attempt, in the place of none or of one that is past its
// retention: its fence and revision go on.
func (r *record) first(c *once.Claim, now int64) *record {
	note := c.Note.Cut()
	next := record{
		id: c.Identity, ID: recordID(c.Identity), Fingerprint: c.Fingerprint[:],
		Request: recordText(note.Request), Key: recordText(note.Key),
	}
	for _, s := range note.Scope {
		next.Scope = append(next.Scope, recordText(s))
	}
	if r != nil {
		next.Fence, next.Revision = r.Fence, r.Revision
	}
	next.take(c, now)
	return &next
}

// take makes the claimant the owner.
func (r *record) take(c *once.Claim, now int64) {
	r.State, r.Owner, r.OnUnknown = stateInFlight, c.Owner[:], policyRetry
	if c.OnUnknown == once.Hold {
		r.OnUnknown = policyHold
	}
	r.raise(now)
	r.Attempt++
	r.RetentionMS = spanMS(c.Retention)
	r.ClaimedAt, r.LastAt = bson.DateTime(now), bson.DateTime(now)
	r.LeaseEnd = bson.DateTime(now + spanMS(c.Lease))
	r.FinishedAt, r.ExpiresAt = 0, 0
	r.Kind, r.Size, r.Outcome = "", 0, nil
}

// raise moves the fence on. It is at least the server's time in µs, so that it also rises over a
// record that was removed, unless the clock was set back by more than the record's retention.
func (r *record) raise(now int64) { r.Fence = max(r.Fence+1, now*1000) }

// arrival writes a repeat down, if the one that is noted is so old that it matters.
func (r *record) arrival(now int64) *record {
	since := max(r.FinishedAt, r.LastAt)
	if now-int64(since) < r.RetentionMS/16 || now <= int64(since) {
		return nil
	}
	next := *r
	next.LastAt = bson.DateTime(now)
	next.expires()
	return &next
}

// expires sets the expiry of a record that ended: a 16th of the retention later than was asked for,
// so that not each repeat has to be written down.
func (r *record) expires() {
	kept := r.RetentionMS + (r.RetentionMS+15)/16
	r.ExpiresAt = max(r.FinishedAt, r.LastAt) + bson.DateTime(kept)
}

// lostAt is when a lost attempt ended, or its lease.
func (r *record) lostAt() time.Time {
	if r.State == stateUnknown {
		return r.FinishedAt.Time()
	}
	return r.LeaseEnd.Time()
}

// owns tells whether a grant is that of the latest owner.
func (r *record) owns(g once.Grant, now int64) bool {
	return r != nil && !r.expired(now) && r.Fence == g.Fence && bytes.Equal(r.Owner, g.Owner[:])
}

// complete ends the attempt.
func (r *record) complete(g once.Grant, o once.Outcome, now int64) (*record, error) {
	switch {
	case !r.owns(g, now) || r.State == stateReleased:
		return nil, once.ErrLeaseLost
	case r.State == stateCompleted || r.State == stateUnknown && o.Kind == once.Unknown:
		return nil, nil
	}
	next := *r
	next.FinishedAt = bson.DateTime(now)
	if o.Kind == once.Unknown {
		next.State = stateUnknown
		return &next, nil
	}
	next.end(o)
	return &next, nil
}

// end completes a record with an outcome.
func (r *record) end(o once.Outcome) {
	r.State, r.Kind = stateCompleted, kindKept
	if o.Kind == once.Tombstone {
		r.Kind = kindTombstone
	}
	r.Outcome, r.Size = o.Data, int64(len(o.Data))
	r.expires()
}

// release gives the identity back.
func (r *record) release(g once.Grant, now int64) (*record, error) {
	switch {
	case !r.owns(g, now) || r.State == stateCompleted:
		return nil, once.ErrLeaseLost
	case r.State == stateReleased:
		return nil, nil
	}
	next := *r
	next.free(now)
	return &next, nil
}

func (r *record) free(now int64) {
	r.State, r.FinishedAt = stateReleased, bson.DateTime(now)
	r.Kind, r.Size, r.Outcome = "", 0, nil
	r.expires()
}

// renew lets the lease end later.
func (r *record) renew(g once.Grant, lease time.Duration, now int64) (*record, error) {
	if !r.owns(g, now) || r.State != stateInFlight {
		return nil, once.ErrLeaseLost
	}
	next := *r
	next.LeaseEnd = bson.DateTime(now + spanMS(lease))
	return &next, nil
}

// resolve carries a person's decision out. The record then belongs to the decision's token: a late
// owner has lost its lease.
func (r *record) resolve(res once.Resolution, token once.Owner, now int64) (*record, error) {
	if r == nil || r.expired(now) {
		return nil, once.ErrNotFound
	}
	if bytes.Equal(r.Owner, token[:]) {
		return nil, nil // done, and the answer was lost
	}
	state := r.stateAt(now)
	allowed := state == once.Lost || state == once.Held
	switch res.Decision {
	case once.RunAgain, once.AnswerWith:
	case once.ReleaseDone:
		allowed = state == once.Completed
	default:
		allowed = false
	}
	if !allowed || res.Fence != 0 && res.Fence != r.Fence {
		return nil, once.ErrState
	}
	next := *r
	next.Owner = token[:]
	next.raise(now)
	if res.Decision == once.AnswerWith {
		next.FinishedAt = bson.DateTime(now)
		next.end(res.Outcome)
	} else {
		next.free(now)
	}
	return &next, nil
}

func (r *record) grant() once.Grant {
	return once.Grant{
		Identity: r.id, Owner: once.Owner(r.Owner), Fence: r.Fence,
		Attempt: int(r.Attempt), Takeover: r.Takeover,
	}
}

// spanMS is a span in whole ms, the unit of BSON's dates, and never shorter than it was.
func spanMS(d time.Duration) int64 {
	d = min(max(d, 0), maxSpan)
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

func spanOf(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
