package oncetest

import (
	"github.com/oncekit/once"
)

func restartCases() []Case {
	return []Case{
		{Name: "Restart/Remembers", Promise: "what was acknowledged is there after a restart",
			needs: reopens, run: restartRemembers},
		{Name: "Restart/K08_InFlight", Promise: "an attempt of a process that is gone is taken " +
			"over when its lease ends, if not earlier, and its owner is out then",
			needs: reopens,
			run:   restartInFlight},
		{Name: "Restart/HeldStays", Promise: "what is held waits for a person over a restart",
			needs: reopens, run: restartHeld},
		{Name: "Corrupt/IsNeverRunAgain", Promise: "a record that can't be read is an error of " +
			"its own, never free", needs: corrupts, run: corruptRecord},
	}
}

func (k *kit) reopen() {
	k.Helper()
	k.s = k.h.Reopen()
}

func restartRemembers(k *kit) {
	data := string(pattern(5000))
	g := k.done(claim("completed"), data)
	k.complete(k.take(claim("tombstone")), once.Outcome{Kind: once.Tombstone})
	freed := k.take(claim("released"))
	k.release(freed)
	lost := k.take(claim("lost"))
	k.lose(lost)
	k.reopen()
	k.wantReplay(claim("completed"), kept(data))
	k.wantReplay(claim("tombstone"), once.Outcome{Kind: once.Tombstone})
	for _, name := range []string{"completed", "tombstone", "released", "lost"} {
		k.wantMismatch(changed(claim(name)))
	}
	k.complete(g, kept(data)) // repeated by who never got the answer
	k.release(freed)
	next := k.take(claim("released"))
	if next.Attempt != 2 || next.Fence <= freed.Fence {
		k.Errorf("granted %+v after %+v", next, freed)
	}
	k.wantTaken(claim("lost"), lost)
}

func restartInFlight(k *kit) {
	g := k.take(k.lapsing("a"))
	k.reopen()
	k.wantMismatch(changed(claim("a")))
	k.lapse()
	next := k.wantTaken(claim("a"), g)
	k.wantOut(g)
	k.complete(next, kept("second"))
	k.wantReplay(claim("a"), kept("second"))
}

func restartHeld(k *kit) {
	k.held("lost")
	k.take(holding(k.lapsing("lapsed")))
	late := k.take(claim("held by the later one"))
	k.lose(late)
	k.wantHeld(holding(claim("held by the later one")))
	k.reopen()
	k.lapse()
	k.wantHeld(claim("lost"))
	k.wantHeld(claim("lapsed"))
	k.wantHeld(claim("held by the later one"))
}

func corruptRecord(k *kit) {
	done, busy := k.done(claim("completed"), "done"), k.take(claim("in flight"))
	k.done(claim("next"), "done")
	for _, g := range []once.Grant{done, busy} {
		k.h.Corrupt(g.Identity)
		for range 3 {
			c := claim("")
			c.Identity = g.Identity
			k.wantErr("claim", k.refused(c), once.ErrCorrupt)
		}
	}
	k.wantReplay(claim("next"), kept("done"))
}
