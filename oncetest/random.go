package oncetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/oncekit/once"
)

// SeedEnv is the environment variable that repeats a random walk by its seed.
const SeedEnv = "ONCE_SEED"

// Bounds of a random walk.
const (
	walkSeeds      = 2
	walkOperations = 400
	walkIdentities = 4
	walkGrants     = 12 // remembered, the stale ones too
	walkShown      = 40 // operations shown when it fails
)

func randomCases() []Case {
	return []Case{
		{Name: "Random/AgainstAModel", Promise: "under any sequence of operations the store " +
			"answers as a small model does", run: againstModel},
	}
}

func againstModel(k *kit) {
	first, err := strconv.ParseUint(os.Getenv(SeedEnv), 10, 64)
	if err != nil {
		first = uint64(time.Now().UnixNano())
	}
	for i := range walkSeeds {
		w := &walk{
			kit: k, r: rand.New(rand.NewPCG(first+uint64(i), 0)), prefix: fmt.Sprint(i, "/"),
			m: &model{records: map[int]*modelRecord{}},
		}
		for n := range walkOperations {
			if problem := w.one(); problem != "" {
				k.Fatalf("operation %d: %s\nrepeat with %s=%d. The last operations:\n%s",
					n, problem, SeedEnv, first, strings.Join(w.log, "\n"))
			}
		}
	}
}

// walk is one random run.
type walk struct {
	*kit
	r      *rand.Rand
	m      *model
	prefix string
	fences [walkIdentities]int64 // the highest of each identity
	grants []walkGrant
	log    []string
}

type walkGrant struct {
	id    int
	claim once.Claim
	grant once.Grant
}

func (w *walk) identity(id int) once.Identity { return identity(fmt.Sprint(w.prefix, id)) }

// one does one operation to the store and the model, and tells what differs.
func (w *walk) one() string {
	id := w.r.IntN(walkIdentities)
	switch n := w.r.IntN(100); {
	case n < 35 || len(w.grants) == 0:
		return w.claim(id)
	case n < 40:
		return w.claimAgain()
	case n < 60:
		return w.complete()
	case n < 70:
		return w.release()
	case n < 75:
		return w.renew()
	case n < 81:
		return w.decide(id)
	case n < 84:
		return w.sweep()
	case n < 92:
		return w.advance()
	}
	return w.show(id)
}

// compare tells the two answers apart and remembers the operation.
func (w *walk) compare(operation, want string, err error) string {
	got := says(err)
	w.note("%s: %s", operation, got)
	if got != want {
		return fmt.Sprintf("%s: the store says %s, the model %s", operation, got, want)
	}
	return ""
}

