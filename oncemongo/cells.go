package oncemongo

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// cell is a document as a batch sees it: what was read, and what the batch made of it.
type cell[T any] struct {
	old bson.Raw // as it is stored; nil: it is new
	now *T       // as it is to be; nil: it is not there
	// touched is true from its first change on.
	touched bool
}

// shelf holds the documents of one collection that a batch has read or changed.
type shelf[K comparable, T any] struct {
	t     *txn
	name  string
	cells map[K]*cell[T]
	// dirty are the keys of touched cells, in the order of their first change.
	dirty []K
}

func newShelf[K comparable, T any](t *txn, name string) *shelf[K, T] {
	return &shelf[K, T]{t: t, name: name, cells: map[K]*cell[T]{}}
}

// keep takes in a document that was read, unless the batch has it already, and returns it as the
// batch sees it; nil: the batch has removed it.
func (s *shelf[K, T]) keep(key K, raw bson.Raw) (*T, error) {
	if c := s.cells[key]; c != nil {
		return c.now, nil
	}
	v := new(T)
	if err := bson.Unmarshal(raw, v); err != nil {
		return nil, fmt.Errorf("read %s %v: %w", s.name, key, err)
	}
	s.cells[key] = &cell[T]{old: slices.Clone(raw), now: v}
	return v, nil
}

// get returns a document by its key; nil: there is none.
func (s *shelf[K, T]) get(key K) (*T, error) {
	if c := s.cells[key]; c != nil {
		return c.now, nil
	}
	found, err := s.t.find(s.name, bson.D{{Key: "_id", Value: key}}, nil, 1)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		s.cells[key] = &cell[T]{}
		return nil, nil
	}
	return s.keep(key, found[0])
}

// change notes that a document is about to be changed in place: an undo restores what it says now.
func (s *shelf[K, T]) change(key K) {
	c := s.cells[key]
	was, touched := *c.now, c.touched
	s.touch(key, c)
	s.t.onUndo(func() {
		*c.now = was
		s.untouch(c, touched)
	})
}

// put makes a document that was not there.
func (s *shelf[K, T]) put(key K, v *T) {
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

// remove takes a document away.
func (s *shelf[K, T]) remove(key K) {
	c := s.cells[key]
	was, touched := c.now, c.touched
	s.touch(key, c)
	c.now = nil
	s.t.onUndo(func() {
		c.now = was
		s.untouch(c, touched)
	})
}

func (s *shelf[K, T]) touch(key K, c *cell[T]) {
	if !c.touched {
		c.touched = true
		s.dirty = append(s.dirty, key)
	}
}

// untouch takes the newest dirty mark back, if it is the one that an undone change set.
func (s *shelf[K, T]) untouch(c *cell[T], before bool) {
	if c.touched && !before {
		c.touched = false
		s.dirty = s.dirty[:len(s.dirty)-1]
	}
}

// touched reports whether the batch has changed a document.
func (s *shelf[K, T]) touched(key K) bool { return s.cells[key] != nil && s.cells[key].touched }

// writes returns what has to be written for the shelf's documents to be as the batch has them.
func (s *shelf[K, T]) writes() ([]docWrite, error) {
	var out []docWrite
	for _, key := range s.dirty {
		c := s.cells[key]
		w := docWrite{In: s.name, Key: key}
		switch {
		case c.now == nil && c.old == nil:
			continue
		case c.now == nil:
			w.Do = doDelete
		case c.old == nil:
			doc, err := bson.Marshal(c.now)
			if err != nil {
				return nil, fmt.Errorf("write %s %v: %w", s.name, key, err)
			}
			w.Do, w.Set = doInsert, without(doc, "v")
		default:
			doc, err := bson.Marshal(c.now)
			if err != nil {
				return nil, fmt.Errorf("write %s %v: %w", s.name, key, err)
			}
			w.Do = doUpdate
			if w.Set, w.Unset, err = difference(c.old, doc); err != nil {
				return nil, fmt.Errorf("write %s %v: %w", s.name, key, err)
			}
			if len(w.Set) == 0 && len(w.Unset) == 0 {
				continue
			}
		}
		out = append(out, w)
	}
	return out, nil
}

// without returns the fields of a document but one.
func without(doc bson.Raw, name string) bson.D {
	var out bson.D
	elements, err := doc.Elements()
	if err != nil {
		return nil // Marshal wrote it
	}
	for _, e := range elements {
		if e.Key() != name {
			out = append(out, bson.E{Key: e.Key(), Value: e.Value()})
		}
	}
	return out
}

// difference returns the fields that a document gets and loses. The number of the commit is not
// one of them: every write has it.
func difference(old, now bson.Raw) (set bson.D, unset []string, err error) {
	was, err := fieldsOf(old)
	if err != nil {
		return nil, nil, err
	}
	elements, err := now.Elements()
	if err != nil {
		return nil, nil, err
	}
	for _, e := range elements {
		before, had := was[e.Key()]
		delete(was, e.Key())
		if e.Key() == "v" || had && before.Type == e.Value().Type &&
			bytes.Equal(before.Value, e.Value().Value) {
			continue
		}
		set = append(set, bson.E{Key: e.Key(), Value: e.Value()})
	}
	return set, slices.Sorted(maps.Keys(was)), nil
}

func fieldsOf(doc bson.Raw) (map[string]bson.RawValue, error) {
	elements, err := doc.Elements()
	if err != nil {
		return nil, err
	}
	out := make(map[string]bson.RawValue, len(elements))
	for _, e := range elements {
		out[e.Key()] = e.Value()
	}
	return out, nil
}

// find reads documents of a collection as they are stored, whatever the batch has changed.
func (t *txn) find(name string, filter, sort bson.D, limit int) ([]bson.Raw, error) {
	return t.s.find(t.ctx, name, filter, sort, limit, nil)
}

// find reads at most limit documents; 0: all.
func (s *Store) find(ctx context.Context, name string, filter, sort bson.D, limit int,
	fields bson.D) ([]bson.Raw, error) {
	cursor, err := collection(s.db, name).Find(ctx, filter, findOptions(sort, limit, fields))
	if err != nil {
		return nil, fault(err)
	}
	var out []bson.Raw
	for cursor.Next(ctx) {
		out = append(out, slices.Clone(cursor.Current))
	}
	if err := cursor.Err(); err != nil {
		return nil, fault(err)
	}
	return out, fault(cursor.Close(ctx))
}

// load reads the documents of keys that the batch does not have yet, in one question.
func (s *shelf[K, T]) load(keys []K) error {
	var ask []K
	for _, key := range keys {
		if s.cells[key] == nil && !slices.Contains(ask, key) {
			ask = append(ask, key)
		}
	}
	if len(ask) < 2 {
		return nil // get asks for one
	}
	found, err := s.t.find(s.name, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ask}}}},
		nil, 0)
	if err != nil {
		return err
	}
	for _, raw := range found {
		var key struct {
			ID K `bson:"_id"`
		}
		if err := bson.Unmarshal(raw, &key); err != nil {
			return fmt.Errorf("read %s: %w", s.name, err)
		}
		if _, err := s.keep(key.ID, raw); err != nil {
			return err
		}
	}
	for _, key := range ask {
		if s.cells[key] == nil {
			s.cells[key] = &cell[T]{}
		}
	}
	return nil
}

// removeUnread takes a document away that is stored, or that the batch made.
func (s *shelf[K, T]) removeUnread(key K) {
	if s.cells[key] == nil {
		s.cells[key] = &cell[T]{old: bson.Raw{}, now: new(T)}
	}
	s.remove(key)
}
