// Package linear checks that a store of records is linearizable: that what many got at the same
// time could have come from one after the other. It is for tests of stores.
//
// It runs claims, completions, releases, renewals and decisions from several goroutines on a few
// identities, with leases that don't end, notes when each began and ended and what it was told, and
// lets porcupine look for an order in which a store that does one thing at a time answers the same.
package linear

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/oncekit/once"
)

// SeedEnv is the environment variable that repeats the choice of operations by its seed. How they
// overlap is the machine's choice each time.
const SeedEnv = "ONCE_SEED"

// Options bound a check. The zero value works.
type Options struct {
	// Rounds, each on identities of its own. Default 6.
	Rounds int
	// Workers are the goroutines of a round. Default 8.
	Workers int
	// Operations of a worker in a round. Default 15.
	Operations int
	// Identities of a round. Default 3.
	Identities int
	// Search bounds porcupine's search in time. Default 10s.
	Search time.Duration
}

func (o Options) withDefaults() Options {
	set := func(n *int, value int) {
		if *n <= 0 {
			*n = value
		}
	}
	set(&o.Rounds, 6)
	set(&o.Workers, 8)
	set(&o.Operations, 15)
	set(&o.Identities, 3)
	if o.Search <= 0 {
		o.Search = 10 * time.Second
	}
	return o
}

// Check runs operations on a store and reports a history that no order explains. An operation that
// the store doesn't answer ends the test.
func Check(tb testing.TB, store once.Store, opts Options) {
	tb.Helper()
	opts = opts.withDefaults()
	seed, err := strconv.ParseUint(os.Getenv(SeedEnv), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	history := run(tb.Context(), store, opts, seed)
	for _, op := range history {
		if out := op.Output.(output); out.says == "" {
			tb.Fatalf("%s: no answer: %v (%s=%d)", op.Input.(input).op, out.err, SeedEnv, seed)
		}
	}
	for _, part := range partition(history) {
		switch porcupine.CheckOperationsTimeout(model, part, opts.Search) {
		case porcupine.Ok:
		case porcupine.Illegal:
			tb.Fatalf("no order explains this history (%s=%d):\n%s", SeedEnv, seed, describe(part))
		default:
			tb.Fatalf("%d operations: not decided within %s", len(part), opts.Search)
		}
	}
}

// describe lists operations by their beginning.
func describe(history []porcupine.Operation) string {
	history = slices.Clone(history)
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var b strings.Builder
	for _, op := range history {
		in, out := op.Input.(input), op.Output.(output)
		fmt.Fprintf(&b, "%8d–%-8d worker %d: %s owner %.6s fence %d: %s, fence %d attempt %d\n",
			op.Call/1000, op.Return/1000, op.ClientId, in.op, in.owner, in.fence, out.says,
			out.grant.Fence, out.grant.Attempt)
	}
	return b.String()
}

// recorder collects a history.
type recorder struct {
	store once.Store
	began time.Time

	mu      sync.Mutex
	history []porcupine.Operation
	grants  [][]once.Grant // by identity, the latest last
	claims  [][]once.Claim
}

func run(ctx context.Context, store once.Store, o Options, seed uint64) []porcupine.Operation {
	all := o.Rounds * o.Identities
	r := &recorder{
		store: store, began: time.Now(),
		grants: make([][]once.Grant, all), claims: make([][]once.Claim, all),
	}
	ids := make([]once.Identity, all)
	random := rand.NewChaCha8([32]byte([]byte(fmt.Sprintf("%032d", seed))))
	for i := range ids {
		_, _ = random.Read(ids[i][:]) // never fails
	}
	for round := range o.Rounds {
		var wg sync.WaitGroup
		start := make(chan struct{})
		for worker := range o.Workers {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(seed, uint64(round*o.Workers+worker)))
				<-start
				for range o.Operations {
					runtime.Gosched() // so that workers overlap where a step takes no time
					i := round*o.Identities + rnd.IntN(o.Identities)
					r.one(ctx, rnd, worker, i, ids[i])
				}
			})
		}
		close(start)
		wg.Wait()
	}
	return r.history
}

