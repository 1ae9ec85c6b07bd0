package oncemongo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// docWrite is one change of one document, as the journal holds it. It can be carried out any number
// of times, by several nodes at once: a document has the number of the commit that wrote it last,
// and a write changes only what an earlier commit wrote.
type docWrite struct {
	In    string   `bson:"in"`
	Do    string   `bson:"do"`
	Key   any      `bson:"key"`
	Set   bson.D   `bson:"set,omitempty"`
	Unset []string `bson:"unset,omitempty"`
}

// What a write does.
const (
	doInsert = "insert"
	doUpdate = "update"
	doDelete = "delete"
)

// stage is when a write is carried out. Whoever reads between two of them sees a resource taken
// before its task moves, and free after.
func (w *docWrite) stage() int {
	switch w.In {
	case resources:
		if owner, ok := w.owner(); ok && owner == "" {
			return 2
		}
		return 0
	case tasks, callbacks:
		return 1
	case counters:
		return 2
	}
	return 0
}

const stages = 3

// owner is what a write of a resource makes its owner; false: it doesn't change it.
func (w *docWrite) owner() (string, bool) {
	for _, name := range w.Unset {
		if name == "task" {
			return "", true
		}
	}
	for _, e := range w.Set {
		if e.Key != "task" {
			continue
		}
		switch v := e.Value.(type) {
		case string:
			return v, true
		case bson.RawValue:
			s, _ := v.StringValueOK()
			return s, true
		}
	}
	return "", w.Do == doDelete
}

// model returns the write as the driver carries it out.
func (w *docWrite) model(n int64) mongo.WriteModel {
	older := bson.D{{Key: "_id", Value: w.Key}, {Key: "v", Value: bson.D{{Key: "$lt", Value: n}}}}
	switch w.Do {
	case doInsert:
		doc := append(append(bson.D{}, w.Set...), bson.E{Key: "v", Value: n})
		return mongo.NewInsertOneModel().SetDocument(doc)
	case doDelete:
		return mongo.NewDeleteOneModel().SetFilter(older)
	}
	change := bson.D{{Key: "$set", Value: append(append(bson.D{}, w.Set...),
		bson.E{Key: "v", Value: n})}}
	if len(w.Unset) > 0 {
		gone := bson.D{}
		for _, name := range w.Unset {
			gone = append(gone, bson.E{Key: name, Value: ""})
		}
		change = append(change, bson.E{Key: "$unset", Value: gone})
	}
	return mongo.NewUpdateOneModel().SetFilter(older).SetUpdate(change)
}

// carryOut makes the writes of commit n, which has happened, true. It may be called again.
func (s *Store) carryOut(ctx context.Context, n int64, journal []docWrite) error {
	for stage := range stages {
		byCollection := map[string][]mongo.WriteModel{}
		var order []string
		for i := range journal {
			w := &journal[i]
			if w.stage() != stage {
				continue
			}
			if byCollection[w.In] == nil {
				order = append(order, w.In)
			}
			byCollection[w.In] = append(byCollection[w.In], w.model(n))
		}
		for _, name := range order {
			if err := s.fail(pointWrite); err != nil {
				return err
			}
			for part := range slices.Chunk(byCollection[name], s.bulkPart()) {
				if err := s.bulk(ctx, name, part); err != nil {
					return fmt.Errorf("write %s: %w", name, err)
				}
			}
		}
	}
	return s.fail(pointWritten)
}

// bulkPart bounds the writes of one command. A server that is none of MongoDB's own (it has no
// $$NOW) may keep something open for each of them until the command ends, and has not much of it.
func (s *Store) bulkPart() int {
	if s.facts.Now {
		return 1000
	}
	return 40
}

// bulk carries out writes of one collection. A document that is there already was inserted by an
// earlier try of the same commit.
func (s *Store) bulk(ctx context.Context, name string, models []mongo.WriteModel) error {
	_, err := collection(s.db, name).BulkWrite(ctx, models,
		options.BulkWrite().SetOrdered(false))
	var failed mongo.BulkWriteException
	if !errors.As(err, &failed) || failed.WriteConcernError != nil {
		return fault(err)
	}
	for _, e := range failed.WriteErrors {
		insert, ok := e.Request.(*mongo.InsertOneModel)
		if !ok || e.Code != codeDuplicateKey {
			return fault(err)
		}
		if err := s.inserted(ctx, name, insert); err != nil {
			return err
		}
	}
	return nil
}

// inserted makes sure that a document which could not be inserted is there, and that it was not
// another one with the same identity that was in its way.
func (s *Store) inserted(ctx context.Context, name string, m *mongo.InsertOneModel) error {
	doc, ok := m.Document.(bson.D)
	if !ok || len(doc) == 0 {
		return errDamaged
	}
	var key any
	for _, e := range doc {
		if e.Key == "_id" {
			key = e.Value
		}
	}
	found, err := s.find(ctx, name, bson.D{{Key: "_id", Value: key}}, nil, 1,
		bson.D{{Key: "_id", Value: 1}})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s %v can't be stored: another document has its identity: %w", name, key,
			errDamaged)
	}
	return err
}
