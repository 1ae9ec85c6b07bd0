package oncetest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"time"

	"github.com/oncekit/once"
)

// mutants are faults that stores of this kind have had, with cases that have to notice them.
var mutants = []struct {
	fault string
	cases []string
	make  func(m *mutant) once.Store
}{
	{"a claim overwrites another", []string{
		"Claim/K01_InFlightBeforeTheWork", "Race/K03_New", "Race/K04_SlowWinner",
		"Random/AgainstAModel",
	}, func(m *mutant) once.Store {
		m.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
			g, err := m.Store.Claim(ctx, c)
			if errors.Is(err, once.ErrInFlight) {
				old, _ := m.latest(c.Identity)
				_ = m.Store.Release(ctx, old)
				return m.Store.Claim(ctx, c)
			}
			return g, err
		}
		return m
	}},
	{"a claim looks first and writes then", []string{
		"Race/K03_New", "Race/K15_Again",
	}, func(m *mutant) once.Store {
		m.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
			_, looked := m.Record(ctx, c.Identity)
			runtime.Gosched()
			g, err := m.Store.Claim(ctx, c)
			if errors.Is(looked, once.ErrNotFound) && errors.Is(err, once.ErrInFlight) {
				return once.Grant{Identity: c.Identity, Owner: c.Owner, Fence: 1, Attempt: 1}, nil
			}
			return g, err
		}
		return m
	}},
	{"completion without a fence", []string{
		"Stale/K09_AfterATakeover", "Stale/WrongFence", "Stale/WrongToken", "Random/AgainstAModel",
	}, func(m *mutant) once.Store {
		m.complete = func(ctx context.Context, g once.Grant, o once.Outcome) error {
			g, _ = m.latest(g.Identity)
			return m.Store.Complete(ctx, g, o)
		}
		return m
	}},
	{"release of whatever is there", []string{
		"Stale/K10_ReleaseFreesNobodyElse", "Random/AgainstAModel",
	}, func(m *mutant) once.Store {
		m.release = func(ctx context.Context, g once.Grant) error {
			g, _ = m.latest(g.Identity)
			return m.Store.Release(ctx, g)
		}
		return m
	}},
	{"renewal by anybody", []string{
		"Stale/K09_AfterATakeover", "Stale/WrongToken", "Random/AgainstAModel",
	}, func(m *mutant) once.Store {
		m.renew = func(ctx context.Context, g once.Grant, lease time.Duration) error {
			g, _ = m.latest(g.Identity)
			_ = m.Store.Renew(ctx, g, lease)
			return nil
		}
		return m
	}},
	{"in flight before a mismatch", []string{
		"Mismatch/K05_InFlight", "Race/Changed", "Random/AgainstAModel",
	}, func(m *mutant) once.Store {
		m.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
			g, err := m.Store.Claim(ctx, c)
			if errors.Is(err, once.ErrMismatch) {
				if r, _ := m.Record(ctx, c.Identity); r.State == once.InFlight {
					return g, &once.InFlightError{Rest: time.Second}
				}
			}
			return g, err
		}
		return m
	}},
	{"a replay that compares nothing", []string{
		"Mismatch/F02_Completed", "Mismatch/F10_OnEveryWay", "Mismatch/EachByteCounts",
	}, func(m *mutant) once.Store {
		m.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
			if r, err := m.Record(ctx, c.Identity); err == nil && r.State == once.Completed {
				c.Fingerprint = r.Fingerprint
			}
			return m.Store.Claim(ctx, c)
		}
		return m
	}},
	{"a fingerprint that a release forgets", []string{
		"Mismatch/Released", "Retention/Released",
	}, func(m *mutant) once.Store {
		m.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
			if r, err := m.Record(ctx, c.Identity); err == nil && r.State == once.Released {
				c.Fingerprint = r.Fingerprint
			}
			return m.Store.Claim(ctx, c)
		}
		return m
	}},
	{"what is expired is replayed", []string{
		"Retention/B08_JudgedByTheClock", "Race/Expired", "Mismatch/AfterTheRetention",
	}, func(m *mutant) once.Store {
		m.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
			c.Retention *= 100
			return m.Store.Claim(ctx, c)
		}
		return m
	}},
	{"remembered too short", []string{
		"Retention/NotShorter", "Retention/Released", "Retention/ExpiresAt", "Random/AgainstAModel",
	}, func(m *mutant) once.Store {
		m.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
			c.Retention = c.Retention * 3 / 4
			return m.Store.Claim(ctx, c)
		}
		return m
	}},
	{"a repeat doesn't prolong", []string{
		"Retention/FromTheLastArrival", "Retention/ManyArrivals", "Sweep/AfterARepeat",
	}, func(m *mutant) once.Store {
		m.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
			r, err := m.Record(ctx, c.Identity)
			if err == nil && r.State == once.Completed && r.Fingerprint == c.Fingerprint {
				return once.Grant{}, &once.ReplayError{Outcome: r.Outcome}
			}
			return m.Store.Claim(ctx, c)
		}
		return m
	}},
	{"a changed request prolongs", []string{
		"Mismatch/ProlongsNothing",
	}, func(m *mutant) once.Store {
		m.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
			g, err := m.Store.Claim(ctx, c)
			if r, e := m.Record(ctx, c.Identity); e == nil && errors.Is(err, once.ErrMismatch) &&
				r.State == once.Completed {
				c.Fingerprint = r.Fingerprint
				_, _ = m.Store.Claim(ctx, c)
			}
			return g, err
		}
		return m
	}},
	{"a fence that starts anew", []string{
		"Fence/OverReleases", "Fence/OverTakeovers", "Claim/Released",
	}, func(m *mutant) once.Store { return renumbered(m, func(once.Grant) int64 { return 1 }) }},
	{"a fence that counts attempts of a record", []string{
		"Fence/OverExpiry", "Fence/OverSweeps",
	}, func(m *mutant) once.Store {
		return renumbered(m, func(g once.Grant) int64 { return int64(g.Attempt) })
	}},
	{"hold is ignored", []string{
		"Unknown/K11_HoldIsHeld", "Unknown/LapsedUnderHold", "Unknown/TheLaterClaimHolds",
	}, func(m *mutant) once.Store {
		m.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
			c.OnUnknown = once.Retry
			return m.Store.Claim(ctx, c)
		}
		return m
	}},
	{"only the first claim can hold", []string{
		"Unknown/TheLaterClaimHolds", "Unknown/TheLaterClaimHoldsLapsed", "Random/AgainstAModel",
	}, func(m *mutant) once.Store {
		m.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
			if _, err := m.Record(ctx, c.Identity); err == nil {
				c.OnUnknown = once.Retry
			}
			return m.Store.Claim(ctx, c)
		}
		return m
	}},
	{"an owner isn't known again", []string{
		"Claim/SameOwnerSameGrant", "Race/SameOwner", "Random/AgainstAModel",
	}, func(m *mutant) once.Store {
		m.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
			if g, _ := m.latest(c.Identity); g.Owner == c.Owner {
				c.Owner = once.NewOwner()
			}
			return m.Store.Claim(ctx, c)
		}
		return m
	}},
	{"a takeover isn't told", []string{
		"Claim/K08_LapsedIsTakenOver", "Claim/SameOwnerOfATakeover", "Race/Lapsed",
	}, func(m *mutant) once.Store {
		m.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
			g, err := m.Store.Claim(ctx, c)
			g.Takeover = false
			return g, err
		}
		return m
	}},
	{"half an identity", []string{"Identity/EachByteCounts", "Identity/SharedPublicID"},
		func(m *mutant) once.Store {
			m.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
				clear(c.Identity[16:])
				return m.Store.Claim(ctx, c)
			}
			return m
		}},
	{"outcomes are text", []string{"Outcome/EveryByte", "Outcome/OneByte"},
		func(m *mutant) once.Store {
			m.complete = func(ctx context.Context, g once.Grant, o once.Outcome) error {
				o.Data = []byte(strings.ToValidUTF8(string(o.Data), "�"))
				return m.Store.Complete(ctx, g, o)
			}
			return m
		}},
	{"too large an outcome is dropped", []string{"Outcome/ResultTooBig_R05"},
		func(m *mutant) once.Store {
			m.complete = func(ctx context.Context, g once.Grant, o once.Outcome) error {
				err := m.Store.Complete(ctx, g, o)
				if errors.Is(err, once.ErrTooLarge) {
					return m.Store.Complete(ctx, g, once.Outcome{Kind: once.Tombstone})
				}
				return err
			}
			return m
		}},
	{"too large an outcome frees the key", []string{"Outcome/ResultTooBig_R05"},
		func(m *mutant) once.Store {
			m.complete = func(ctx context.Context, g once.Grant, o once.Outcome) error {
				err := m.Store.Complete(ctx, g, o)
				if errors.Is(err, once.ErrTooLarge) {
					_ = m.Store.Release(ctx, g)
				}
				return err
			}
			return m
		}},
	{"the caller's data is kept", []string{"Outcome/CallersSlice"}, func(m *mutant) once.Store {
		m.complete = func(ctx context.Context, g once.Grant, o once.Outcome) error {
			m.mu.Lock()
			m.data[g.Identity] = o
			m.mu.Unlock()
			return m.Store.Complete(ctx, g, o)
		}
		m.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
			g, err := m.Store.Claim(ctx, c)
			var replay *once.ReplayError
			if errors.As(err, &replay) {
				m.mu.Lock()
				defer m.mu.Unlock()
				return g, &once.ReplayError{Outcome: m.data[c.Identity]}
			}
			return g, err
		}
		return m
	}},
	{"a repeated completion is an error", []string{
		"Settle/CompleteTwice", "Context/EndsUnderLoad",
	}, func(m *mutant) once.Store {
		m.complete = func(ctx context.Context, g once.Grant, o once.Outcome) error {
			if r, err := m.Record(ctx, g.Identity); err == nil && r.State == once.Completed {
				return once.ErrLeaseLost
			}
			err := m.Store.Complete(context.WithoutCancel(ctx), g, o)
			if ctx.Err() != nil {
				return errors.Join(once.ErrUnavailable, ctx.Err())
			}
			return err
		}
		return m
	}},
	{"the last outcome counts", []string{"Settle/OtherOutcomeLater"}, func(m *mutant) once.Store {
		m.complete = func(ctx context.Context, g once.Grant, o once.Outcome) error {
			if r, err := m.Record(ctx, g.Identity); err == nil && r.State == once.Completed {
				_ = m.Store.Resolve(ctx, g.Identity, once.Resolution{Decision: once.ReleaseDone})
				_, c := m.latest(g.Identity)
				if g, err = m.Claim(ctx, c); err != nil {
					return err
				}
			}
			return m.Store.Complete(ctx, g, o)
		}
		return m
	}},
	{"a late completion is refused", []string{
		"Settle/LateCompletion", "Settle/LateCompletionOfHeld", "Random/AgainstAModel",
	}, func(m *mutant) once.Store {
		m.complete = func(ctx context.Context, g once.Grant, o once.Outcome) error {
			if r, err := m.Record(ctx, g.Identity); err == nil && r.Fence == g.Fence &&
				(r.State == once.Lost || r.State == once.Held) {
				return once.ErrLeaseLost
			}
			return m.Store.Complete(ctx, g, o)
		}
		return m
	}},
	{"a caller who has left takes something", []string{"Context/EndedBeforeTheClaim"},
		func(m *mutant) once.Store {
			m.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
				g, err := m.Store.Claim(context.WithoutCancel(ctx), c)
				if ctx.Err() != nil {
					return once.Grant{}, errors.Join(once.ErrUnavailable, ctx.Err())
				}
				return g, err
			}
			return m
		}},
	{"a decision about whatever is there", []string{"Resolve/Fence"}, func(m *mutant) once.Store {
		m.resolve = func(ctx context.Context, id once.Identity, r once.Resolution) error {
			r.Fence = 0
			return m.Store.Resolve(ctx, id, r)
		}
		return m
	}},
	{"a decision that leaves the owner in", []string{"Stale/RunAgain", "Stale/AnswerWith"},
		func(m *mutant) once.Store {
			m.complete = func(ctx context.Context, g once.Grant, o once.Outcome) error {
				if err := m.Store.Complete(ctx, g, o); !errors.Is(err, once.ErrLeaseLost) {
					return err
				}
				if r, err := m.Record(ctx, g.Identity); err == nil && r.Fence == g.Fence+1 {
					return nil
				}
				return once.ErrLeaseLost
			}
			return m
		}},
	{"pages that lose their last record", []string{"Browse/Pages"}, func(m *mutant) once.Store {
		m.records = func(ctx context.Context, f once.RecordFilter) (once.RecordPage, error) {
			page, err := m.Store.Records(ctx, f)
			if n := len(page.Records); page.Next != "" && n > 1 {
				page.Records = page.Records[:n-1]
			}
			return page, err
		}
		return m
	}},
	{"a filter that long scopes never meet", []string{"Browse/ByScope"},
		func(m *mutant) once.Store {
			m.records = func(ctx context.Context, f once.RecordFilter) (once.RecordPage, error) {
				for _, part := range f.Scope {
					if len(part) > once.MaxNoteText {
						return once.RecordPage{}, nil
					}
				}
				return m.Store.Records(ctx, f)
			}
			return m
		}},
	{"a note that is cut short", []string{"Note/IsCut"}, func(m *mutant) once.Store {
		m.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
			c.Note.Request = c.Note.Request[:min(10, len(c.Note.Request))]
			return m.Store.Claim(ctx, c)
		}
		return m
	}},
}

// renumbered shows other fences than it keeps.
func renumbered(m *mutant, number func(once.Grant) int64) once.Store {
	inner := map[[2]any]once.Grant{}
	m.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
		g, err := m.Store.Claim(ctx, c)
		if err == nil {
			inner[[2]any{g.Identity, g.Owner}] = g
			g.Fence = number(g)
		}
		return g, err
	}
	m.complete = func(ctx context.Context, g once.Grant, o once.Outcome) error {
		return m.Store.Complete(ctx, inner[[2]any{g.Identity, g.Owner}], o)
	}
	m.release = func(ctx context.Context, g once.Grant) error {
		return m.Store.Release(ctx, inner[[2]any{g.Identity, g.Owner}])
	}
	return m
}
