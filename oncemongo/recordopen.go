package oncemongo

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Names of the indexes. The first one is made where the server has TTL indexes, the second one
// elsewhere.
const (
	recordsTTLIndex    = "once_expires_ttl"
	recordsExpiryIndex = "once_expires"
	recordsStateIndex  = "once_state"
)

// Open tries the server ([Probe]) and makes the collection's indexes, so that no request pays for
// that. A server that can't be used is an error that wraps [ErrServer]; one that can't be asked
// wraps [once.ErrUnavailable]. It may be called again.
func (r *Records) Open(ctx context.Context) error {
	facts, err := Probe(ctx, r.db)
	if err != nil {
		return fmt.Errorf("open mongodb records: %w", probeError(err))
	}
	if err := r.makeIndexes(ctx, facts); err != nil {
		if !refused(err) {
			err = unavailable(err)
		}
		return fmt.Errorf("open mongodb records: make indexes of %s.%s: %w", r.db.Name(),
			r.cfg.Collection, err)
	}
	return nil
}

// probeError makes what is no judgement of the server one of its reach.
func probeError(err error) error {
	if errors.Is(err, ErrServer) {
		return err
	}
	return unavailable(err)
}

// makeIndexes makes one index for the expiry, which is no more than cleaning: each step looks at
// the date itself. Where there are TTL indexes the server cleans with it, elsewhere [Records.Sweep]
// does. The other one is for people, who look for the few that are not completed.
func (r *Records) makeIndexes(ctx context.Context, facts Facts) error {
	expiry := mongo.IndexModel{
		Keys:    bson.D{{Key: "expires_at", Value: 1}},
		Options: options.Index().SetName(recordsExpiryIndex),
	}
	if facts.TTL {
		expiry.Options.SetName(recordsTTLIndex).SetExpireAfterSeconds(0)
	}
	state := mongo.IndexModel{
		Keys:    bson.D{{Key: "state", Value: 1}, {Key: "_id", Value: 1}},
		Options: options.Index().SetName(recordsStateIndex),
	}
	for _, index := range []mongo.IndexModel{expiry, state} { // FerretDB panics over both in one
		if _, err := r.c.Indexes().CreateOne(ctx, index); err != nil {
			return err
		}
	}
	return nil
}

// Ping asks the primary for its time, which each step needs.
func (r *Records) Ping(ctx context.Context) error {
	if _, err := r.now(ctx); err != nil {
		return fmt.Errorf("ping mongodb: %w", unavailable(err))
	}
	return nil
}

// now is the server's time in ms.
//
// It is what hello says, in a round trip beside the one that reads the record, and not $$NOW, which
// only updates with pipelines know: the whole of a step would have to be written as one. Both are
// the clock of the same server. What hello says is older than the write that follows, never newer,
// so it is wrong to the safe side: no lease is judged to have ended that runs, and since it is read
// after the step's beginning, no lease ends before its owner counts on it.
func (r *Records) now(ctx context.Context) (int64, error) {
	at, err := serverTime(ctx, r.db)
	if err != nil {
		return 0, err
	}
	return at.UnixMilli() + r.offset.Load(), nil
}
