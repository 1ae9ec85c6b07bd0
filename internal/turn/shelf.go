package turn

// cell is a thing as a batch sees it: as it is stored, and what the batch made of it.
type cell[T any] struct {
	old *T // as it is stored; nil: it is new
	now *T // as it is to be; nil: it is not there
	// touched is true from its first change on.
	touched bool
}

// Shelf holds the things of one kind that a batch has read or changed.
type Shelf[K comparable, T any] struct {
	t     *Batch
	key   func(*T) K
	fetch func([]K) ([]*T, error)
	cells map[K]*cell[T]
	// dirty are the keys of touched cells, in the order of their first change.
	dirty []K
}

func newShelf[K comparable, T any](t *Batch, key func(*T) K, fetch func([]K) ([]*T, error),
) *Shelf[K, T] {
	return &Shelf[K, T]{t: t, key: key, fetch: fetch, cells: map[K]*cell[T]{}}
}

// Change is what has to become of a stored thing. Old is nil for a new one, Now for one that goes.
type Change[K comparable, T any] struct {
	Key      K
	Old, Now *T
}

// Changes returns what has to be written for the shelf's things to be as the batch has them.
func (s *Shelf[K, T]) Changes() []Change[K, T] {
	var out []Change[K, T]
	for _, key := range s.dirty {
		if c := s.cells[key]; c.old != nil || c.now != nil {
			out = append(out, Change[K, T]{key, c.old, c.now})
		}
	}
	return out
}

// keep takes in a thing that was read, unless the batch has it already, and returns it as the batch
// sees it; nil: the batch has removed it.
func (s *Shelf[K, T]) keep(v *T) *T {
	key := s.key(v)
	if c := s.cells[key]; c != nil {
		return c.now
	}
	old := *v
	s.cells[key] = &cell[T]{old: &old, now: v}
	return v
}

// get returns a thing by its key; nil: there is none.
func (s *Shelf[K, T]) get(key K) (*T, error) {
	if c := s.cells[key]; c != nil {
		return c.now, nil
	}
	if err := s.load([]K{key}); err != nil {
		return nil, err
	}
	return s.cells[key].now, nil
}

// load reads the things of keys that the batch does not have yet, in one question.
func (s *Shelf[K, T]) load(keys []K) error {
	var ask []K
	asked := map[K]bool{}
	for _, key := range keys {
		if s.cells[key] == nil && !asked[key] {
			asked[key] = true
			ask = append(ask, key)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	found, err := s.fetch(ask)
	if err != nil {
		return err
	}
	for _, v := range found {
		s.keep(v)
	}
	for _, key := range ask {
		if s.cells[key] == nil {
			s.cells[key] = &cell[T]{}
		}
	}
	return nil
}

// change notes that a thing is about to be changed in place: an undo restores what it says now.
func (s *Shelf[K, T]) change(key K) {
	c := s.cells[key]
	was, touched := *c.now, c.touched
	s.touch(key, c)
	s.t.onUndo(func() {
		*c.now = was
		s.untouch(c, touched)
	})
}

// put makes a thing that was not there.
func (s *Shelf[K, T]) put(v *T) {
	key := s.key(v)
	c := s.cells[key]
	if c == nil {
		c = &cell[T]{}
		s.cells[key] = c
	}
	was, touched := c.now, c.touched
	s.touch(key, c)
	c.now = v
	s.t.onUndo(func() {
		c.now = was
		s.untouch(c, touched)
	})
}

// remove takes a thing away.
func (s *Shelf[K, T]) remove(key K) {
	c := s.cells[key]
	was, touched := c.now, c.touched
	s.touch(key, c)
	c.now = nil
	s.t.onUndo(func() {
		c.now = was
		s.untouch(c, touched)
	})
}

// removeUnread takes a thing away that is stored, or that the batch made.
func (s *Shelf[K, T]) removeUnread(key K) {
	if s.cells[key] == nil {
		s.cells[key] = &cell[T]{old: new(T), now: new(T)}
	}
	s.remove(key)
}

func (s *Shelf[K, T]) touch(key K, c *cell[T]) {
	if !c.touched {
		c.touched = true
		s.dirty = append(s.dirty, key)
	}
}

// untouch takes the newest dirty mark back, if it is the one that an undone change set.
func (s *Shelf[K, T]) untouch(c *cell[T], before bool) {
	if c.touched && !before {
		c.touched = false
		s.dirty = s.dirty[:len(s.dirty)-1]
	}
}

// touched reports whether the batch has changed a thing.
func (s *Shelf[K, T]) touched(key K) bool { return s.cells[key] != nil && s.cells[key].touched }

// merge returns those of the stored things that the batch did not change, and those that it did,
// as far as they match.
func (s *Shelf[K, T]) merge(stored []*T, match func(*T) bool) []*T {
	var out []*T
	for _, v := range stored {
		if s.touched(s.key(v)) {
			continue
		}
		if v = s.keep(v); v != nil && match(v) {
			out = append(out, v)
		}
	}
	for _, key := range s.dirty {
		if v := s.cells[key].now; v != nil && match(v) {
			out = append(out, v)
		}
	}
	return out
}
