package powercut

import "path"

// A node is the content of a file, which names may come and go over (an inode).
type node struct {
	current []byte // what readers see
	durable []byte // what the synced changes left
	pending []change
	synced  int // changes that left pending, ever
	locks   locks
}

// A change is a write, or a truncation to off.
type change struct {
	off      int64
	data     []byte
	truncate bool
}

func newNode(image []byte) *node {
	return &node{current: append([]byte(nil), image...), durable: image}
}

func (n *node) write(p []byte, off int64) {
	c := change{off: off, data: append([]byte(nil), p...)}
	n.current = c.apply(n.current)
	n.pending = append(n.pending, c)
}

func (n *node) resize(size int64) {
	c := change{off: size, truncate: true}
	n.current = c.apply(n.current)
	n.pending = append(n.pending, c)
}

// mark is what a sync beginning now will cover; sync does it.
func (n *node) mark() int { return n.synced + len(n.pending) }

func (n *node) sync(mark int) {
	covered := max(mark-n.synced, 0) // another sync may have been faster
	for _, c := range n.pending[:covered] {
		n.durable = c.apply(n.durable)
	}
	n.synced += covered
	n.pending = append([]change(nil), n.pending[covered:]...)
}

// lose forgets what a sync would have made durable.
func (n *node) lose(mark int) {
	covered := max(mark-n.synced, 0)
	n.synced += covered
	n.pending = append([]change(nil), n.pending[covered:]...)
}

func (c change) end() int64 { return c.off + int64(len(c.data)) }

func (c change) apply(image []byte) []byte {
	if c.truncate && c.off < int64(len(image)) {
		// What a later growth uncovers has to read as zeros.
		clear(image[c.off:])
		return image[:c.off]
	}
	image = grow(image, c.end())
	copy(image[c.off:], c.data)
	return image
}

func grow(image []byte, size int64) []byte {
	if missing := size - int64(len(image)); missing > 0 {
		return append(image, make([]byte, missing)...)
	}
	return image
}

// An entry is a name of the disk with what it may mean after a power cut: states[0] is sure to
// be reachable, the last one is what it means now, nil is no file. Never empty.
type entry struct{ states []*node }

func (e *entry) now() *node { return e.states[len(e.states)-1] }

// lookup returns the file of a name, nil if there is none. d.mu is held, as below.
func (d *Disk) lookup(name string) *node {
	if e := d.names[name]; e != nil {
		return e.now()
	}
	return nil
}

func (d *Disk) create(name string) *node {
	e := d.names[name]
	if e == nil {
		e = &entry{states: []*node{nil}}
		d.names[name] = e
	}
	n := newNode(nil)
	e.states = append(e.states, n)
	return n
}

func (d *Disk) remove(name string) {
	e := d.names[name]
	e.states = append(e.states, nil)
}

// settleName makes durable that the name came to mean n, as the sync of a file does. A deletion
// after that stays open.
func (d *Disk) settleName(name string, n *node) {
	e := d.names[name]
	for i, s := range e.states {
		if s == n {
			e.states = e.states[i:]
			return
		}
	}
}

// settleDir makes every name durable that is in the directory of the given one.
func (d *Disk) settleDir(name string) {
	for other, e := range d.names {
		if path.Dir(other) == path.Dir(name) {
			e.states = []*node{e.now()}
		}
	}
}
