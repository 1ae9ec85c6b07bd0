package oncetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncekit/once"
)

func contextCases() []Case {
	return []Case{
		{Name: "Context/EndedBeforeTheClaim", Promise: "a claim whose caller has left takes " +
			"nothing", run: endedClaim},
		{Name: "Context/EndedBeforeAStep", Promise: "a step whose caller has left does nothing",
			run: endedStep},
		{Name: "Context/EndedBeforeADecision", Promise: "a decision whose caller has left does " +
			"nothing", needs: resolves, run: endedDecision},
		{Name: "Context/EndedBeforeALook", Promise: "a look whose caller has left is a fault, " +
			"not an empty answer", needs: browses, run: endedLook},
		{Name: "Context/EndsUnderLoad", Promise: "a step that was cut off happened or not, and " +
			"can be repeated", run: endsUnderLoad},
	}
}

// ended is a context that is over.
func (k *kit) ended() context.Context {
	ctx, cancel := context.WithCancel(k.ctx)
	cancel()
	return ctx
}

func endedClaim(k *kit) {
	c := claim("a")
	_, err := k.s.Claim(k.ended(), c)
	k.wantErr("claim", err, once.ErrUnavailable)
	g := k.take(again(c))
	if g.Attempt != 1 {
		k.Errorf("granted %+v", g)
	}
	_, err = k.s.Claim(k.ended(), claim("a"))
	k.wantErr("claim of what is in flight", err, once.ErrUnavailable)
}

func endedStep(k *kit) {
	g := k.take(claim("a"))
	ctx := k.ended()
	k.unchanged("steps without a caller", g.Identity, func() {
		k.wantErr("complete", k.s.Complete(ctx, g, kept("no")), once.ErrUnavailable)
		k.wantErr("release", k.s.Release(ctx, g), once.ErrUnavailable)
		if r, ok := k.s.(once.Renewer); ok {
			k.wantErr("renew", r.Renew(ctx, g, time.Second), once.ErrUnavailable)
		}
	})
	k.wantInFlight(claim("a"))
	k.complete(g, kept("yes"))
	k.wantReplay(claim("a"), kept("yes"))
}

func endedDecision(k *kit) {
	g := k.take(holding(claim("a")))
	k.lose(g)
	res := once.Resolution{Decision: once.RunAgain}
	k.unchanged("a decision without a caller", g.Identity, func() {
		err := k.s.(once.Resolver).Resolve(k.ended(), g.Identity, res)
		k.wantErr("resolve", err, once.ErrUnavailable)
	})
	k.wantHeld(claim("a"))
}

func endedLook(k *kit) {
	k.done(claim("a"), "done")
	b := k.s.(once.Browser)
	_, err := b.Record(k.ended(), identity("a"))
	k.wantErr("record", err, once.ErrUnavailable)
	_, err = b.Records(k.ended(), once.RecordFilter{})
	k.wantErr("records", err, once.ErrUnavailable)
}

// endsUnderLoad cuts steps off at moments spread over what they take, and repeats each until it has
// an answer. Each identity then has its outcome, given by its only owner.
func endsUnderLoad(k *kit) {
	const workers, each = 8, 25
	together(workers, func(w int) {
		for i := range each {
			name := fmt.Sprint(w, "/", i)
			c := claim(name)
			var g once.Grant
			wait := time.Duration(i*i) * time.Microsecond
			err := k.insist(wait, func(ctx context.Context) (err error) {
				g, err = k.s.Claim(ctx, c)
				return err
			})
			if err == nil {
				err = k.insist(wait, func(ctx context.Context) error {
					return k.s.Complete(ctx, g, kept(name))
				})
			}
			if err != nil || g.Attempt != 1 {
				k.Errorf("%s: %+v, %v", name, g, err)
				return
			}
		}
	})
	for w := range workers {
		for i := range each {
			name := fmt.Sprint(w, "/", i)
			k.wantReplay(claim(name), kept(name))
		}
	}
}

// insist repeats a step until the store answers: each time with more of it, the last time with all.
func (k *kit) insist(wait time.Duration, step func(context.Context) error) error {
	for range 5 {
		ctx, cancel := context.WithTimeout(k.ctx, wait)
		err := step(ctx)
		cancel()
		if !errors.Is(err, once.ErrUnavailable) {
			return err
		}
		wait *= 3
	}
	return step(k.ctx)
}
