package once

// Waiting returns how many repeats wait, and for how many identities there is a line.
func (g *Guard) Waiting() (repeats, lines int) {
	g.waiting.mu.Lock()
	defer g.waiting.mu.Unlock()
	return int(g.waiting.n.Load()), len(g.waiting.at)
}
