package oncepg

import "time"

const (
	// gatherFor is how long a commit waits for others to share it. A flush takes about as long, and
	// what a commit costs the database besides is as much as a few rows.
	gatherFor = 2 * time.Millisecond
	// gatherEnough is how many need not wait for more.
	gatherEnough = 48
	// gatherSkip is how many commits don't wait after one that waited for nobody: who calls one
	// after the other shares with nobody, and must not be slowed down.
	gatherSkip = 32
)

// gatherer decides whether it is worth a wait to let others share a commit.
type gatherer struct{ skip int }

// gather waits if it is worth it, and then takes what has come; more returns how much that is.
func (g *gatherer) gather(has int, quit <-chan struct{}, more func() int) {
	switch {
	case has >= gatherEnough:
		return
	case g.skip > 0:
		g.skip--
		return
	}
	timer := time.NewTimer(gatherFor)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-quit:
	}
	if more() == 0 && has == 1 {
		g.skip = gatherSkip
	}
}
