package oncetest

import (
	"bytes"
	"errors"
	"strings"

	"github.com/oncekit/once"
)

func outcomeCases() []Case {
	return []Case{
		{Name: "Outcome/EveryByte", Promise: "an outcome is kept byte for byte", run: everyByte},
		{Name: "Outcome/Empty", Promise: "no data and empty data are an outcome of length 0",
			run: emptyOutcome},
		{Name: "Outcome/OneByte", Promise: "one byte of any value is an outcome", run: oneByte},
		{Name: "Outcome/Tombstone", Promise: "a tombstone is replayed as one, without data",
			run: tombstone},
		{Name: "Outcome/TombstoneWithData", Promise: "a tombstone keeps what can be told",
			run: tombstoneWithData},
		{Name: "Outcome/ResultTooBig_R05", Promise: "an outcome above the limit changes " +
			"nothing, and a tombstone in its place is never run again",
			needs: limits, run: tooLarge},
		{Name: "Outcome/ExactlyTheLimit", Promise: "the largest outcome is kept whole",
			needs: limits, run: exactlyLimit},
		{Name: "Outcome/CallersSlice", Promise: "what the caller does with its data afterwards " +
			"is its own affair", run: callersSlice},
		{Name: "Outcome/ReadersSlice", Promise: "what a reader does with the data it got is its " +
			"own affair", run: readersSlice},
		{Name: "Outcome/SizesApart", Promise: "outcomes of many sizes stay apart", run: sizes},
	}
}

// pattern is data of a length in which every byte value occurs.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8*7)
	}
	return b
}

func everyByte(k *kit) {
	all := make([]byte, 0, 3*256)
	for i := range 256 {
		all = append(all, byte(i))
	}
	all = append(all, all...)
	g := k.take(claim("a"))
	k.complete(g, once.Outcome{Data: all})
	k.wantReplay(claim("a"), once.Outcome{Data: all})
}

func emptyOutcome(k *kit) {
	for name, data := range map[string][]byte{"nil": nil, "empty": {}} {
		g := k.take(claim(name))
		k.complete(g, once.Outcome{Data: data})
		k.wantReplay(claim(name), once.Outcome{})
		k.complete(g, once.Outcome{Data: data})
	}
}

func oneByte(k *kit) {
	for _, b := range []string{"\x00", "\x01", "0", "\n", "\x7f", "\x80", "\xff"} {
		k.done(claim(b), b)
		k.wantReplay(claim(b), kept(b))
	}
}

func tombstone(k *kit) {
	g := k.take(claim("a"))
	k.complete(g, once.Outcome{Kind: once.Tombstone})
	k.wantReplay(claim("a"), once.Outcome{Kind: once.Tombstone})
	k.wantState(g.Identity, once.Completed)
	k.wantOut(g, "complete", "complete unknown")
}

func tombstoneWithData(k *kit) {
	o := once.Outcome{Kind: once.Tombstone, Data: []byte("201")}
	k.complete(k.take(claim("a")), o)
	k.wantReplay(claim("a"), o)
}

func tooLarge(k *kit) {
	g := k.take(claim("a"))
	k.unchanged("too large an outcome", g.Identity, func() {
		err := k.s.Complete(k.ctx, g, once.Outcome{Data: make([]byte, k.h.MaxOutcome+1)})
		k.wantErr("one byte more than the limit", err, once.ErrTooLarge)
	})
	k.wantInFlight(claim("a"))
	k.complete(g, once.Outcome{Kind: once.Tombstone})
	k.wantReplay(claim("a"), once.Outcome{Kind: once.Tombstone})
}

func exactlyLimit(k *kit) {
	o := once.Outcome{Data: pattern(k.h.MaxOutcome)}
	k.complete(k.take(claim("a")), o)
	k.wantReplay(claim("a"), o)
}

func callersSlice(k *kit) {
	data := []byte("as it was")
	g := k.take(claim("a"))
	k.complete(g, once.Outcome{Data: data})
	copy(data, "changed!!")
	k.wantReplay(claim("a"), kept("as it was"))
}

func readersSlice(k *kit) {
	k.done(claim("a"), "as it was")
	k.done(claim("b"), "the next one")
	for range 3 {
		var replay *once.ReplayError
		if err := k.refused(claim("a")); !errors.As(err, &replay) {
			k.Fatal(err)
		}
		copy(replay.Outcome.Data, "changed!!")
		_ = append(replay.Outcome.Data, "and more than that"...)
		if b, ok := k.s.(once.Browser); ok {
			r, err := b.Record(k.ctx, identity("a"))
			if err != nil {
				k.Fatal(err)
			}
			copy(r.Outcome.Data, "changed!!")
		}
		k.wantReplay(claim("a"), kept("as it was"))
		k.wantReplay(claim("b"), kept("the next one"))
	}
}

func sizes(k *kit) {
	limit := k.h.MaxOutcome
	if limit == 0 {
		limit = 1 << 20
	}
	lengths := []int{1, 2, 63, 64, 255, 256, 4095, 4096, 4097, 65535, 65536, 200_000}
	name := func(n int) string { return strings.Repeat("x", n%100) + string(rune('a'+n%26)) }
	for i, n := range lengths {
		k.complete(k.take(claim(name(i))), once.Outcome{Data: pattern(min(n, limit))})
	}
	for i, n := range lengths {
		k.wantReplay(claim(name(i)), once.Outcome{Data: bytes.Clone(pattern(min(n, limit)))})
	}
}
