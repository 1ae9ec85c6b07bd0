package oncemongo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Facts are what a server can do, as it was seen to do it.
type Facts struct {
	// Transactions: several documents change together or not at all.
	Transactions bool
	// Now: an update may be a pipeline, and $$NOW in it is the server's clock.
	Now bool
	// TTL: the server deletes documents by an index when their time has come.
	TTL bool
	// Decimals: numbers of 128 bits with 34 decimal digits.
	Decimals bool
	// MaxDocument is the size of the largest document, in bytes.
	MaxDocument int

	// whole: findAndModify returns whole documents, never parts.
	whole bool
}

const (
	// probeCollection is where servers are tried; it is empty afterwards.
	probeCollection = "once_probe"
	// probeRivals is how many updates race for a document, probeRounds how often: the connections
	// of the first round are made while it runs, so it seldom is a race.
	probeRivals = 8
	probeRounds = 8
	// probeLimit bounds the probe of a server that hangs.
	probeLimit = time.Minute
	// probeEndLimit bounds taking the probe's document away, also after its caller has left.
	probeEndLimit = 5 * time.Second
	// probeTTL is what a document of the probe would live by the index, in seconds: long enough to
	// be no matter.
	probeTTL = 24 * 60 * 60
)

// Probe looks what the server of a database can do, in a collection once_probe of it. A server
// where of several concurrent updates on one condition more than one wins, or that is older than
// MongoDB 5, is an error that wraps ErrServer.
func Probe(ctx context.Context, db *mongo.Database) (Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	h, err := askHello(ctx, db)
	if err != nil {
		return Facts{}, err
	}
	if h.MaxWireVersion < minWireVersion {
		return Facts{}, fmt.Errorf("%w: it is older than MongoDB 5.0 (wire version %d, not %d)",
			ErrServer, h.MaxWireVersion, minWireVersion)
	}
	p := probe{c: collection(db, probeCollection), id: bson.NewObjectID()}
	facts, err := p.run(ctx, h)
	if err != nil {
		return Facts{}, fmt.Errorf("probe server: %w", err)
	}
	old, err := isFerretDB1(ctx, db)
	if err != nil {
		return Facts{}, err
	}
	facts.Decimals, facts.whole = !old, old
	return facts, nil
}

// isFerretDB1 tells a server that has no decimals, and ends the connection on which it meets one:
// it can't be tried.
func isFerretDB1(ctx context.Context, db *mongo.Database) (bool, error) {
	var info struct {
		Ferret string `bson:"ferretdbVersion"`
	}
	err := db.Client().Database("admin").
		RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&info)
	if err != nil {
		return false, fmt.Errorf("ask server: %w", err)
	}
	return info.Ferret != "", nil // FerretDB 2 tells its version otherwise
}

// probe is one document with which a server is tried.
type probe struct {
	c  *mongo.Collection
	id bson.ObjectID
}

func (p probe) run(ctx context.Context, h hello) (f Facts, err error) {
	if _, err := p.c.InsertOne(ctx, bson.D{{Key: "_id", Value: p.id}}); err != nil {
		return Facts{}, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeEndLimit)
		defer cancel()
		if _, e := p.c.DeleteOne(ctx, p.self()); err == nil {
			err = e
		}
	}()
	if err := p.atomic(ctx); err != nil {
		return Facts{}, err
	}
	f.MaxDocument = int(h.MaxBSONBytes)
	if f.Now, err = p.now(ctx); err != nil {
		return Facts{}, err
	}
	if f.TTL, err = p.ttl(ctx); err != nil {
		return Facts{}, err
	}
	if h.replicated() {
		f.Transactions, err = p.transactions(ctx)
	}
	return f, err
}

func (p probe) self() bson.D { return bson.D{{Key: "_id", Value: p.id}} }

// atomic lets updates race: in each round one may find the round's number, and all of them count.
func (p probe) atomic(ctx context.Context) error {
	for round := range probeRounds {
		if err := p.set(ctx, "round", round); err != nil {
			return err
		}
		won, err := p.race(ctx, round)
		if err != nil {
			return err
		}
		if won != 1 {
			return fmt.Errorf("%w: %d of %d concurrent updates with one condition won, not 1: "+
				"its updates of one document are not atomic", ErrServer, won, probeRivals)
		}
	}
	return nil
}

