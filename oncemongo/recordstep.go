package oncemongo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/oncekit/once"
)

const (
	// stepLimit bounds a step whose caller set no deadline.
	stepLimit = 30 * time.Second
	// maxTries bounds how often a step is decided. Of those who write one record at the same time
	// one succeeds in each round, and the others mostly have nothing left to write.
	maxTries = 200
	// maxFaults bounds how often a step asks again after a fault: a connection that broke, a query
	// that the server gave up, a primary that stepped down.
	maxFaults = 8
	// faultPause is the pause after the first of them, at most; it doubles with each: together half
	// a second.
	faultPause = 2 * time.Millisecond
)

// outcomePart says whether the data of an outcome, which may be large, is read too.
type outcomePart bool

const (
	withOutcome    outcomePart = true
	withoutOutcome outcomePart = false
)

// step reads a record, lets it be decided about, and writes what was decided if the record is still
// the one that was read; otherwise it begins anew. After a fault, whether the write happened is
// read back: each decision knows what it has done by the owner's token.
func (r *Records) step(
	ctx context.Context, id once.Identity, part outcomePart,
	decide func(old *record, now int64) (*record, error),
) error {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	faults := 0
	for range maxTries {
		err := ctx.Err()
		var written bool
		var answer error
		if err == nil {
			written, answer, err = r.try(ctx, id, part, decide)
		}
		switch {
		case errors.Is(err, once.ErrCorrupt):
			return err
		case err != nil && ctx.Err() == nil && faults < maxFaults:
			pause(ctx, faultPause<<faults)
			faults++
		case err != nil:
			return unavailable(err)
		case written:
			return answer
		}
	}
	return unavailable(fmt.Errorf("another writer came first %d times", maxTries))
}

// pause waits for up to d, or until ctx ends: each caller for another time, so that they don't come
// together again.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d/2 + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// try makes one round of a step. It is not written if another writer came first.
func (r *Records) try(
	ctx context.Context, id once.Identity, part outcomePart,
	decide func(old *record, now int64) (*record, error),
) (written bool, answer, err error) {
	old, now, err := r.look(ctx, id, part)
	if err != nil {
		return false, nil, err
	}
	next, answer := decide(old, now)
	if next == nil {
		return true, answer, nil
	}
	if old == nil {
		written, err = r.insert(ctx, next)
	} else {
		written, err = r.replace(ctx, old, next)
	}
	return written, answer, err
}

// look reads a record, nil if there is none, and the server's time in ms. Both are asked for at the
// same time, so that together they take one round trip. The time is one after the beginning of the
// step and before its write, however long this process is stopped in between: a lease that starts
// then is never shorter than its owner counts, and one that had ended then has ended.
func (r *Records) look(
	ctx context.Context, id once.Identity, part outcomePart,
) (*record, int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type reading struct {
		now int64
		err error
	}
	clock := make(chan reading, 1)
	go func() {
		now, err := r.now(ctx)
		clock <- reading{now, err}
	}()
	opts := options.FindOne()
	if part == withoutOutcome {
		opts.SetProjection(bson.D{{Key: "outcome", Value: 0}})
	}
	raw, err := r.c.FindOne(ctx, bson.D{{Key: "_id", Value: recordID(id)}}, opts).Raw()
	absent := errors.Is(err, mongo.ErrNoDocuments)
	if err != nil && !absent {
		return nil, 0, err
	}
	c := <-clock // ends with ctx
	if c.err != nil || absent {
		return nil, c.now, c.err
	}
	old, err := parseRecord(raw, part)
	return old, c.now, err
}

// insert writes a first record. It is false if another one was there.
func (r *Records) insert(ctx context.Context, next *record) (bool, error) {
	next.Revision = 1
	_, err := r.c.InsertOne(ctx, next)
	if mongo.IsDuplicateKeyError(err) {
		return false, nil // _id is the only unique field; whose it is is read
	}
	return err == nil, err
}

// replace writes what changes of a record. It is false if the record is no longer the one that was
// read: the owner's token and the revision together were never those of another one.
func (r *Records) replace(ctx context.Context, old, next *record) (bool, error) {
	next.Revision = old.Revision + 1
	update, err := recordChanges(old, next)
	if err != nil {
		return false, err
	}
	res, err := r.c.UpdateOne(ctx, bson.D{
		{Key: "_id", Value: old.ID}, {Key: "owner", Value: old.Owner},
		{Key: "fence", Value: old.Fence}, {Key: "revision", Value: old.Revision},
	}, update)
	if err != nil {
		return false, err
	}
	return res.MatchedCount == 1, nil
}

// recordChanges is the update that makes the next record out of the old one. The data of an outcome
// only goes with the state completed, so that it is never sent again.
func recordChanges(old, next *record) (bson.D, error) {
	var fields [2]bson.Raw
	for i, r := range []*record{old, next} {
		bare := *r
		bare.Outcome = nil
		b, err := bson.Marshal(bare)
		if err != nil {
			return nil, err
		}
		fields[i] = b
	}
	before, err := fields[0].Elements()
	if err != nil {
		return nil, err
	}
	after, err := fields[1].Elements()
	if err != nil {
		return nil, err
	}
	var set, unset bson.D
	for _, e := range after {
		was, err := fields[0].LookupErr(e.Key())
		if err != nil || !was.Equal(e.Value()) {
			set = append(set, bson.E{Key: e.Key(), Value: e.Value()})
		}
	}
	for _, e := range before {
		if _, err := fields[1].LookupErr(e.Key()); err != nil {
			unset = append(unset, bson.E{Key: e.Key(), Value: ""})
		}
	}
	switch was := old.State == stateCompleted; {
	case was && next.State != stateCompleted:
		unset = append(unset, bson.E{Key: "outcome", Value: ""})
	case !was && next.State == stateCompleted && len(next.Outcome) > 0:
		set = append(set, bson.E{Key: "outcome", Value: next.Outcome})
	}
	update := bson.D{{Key: "$set", Value: set}} // the revision is always in it
	if len(unset) > 0 {
		update = append(update, bson.E{Key: "$unset", Value: unset})
	}
	return update, nil
}
