package oncemongo

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/oncekit/once/write"
)

// checkTarget refuses names that could not be meant.
func checkTarget(t write.Target, events string) error {
	switch {
	case t.Name == events:
		return fmt.Errorf("target %s is the collection of events", t.Name)
	case strings.HasPrefix(t.Name, "system."), strings.ContainsAny(t.Name, "$\x00"):
		return fmt.Errorf("target %s is no name of a collection", t.Name)
	case t.Key == ownMember, strings.HasPrefix(t.Key, "$"), strings.ContainsAny(t.Key, ".\x00"):
		return fmt.Errorf("target %s: %s can't be its key", t.Name, t.Key)
	}
	return nil
}

// makeIndex makes the index by which a sweep finds what is pending, and what is old. (That an id is
// there once is MongoDB's own index.)
func (w *Writer) makeIndex(ctx context.Context) error {
	_, err := w.events.Indexes().CreateOne(ctx, mongo.IndexModel{
		Keys:    bson.D{{Key: "state", Value: 1}, {Key: "at", Value: 1}},
		Options: options.Index().SetName("once_sweep"),
	})
	if err != nil {
		return fmt.Errorf("create index of %s: %w", w.conf.Events, err)
	}
	return nil
}

// indexFound is what a server says of an index.
type indexFound struct {
	Key       bson.D   `bson:"key"`
	Unique    bool     `bson:"unique"`
	Partial   bson.Raw `bson:"partialFilterExpression"`
	Collation struct {
		Locale string `bson:"locale"`
	} `bson:"collation"`
}

// holds tells whether the index lets a key be there once: over it alone, over all documents that
// have it, compared byte by byte.
func (i indexFound) holds(key string) bool {
	return i.Unique && len(i.Key) == 1 && i.Key[0].Key == key && isOrder(i.Key[0].Value) &&
		i.Partial == nil && (i.Collation.Locale == "" || i.Collation.Locale == "simple")
}

// isOrder tells 1 and -1 from "text", "hashed" and the like.
func isOrder(v any) bool {
	switch v.(type) {
	case int32, int64, float64:
		return true
	}
	return false
}

// checkIndex looks for the unique index of a target. The error is a *write.IndexError if there is
// none.
func (w *Writer) checkIndex(ctx context.Context, t write.Target) error {
	if err := w.checkCollation(ctx, t.Name); err != nil || t.Key == "_id" {
		return err // that of _id is always there
	}
	cursor, err := collection(w.db, t.Name).Indexes().List(ctx)
	if err != nil {
		return fmt.Errorf("list indexes of %s: %w", t.Name, err)
	}
	var found []indexFound
	if err := cursor.All(ctx, &found); err != nil {
		return fmt.Errorf("list indexes of %s: %w", t.Name, err)
	}
	for _, index := range found {
		if index.holds(t.Key) {
			return nil
		}
	}
	duplicates, err := w.duplicates(ctx, t)
	if err != nil {
		return fmt.Errorf("look for duplicates in %s: %w", t.Name, err)
	}
	return &write.IndexError{
		In:  t.Name,
		Key: t.Key,
		Command: fmt.Sprintf("db.getCollection(%s).createIndex({%s: 1}, {unique: true})",
			strconv.Quote(t.Name), strconv.Quote(t.Key)),
		Duplicates: duplicates,
	}
}

// checkCollation refuses a collection that compares texts otherwise than byte by byte: keys, or ids
// of events, that differ in case only would be one.
func (w *Writer) checkCollation(ctx context.Context, name string) error {
	cursor, err := w.db.ListCollections(ctx, bson.D{{Key: "name", Value: name}})
	if err != nil {
		return fmt.Errorf("list collections: %w", err)
	}
	var found []struct {
		Type    string `bson:"type"`
		Options struct {
			Collation struct {
				Locale string `bson:"locale"`
			} `bson:"collation"`
		} `bson:"options"`
	}
	if err := cursor.All(ctx, &found); err != nil {
		return fmt.Errorf("list collections: %w", err)
	}
	for _, c := range found {
		locale := c.Options.Collation.Locale
		switch {
		case c.Type != "" && c.Type != "collection":
			return fmt.Errorf("%s is a %s, not a collection", name, c.Type)
		case locale != "" && locale != "simple":
			return fmt.Errorf("collection %s has the collation %s: keys that differ would be one",
				name, locale)
		}
	}
	return nil
}

// duplicates are keys that several documents have.
func (w *Writer) duplicates(ctx context.Context, t write.Target) ([]write.DuplicateKey, error) {
	cursor, err := collection(w.db, t.Name).Aggregate(ctx, mongo.Pipeline{
		{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: "$" + t.Key},
			{Key: "count", Value: bson.D{{Key: "$sum", Value: int64(1)}}},
		}}},
		{{Key: "$match", Value: bson.D{
			{Key: "count", Value: bson.D{{Key: "$gt", Value: 1}}},
		}}},
		{{Key: "$sort", Value: bson.D{{Key: "count", Value: -1}, {Key: "_id", Value: 1}}}},
		{{Key: "$limit", Value: int64(write.MaxDuplicates)}},
	}, options.Aggregate().SetAllowDiskUse(true))
	if err != nil {
		return nil, err
	}
	var found []struct {
		Key   any   `bson:"_id"`
		Count int64 `bson:"count"`
	}
	if err := cursor.All(ctx, &found); err != nil {
		return nil, err
	}
	list := make([]write.DuplicateKey, len(found))
	for i, d := range found {
		list[i] = write.DuplicateKey{Key: fmt.Sprint(d.Key), Count: d.Count}
	}
	return list, nil
}