func (w *walk) note(format string, args ...any) {
	if len(w.log) == walkShown {
		w.log = w.log[1:]
	}
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

// says puts an answer of a store in words.
func says(err error) string {
	var replay *once.ReplayError
	switch {
	case err == nil:
		return saysDone
	case errors.As(err, &replay):
		return saysReplay(replay.Outcome)
	case errors.Is(err, once.ErrMismatch):
		return saysMismatch
	case errors.Is(err, once.ErrInFlight):
		return saysInFlight
	case errors.Is(err, once.ErrUnknown):
		return saysHeld
	case errors.Is(err, once.ErrLeaseLost):
		return saysLeaseLost
	case errors.Is(err, once.ErrNotFound):
		return saysNotFound
	case errors.Is(err, once.ErrState):
		return saysState
	}
	return err.Error()
}

func (w *walk) claim(id int) string {
	c := claim(fmt.Sprint(w.prefix, id))
	isChanged := w.r.IntN(6) == 0
	if isChanged {
		c.Fingerprint = other
	}
	if w.r.IntN(4) == 0 {
		c.OnUnknown = once.Hold
	}
	c.Lease = []time.Duration{10 * time.Minute, 40 * time.Minute, 5 * time.Hour}[w.r.IntN(3)]
	c.Retention = []time.Duration{32 * time.Hour, 64 * time.Hour}[w.r.IntN(2)]
	want := w.m.claim(id, isChanged, c)
	g, err := w.s.Claim(w.ctx, c)
	if want != saysGranted && want != saysTaken {
		return w.compare(fmt.Sprintf("claim %d, changed %v, %v", id, isChanged, c.OnUnknown),
			want, err)
	}
	w.note("claim %d, changed %v, %v, %s: %s, %+v, %v", id, isChanged, c.OnUnknown, c.Lease,
		want, g, err)
	r := w.m.records[id]
	switch {
	case err != nil:
		return fmt.Sprintf("claim %d: the store says %s, the model %s", id, says(err), want)
	case g.Owner != c.Owner || g.Identity != c.Identity || g.Attempt != r.attempt:
		return fmt.Sprintf("granted %+v, the model is at attempt %d", g, r.attempt)
	case g.Fence <= w.fences[id]: // of records that were forgotten too
		return fmt.Sprintf("fence %d after %d", g.Fence, w.fences[id])
	case want == saysTaken && !g.Takeover || !r.everLost && g.Takeover:
		return fmt.Sprintf("takeover %v, the model says %s", g.Takeover, want)
	}
	r.fence, w.fences[id] = g.Fence, g.Fence
	if len(w.grants) == walkGrants {
		w.grants = w.grants[1:]
	}
	w.grants = append(w.grants, walkGrant{id, c, g})
	return ""
}

// any returns a grant of before, mostly one of the last.
func (w *walk) any() walkGrant {
	n := len(w.grants)
	if w.r.IntN(3) > 0 {
		return w.grants[n-1-w.r.IntN(min(n, walkIdentities))]
	}
	return w.grants[w.r.IntN(n)]
}

// runs reports whether a grant's lease runs.
func (w *walk) runs(g walkGrant) bool {
	r := w.m.owned(g.id, g.grant)
	return r != nil && r.state == modelInFlight && !r.lost(w.m.now)
}

// claimAgain repeats a claim while its owner has the record.
func (w *walk) claimAgain() string {
	g := w.any()
	if !w.runs(g) {
		return ""
	}
	got, err := w.s.Claim(w.ctx, g.claim)
	w.note("claim %d again: %+v, %v", g.id, got, err)
	if err != nil || got != g.grant {
		return fmt.Sprintf("claimed again %+v, %v, first %+v", got, err, g.grant)
	}
	return ""
}

func (w *walk) complete() string {
	g := w.any()
	o := []once.Outcome{
		{Kind: once.Unknown}, {Kind: once.Tombstone}, kept(fmt.Sprint(w.r.IntN(1000))), kept(""),
	}[w.r.IntN(4)]
	want := w.m.complete(g.id, g.grant, o)
	return w.compare(fmt.Sprintf("complete %d, fence %d, kind %d", g.id, g.grant.Fence, o.Kind),
		want, w.s.Complete(w.ctx, g.grant, o))
}

func (w *walk) release() string {
	g := w.any()
	want := w.m.release(g.id, g.grant)
	return w.compare(fmt.Sprintf("release %d, fence %d", g.id, g.grant.Fence), want,
		w.s.Release(w.ctx, g.grant))
}

func (w *walk) renew() string {
	g := w.any()
	renewer, ok := w.s.(once.Renewer)
	r := w.m.owned(g.id, g.grant)
	if !ok || r != nil && r.state == modelInFlight && r.lost(w.m.now) {
		return ""
	}
	lease := time.Duration(1+w.r.IntN(60)) * 10 * time.Minute
	want := w.m.renew(g.id, g.grant, lease)
	return w.compare(fmt.Sprintf("renew %d, fence %d, %s", g.id, g.grant.Fence, lease), want,
		renewer.Renew(w.ctx, g.grant, lease))
}

func (w *walk) decide(id int) string {
	resolver, ok := w.s.(once.Resolver)
	if !ok {
		return ""
	}
	res := once.Resolution{Decision: once.Decision(1 + w.r.IntN(3)), Outcome: kept("by a person")}
	if w.r.IntN(4) == 0 {
		res.Fence = 12345 // nobody's
	}
	want := w.m.resolve(id, res)
	return w.compare(fmt.Sprintf("decide %d of %d, fence %d", res.Decision, id, res.Fence), want,
		resolver.Resolve(w.ctx, w.identity(id), res))
}

func (w *walk) sweep() string {
	sweeper, ok := w.s.(once.Sweeper)
	if !ok {
		return ""
	}
	n, err := sweeper.Sweep(w.ctx, 1+w.r.IntN(3))
	w.note("sweep: %d, %v", n, err)
	if err != nil {
		return fmt.Sprintf("sweep: %v", err)
	}
	return ""
}

// advance moves the clock on, by a little or by a lot, to where it is clear what has ended.
func (w *walk) advance() string {
	if w.h.Advance == nil {
		return ""
	}
	steps := []time.Duration{3 * time.Minute, 20 * time.Minute, 3 * time.Hour, 30 * time.Hour}
	d := steps[w.r.IntN(len(steps))]
	before := w.m.now
	for w.m.now += d; w.m.unclear(); w.m.now += 7 * time.Minute {
	}
	for id, r := range w.m.records {
		if !r.forgettable(w.m.now) {
			continue
		}
		g := once.Grant{Identity: w.identity(id), Owner: r.owner, Fence: r.fence}
		unknown := once.Outcome{Kind: once.Unknown}
		want := w.m.complete(id, g, unknown)
		err := w.s.Complete(w.ctx, g, unknown)
		if problem := w.compare(fmt.Sprintf("lose %d", id), want, err); problem != "" {
			return problem
		}
	}
	w.h.Advance(w.m.now - before)
	w.note("%s later", w.m.now-before)
	return ""
}

func (w *walk) show(id int) string {
	browser, ok := w.s.(once.Browser)
	if !ok {
		return ""
	}
	want := w.m.state(id)
	got, err := browser.Record(w.ctx, w.identity(id))
	w.note("look at %d: %s, %v", id, got.State, err)
	if want == "" {
		if !errors.Is(err, once.ErrNotFound) {
			return fmt.Sprintf("%d is %s, %v, the model has none", id, got.State, err)
		}
		return ""
	}
	r := w.m.records[id]
	if err != nil || got.State != want || got.Attempt != r.attempt {
		return fmt.Sprintf("%d is %s, attempt %d, %v; the model says %s, attempt %d",
			id, got.State, got.Attempt, err, want, r.attempt)
	}
	if want == once.Completed && (got.Outcome.Kind != r.outcome.Kind ||
		string(got.Outcome.Data) != string(r.outcome.Data)) {
		return fmt.Sprintf("%d has the outcome %+v, the model %+v", id, got.Outcome, r.outcome)
	}
	return ""
}
