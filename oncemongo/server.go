package oncemongo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// ErrServer is a server with which nothing can be made to happen once: too old, or one whose
// updates are not atomic.
var ErrServer = errors.New("the server can't be used")

// minWireVersion is that of MongoDB 5.0.
const minWireVersion = 13

// codeDuplicateKey is the server's error of a write that a unique index refuses.
const codeDuplicateKey = 11000

// Options are the client's settings with which this package was made: majority writes, journaled,
// majority reads from the primary, and the time-outs of the URI. The package sets its own concerns
// on the collections that it touches; these are for the user's other calls on the same client.
func Options(uri string) *options.ClientOptions {
	return options.Client().ApplyURI(uri).
		SetWriteConcern(majorityWrites()).
		SetReadConcern(readconcern.Majority()).
		SetReadPreference(readpref.Primary())
}

func majorityWrites() *writeconcern.WriteConcern {
	journal := true
	return &writeconcern.WriteConcern{W: "majority", Journal: &journal}
}

// collection is a collection with the concerns that decisions need: what it acknowledges is not
// rolled back, and what it reads was acknowledged.
func collection(db *mongo.Database, name string) *mongo.Collection {
	return db.Collection(name, options.Collection().
		SetWriteConcern(majorityWrites()).
		SetReadConcern(readconcern.Majority()).
		SetReadPreference(readpref.Primary()))
}

// hello is what a server says of itself.
type hello struct {
	SetName        string    `bson:"setName"`
	Msg            string    `bson:"msg"`
	Sessions       *int32    `bson:"logicalSessionTimeoutMinutes"`
	MaxWireVersion int32     `bson:"maxWireVersion"`
	MaxBSONBytes   int32     `bson:"maxBsonObjectSize"`
	LocalTime      time.Time `bson:"localTime"`
}

// replicated tells whether a server that says this has transactions, if it speaks true.
func (h hello) replicated() bool {
	return h.Sessions != nil && (h.SetName != "" || h.Msg == "isdbgrid")
}

func askHello(ctx context.Context, db *mongo.Database) (hello, error) {
	var h hello
	err := db.Client().Database("admin").
		RunCommand(ctx, bson.D{{Key: "hello", Value: 1}},
			options.RunCmd().SetReadPreference(readpref.Primary())).
		Decode(&h)
	if err != nil {
		return hello{}, fmt.Errorf("ask server: %w", err)
	}
	return h, nil
}

// serverTime is the server's clock, in UTC and milliseconds: one round trip. Where a server has
// $$NOW, an update reads the clock by itself ([Facts].Now).
func serverTime(ctx context.Context, db *mongo.Database) (time.Time, error) {
	h, err := askHello(ctx, db)
	if err != nil {
		return time.Time{}, err
	}
	if h.LocalTime.IsZero() {
		return time.Time{}, fmt.Errorf("%w: it does not tell its time", ErrServer)
	}
	return h.LocalTime.UTC(), nil
}

// hasCode tells whether an error is the server's, or one of its write errors, with this code.
func hasCode(err error, code int) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && server.HasErrorCode(code)
}

// hasLabel tells whether the server or the driver gave an error this label.
func hasLabel(err error, label string) bool {
	var labeled mongo.LabeledError
	return errors.As(err, &labeled) && labeled.HasErrorLabel(label)
}