// one does one operation. Grants are used by everybody, so many of them are stale.
func (r *recorder) one(ctx context.Context, rnd *rand.Rand, worker, i int, id once.Identity) {
	g, c, ok := r.before(rnd, i)
	n := rnd.IntN(100)
	if !ok || n < 40 {
		n = 0
		c = once.Claim{
			Identity: id, Fingerprint: once.FingerprintRaw([]byte{byte(rnd.IntN(6) / 5)}),
			Owner: once.NewOwner(), Lease: time.Hour, Retention: 24 * time.Hour,
			OnUnknown: once.OnUnknown(rnd.IntN(5) / 4),
		}
	}
	in := input{
		identity: i, owner: g.Owner, fence: g.Fence, data: strconv.Itoa(rnd.IntN(1000)),
	}
	switch {
	case n < 45: // a new one, or one of before again
		in.op, in.owner, in.fence = opClaim, c.Owner, 0
		in.fingerprint, in.hold = c.Fingerprint, c.OnUnknown == once.Hold
		r.do(worker, in, func() (once.Grant, error) {
			g, err := r.store.Claim(ctx, c)
			if err == nil {
				r.remember(i, g, c)
			}
			return g, err
		})
	case n < 60:
		in.op = opComplete
		r.do(worker, in, func() (once.Grant, error) {
			return g, r.store.Complete(ctx, g, once.Outcome{Data: []byte(in.data)})
		})
	case n < 68:
		in.op = opLose
		r.do(worker, in, func() (once.Grant, error) {
			return g, r.store.Complete(ctx, g, once.Outcome{Kind: once.Unknown})
		})
	case n < 84:
		in.op = opRelease
		r.do(worker, in, func() (once.Grant, error) { return g, r.store.Release(ctx, g) })
	case n < 90:
		r.renew(ctx, worker, in, g)
	default:
		r.decide(ctx, worker, in, id, once.Decision(1+rnd.IntN(3)))
	}
}

func (r *recorder) renew(ctx context.Context, worker int, in input, g once.Grant) {
	renewer, ok := r.store.(once.Renewer)
	if !ok {
		return
	}
	in.op = opRenew
	r.do(worker, in, func() (once.Grant, error) { return g, renewer.Renew(ctx, g, time.Hour) })
}

func (r *recorder) decide(
	ctx context.Context, worker int, in input, id once.Identity, d once.Decision,
) {
	resolver, ok := r.store.(once.Resolver)
	if !ok {
		return
	}
	in.op = map[once.Decision]operation{
		once.RunAgain: opRunAgain, once.AnswerWith: opAnswer, once.ReleaseDone: opReleaseDone,
	}[d]
	res := once.Resolution{Decision: d, Outcome: once.Outcome{Data: []byte(in.data)}}
	r.do(worker, in, func() (once.Grant, error) {
		return once.Grant{}, resolver.Resolve(ctx, id, res)
	})
}

// before returns a grant of before and the claim that got it, mostly the latest.
func (r *recorder) before(rnd *rand.Rand, i int) (once.Grant, once.Claim, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.grants[i])
	if n == 0 {
		return once.Grant{}, once.Claim{}, false
	}
	k := n - 1
	if rnd.IntN(4) == 0 {
		k = rnd.IntN(n)
	}
	return r.grants[i][k], r.claims[i][k], true
}

func (r *recorder) remember(i int, g once.Grant, c once.Claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grants[i], r.claims[i] = append(r.grants[i], g), append(r.claims[i], c)
}

// do makes a call and notes it.
func (r *recorder) do(worker int, in input, call func() (once.Grant, error)) {
	begin := time.Since(r.began)
	g, err := call()
	end := time.Since(r.began)
	out := output{err: err, grant: g}
	out.says, out.data = says(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, porcupine.Operation{
		ClientId: worker, Input: in, Call: int64(begin), Output: out, Return: int64(end),
	})
}

// says puts an answer in a word; it is empty if it is none.
func says(err error) (word, data string) {
	var replay *once.ReplayError
	if errors.As(err, &replay) {
		return saysReplay, string(replay.Outcome.Data)
	}
	for _, known := range []struct {
		err  error
		word string
	}{
		{once.ErrMismatch, saysMismatch}, {once.ErrInFlight, saysInFlight},
		{once.ErrUnknown, saysHeld}, {once.ErrLeaseLost, saysLeaseLost},
		{once.ErrNotFound, saysNotFound}, {once.ErrState, saysState},
	} {
		if errors.Is(err, known.err) {
			return known.word, ""
		}
	}
	if err == nil {
		return saysDone, ""
	}
	return "", ""
}
