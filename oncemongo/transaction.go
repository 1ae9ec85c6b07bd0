package oncemongo

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
)

// commitTries is how often the end of a transaction is asked for whose answer was lost.
const commitTries = 3

// passOnAtOnce is passOn where the server has transactions: the turn moves on and the writes are
// carried out in one of them, so there is no journal to be left behind. It reports whether the turn
// was still ours.
func (s *Store) passOnAtOnce(
	ctx context.Context, next turnState, journal []docWrite,
) (bool, error) {
	session, err := s.db.Client().StartSession()
	if err != nil {
		return false, fault(err)
	}
	defer endSession(ctx, session)
	err = session.StartTransaction(options.Transaction().SetWriteConcern(majorityWrites()).
		SetReadConcern(readconcern.Snapshot()))
	if err != nil {
		return false, fault(err)
	}
	in := mongo.NewSessionContext(ctx, session)
	matched, err := s.inTransaction(in, next, journal)
	if err == nil && matched {
		for range commitTries {
			if err = session.CommitTransaction(in); err == nil ||
				!hasLabel(err, labelUnknown) {
				break
			}
		}
		return err == nil, fault(err)
	}
	endSession(ctx, session)
	if hasLabel(err, labelTransient) { // another node had the turn's document
		return false, nil
	}
	return false, fault(err)
}

// abortLimit is how long the abort of a transaction may take: the server does it by itself later.
const abortLimit = 2 * time.Second

// endSession gives a session back, and aborts its transaction if that runs: though ctx has ended,
// and no longer than abortLimit on a server that does not answer. It may be called twice.
func endSession(ctx context.Context, session *mongo.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortLimit)
	defer cancel()
	session.EndSession(ctx)
}

func (s *Store) inTransaction(
	ctx context.Context, next turnState, journal []docWrite,
) (bool, error) {
	r, err := s.db.Collection(meta).UpdateOne(ctx, s.ours(), bson.D{{Key: "$set",
		Value: bson.D{{Key: "n", Value: s.turn.n + 1}, {Key: "state", Value: next},
			{Key: "journal", Value: []docWrite{}}}}})
	if err != nil || r.MatchedCount == 0 {
		return false, err
	}
	models := map[string][]mongo.WriteModel{}
	for i := range journal {
		w := &journal[i]
		models[w.In] = append(models[w.In], w.model(s.turn.n+1))
	}
	for name, list := range models {
		_, err := s.db.Collection(name).BulkWrite(ctx, list, options.BulkWrite().SetOrdered(true))
		if err != nil {
			return false, err
		}
	}
	return true, nil
}
