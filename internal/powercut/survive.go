package powercut

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// sectorBytes is what a disk writes in whole or not at all.
const sectorBytes = 512

// pcgStream separates these random numbers from others that a test draws from the same seed.
const pcgStream = 0x706f776572637574

// Survive returns a new, healthy disk with what the power cut left, as the disk's seed chooses. It
// cuts the power if that was not done; it comes before Close. Equal histories and seeds give equal
// results.
func (d *Disk) Survive() *Disk { return d.SurviveWith(d.seed) }

// SurviveWith is Survive under another seed: one load can leave many disks. They share nothing.
func (d *Disk) SurviveWith(seed uint64) *Disk {
	d.Cut()
	d.mu.Lock()
	defer d.mu.Unlock()
	r := rand.New(rand.NewPCG(seed, pcgStream))
	left := NewDisk(r.Uint64())
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		states := d.names[name].states
		if n := states[r.IntN(len(states))]; n != nil {
			left.names[name] = &entry{states: []*node{newNode(n.survive(r))}}
		}
	}
	return left
}

// survive returns the durable image with what arrived of the pending changes.
func (n *node) survive(r *rand.Rand) []byte {
	image := slices.Clone(n.durable)
	if len(n.pending) == 0 {
		return image
	}
	switch last := len(n.pending) - 1; r.IntN(4) {
	case 0: // nothing arrived
		return image
	case 1: // everything did, but perhaps the last one in part
		return arrive(image, n.pending[:last], n.pending[last], r)
	case 2: // the first few did
		last = r.IntN(len(n.pending))
		return arrive(image, n.pending[:last], n.pending[last], r)
	default:
		return scatter(image, n.pending, r)
	}
}

func arrive(image []byte, whole []change, torn change, r *rand.Rand) []byte {
	for _, c := range whole {
		image = c.apply(image)
	}
	return torn.tear(image, r)
}

// scatter applies any changes in any order, as a write cache that drains does.
func scatter(image []byte, pending []change, r *rand.Rand) []byte {
	for _, i := range r.Perm(len(pending)) {
		c := pending[i]
		switch fate := r.IntN(8); {
		case fate < 4:
			image = c.apply(image)
		case fate < 5:
			image = c.tear(image, r)
		case fate < 6 && !c.truncate:
			// The file's new size was written, its data was not.
			image = grow(image, c.end())
		}
	}
	return image
}

// tear applies a prefix of the sectors of a write (possibly none or all of them), or any of
// them; a truncation happens or not.
func (c change) tear(image []byte, r *rand.Rand) []byte {
	if c.truncate {
		if r.IntN(2) == 0 {
			return c.apply(image)
		}
		return image
	}
	parts := c.sectors()
	if r.IntN(2) == 0 {
		for _, p := range parts[:r.IntN(len(parts)+1)] {
			image = p.apply(image)
		}
		return image
	}
	for _, p := range parts {
		if r.IntN(2) == 0 {
			image = p.apply(image)
		}
	}
	return image
}

// sectors splits a write at the sector boundaries of the file.
func (c change) sectors() []change {
	var parts []change
	for off := c.off; off < c.end(); {
		next := min((off/sectorBytes+1)*sectorBytes, c.end())
		parts = append(parts, change{off: off, data: c.data[off-c.off : next-c.off]})
		off = next
	}
	return parts
}
