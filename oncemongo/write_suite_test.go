package oncemongo_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/oncekit/once/oncemongo"
	"github.com/oncekit/once/write"
	"github.com/oncekit/once/write/writetest"
)

// tooMuchFor are cases that a server can't be asked for. FerretDB takes no list within a list, and
// reads a whole collection for each mark of a record, so that a thousand events take minutes; what
// plays a replica set before it copies whole collections for each transaction.
var tooMuchFor = map[string][]string{
	"ferretdb": {"Append/KeepsTheOrder", "Batch/Large"},
	"emulated": {
		"Append/KeepsTheOrder", "Batch/Large", "Random/AsTheModel", "B06/BatchesInAnyOrder",
		"B06/RepeatedIncrements",
	},
}

func TestWriterKeepsEveryPromise(t *testing.T) {
	eachWay(t, func(t *testing.T, w way) {
		var cases []string
		for _, c := range writetest.Cases() {
			if !slices.Contains(tooMuchFor[w.Name], c.Name) {
				cases = append(cases, c.Name)
			}
		}
		writetest.Run(t, func(t *testing.T) writetest.Harness {
			db := w.Database(t)
			for _, target := range writetest.Targets() {
				if target.Key != "" && target.Key != "_id" {
					unique(t, db, target.Name, target.Key)
				}
			}
			conf := oncemongo.WriterConfig{Targets: writetest.Targets(), Patience: time.Minute}
			return writetest.Harness{
				Writer: w.openWith(t, db, conf),
				Second: w.openWith(t, db, conf),
				Read: func(t *testing.T, in string, key any) (write.Fields, bool) {
					return readFields(t, db, in, key)
				},
			}
		}, cases...)
	})
}

// readFields reads a document in the words of package write.
func readFields(t *testing.T, db *mongo.Database, in string, key any) (write.Fields, bool) {
	t.Helper()
	name := "_id"
	for _, target := range writetest.Targets() {
		if target.Name == in && target.Key != "" {
			name = target.Key
		}
	}
	var doc bson.M
	err := db.Collection(in).FindOne(testContext(t), bson.D{{Key: name, Value: key}}).Decode(&doc)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, false
	}
	if err != nil {
		t.Fatal(err)
	}
	fields := write.Fields{}
	for member, v := range doc {
		if member != "_id" && member != name && member != "_once" && v != nil {
			fields[member] = fromBSON(t, v)
		}
	}
	return fields, true
}

func fromBSON(t *testing.T, v any) any {
	t.Helper()
	switch v := v.(type) {
	case bson.DateTime:
		return v.Time().UTC()
	case bson.Binary:
		return v.Data
	case bson.A:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = fromBSON(t, element)
		}
		return list
	case int32:
		return int64(v)
	case bson.Decimal128:
		n, err := write.Number(json.Number(v.String()))
		if err != nil {
			t.Fatal(err)
		}
		return n
	case float64:
		n, err := write.Number(v)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return v
}