// race lets rivals move the document on from one round, and counts who did.
func (p probe) race(ctx context.Context, round int) (won int64, err error) {
	type result struct {
		won int64
		err error
	}
	results := make(chan result, probeRivals)
	for range probeRivals {
		go func() {
			filter := append(p.self(), bson.E{Key: "round", Value: round})
			up, err := p.c.UpdateOne(ctx, filter, bson.D{
				{Key: "$set", Value: bson.D{{Key: "round", Value: -1}}},
				{Key: "$inc", Value: bson.D{{Key: "won", Value: 1}}},
			})
			if err != nil {
				results <- result{err: err}
				return
			}
			results <- result{won: up.ModifiedCount}
		}()
	}
	for range probeRivals {
		r := <-results
		won += r.won
		err = errors.Join(err, r.err)
	}
	return won, err
}

func (p probe) set(ctx context.Context, name string, value any) error {
	_, err := p.c.UpdateOne(ctx, p.self(),
		bson.D{{Key: "$set", Value: bson.D{{Key: name, Value: value}}}})
	return err
}

// now tries a pipeline that writes the server's time.
func (p probe) now(ctx context.Context) (bool, error) {
	_, err := p.c.UpdateOne(ctx, p.self(), mongo.Pipeline{
		{{Key: "$set", Value: bson.D{{Key: "at", Value: "$$NOW"}}}},
	})
	if refused(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var found struct{ At bson.RawValue }
	if err := p.c.FindOne(ctx, p.self()).Decode(&found); err != nil {
		return false, err
	}
	return found.At.Type == bson.TypeDateTime, nil
}

// ttl makes an index that would delete, on a member that no document has.
func (p probe) ttl(ctx context.Context) (bool, error) {
	_, err := p.c.Indexes().CreateOne(ctx, mongo.IndexModel{
		Keys:    bson.D{{Key: "gone_at", Value: 1}},
		Options: options.Index().SetName("gone").SetExpireAfterSeconds(probeTTL),
	})
	if refused(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	cursor, err := p.c.Indexes().List(ctx)
	if err != nil {
		return false, err
	}
	var found []struct {
		Name  string `bson:"name"`
		After *int32 `bson:"expireAfterSeconds"`
	}
	if err := cursor.All(ctx, &found); err != nil {
		return false, err
	}
	for _, index := range found {
		if index.Name == "gone" {
			return index.After != nil, nil
		}
	}
	return false, nil
}

// transactions writes in one that is aborted, and looks whether the write is there: a server may
// take the command and know no transactions. One that met another is begun again.
func (p probe) transactions(ctx context.Context) (bool, error) {
	retry := newRetry()
	for {
		known, err := p.aborted(ctx)
		if err == nil && known {
			n, err := p.c.CountDocuments(ctx, append(p.self(), bson.E{Key: "aborted", Value: true}))
			return n == 0, err
		}
		if err == nil || !hasLabel(err, labelTransient) || !retry.wait(ctx) {
			return false, err
		}
	}
}

// aborted writes in a transaction and aborts it. known is false if the server, or the driver, says
// that there are no transactions.
func (p probe) aborted(ctx context.Context) (known bool, err error) {
	session, err := p.c.Database().Client().StartSession()
	if err != nil {
		return false, nil
	}
	defer session.EndSession(ctx)
	if err := session.StartTransaction(); err != nil {
		return false, nil
	}
	inner := mongo.NewSessionContext(ctx, session)
	err = p.set(inner, "aborted", true)
	abortErr := session.AbortTransaction(inner)
	if refused(err) || err == nil && refused(abortErr) {
		return false, nil
	}
	if err == nil {
		err = abortErr
	}
	return err == nil, err
}

// refused tells whether the server understood a command and said no.
func refused(err error) bool {
	var server mongo.ServerError
	if !errors.As(err, &server) {
		return false
	}
	return !mongo.IsNetworkError(err) && !mongo.IsTimeout(err) &&
		!hasLabel(err, "TransientTransactionError") && !hasLabel(err, "RetryableWriteError")
}
