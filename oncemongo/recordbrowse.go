package oncemongo

import (
	"context"
	"encoding/hex"
	"fmt"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/oncekit/once"
)

const defaultRecordPage = 100

// Record implements [once.Browser].
func (r *Records) Record(ctx context.Context, id once.Identity) (once.Record, error) {
	var out once.Record
	err := r.step(ctx, id, withOutcome, func(old *record, now int64) (*record, error) {
		if old == nil || old.expired(now) {
			return nil, once.ErrNotFound
		}
		out = old.public(now)
		return nil, nil
	})
	if err != nil {
		return once.Record{}, stepError("read record", err)
	}
	return out, nil
}

// Records implements [once.Browser]. The order is that of the identities, so that a record is shown
// once, whatever comes meanwhile. One that can't be read is left out.
func (r *Records) Records(ctx context.Context, f once.RecordFilter) (once.RecordPage, error) {
	after, err := hex.DecodeString(f.After) // an _id in hex, which may be somebody else's
	if err != nil || !utf8.Valid(after) {
		return once.RecordPage{}, fmt.Errorf("list records: no page begins at %q", f.After)
	}
	if f.Limit <= 0 {
		f.Limit = defaultRecordPage
	}
	f.After = string(after)
	f.Limit = min(f.Limit, once.MaxRecordPage)
	f.Scope = once.Note{Scope: f.Scope}.Cut().Scope
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	page, err := r.page(ctx, f)
	if err != nil {
		return once.RecordPage{}, fmt.Errorf("list records: %w", unavailable(err))
	}
	return page, nil
}

func (r *Records) page(ctx context.Context, f once.RecordFilter) (once.RecordPage, error) {
	if err := ctx.Err(); err != nil {
		return once.RecordPage{}, err
	}
	now, err := r.now(ctx)
	if err != nil {
		return once.RecordPage{}, err
	}
	cursor, err := r.c.Find(ctx, filterOf(f, now), options.Find().
		SetProjection(bson.D{{Key: "outcome", Value: 0}}).
		SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(int64(f.Limit)+1))
	if err != nil {
		return once.RecordPage{}, err
	}
	var raws []bson.Raw
	if err := cursor.All(ctx, &raws); err != nil {
		return once.RecordPage{}, err
	}
	var page once.RecordPage
	if len(raws) > f.Limit {
		raws = raws[:f.Limit]
		last, _ := raws[f.Limit-1].Lookup("_id").StringValueOK() // the filter asks for texts
		page.Next = hex.EncodeToString([]byte(last))
	}
	for _, raw := range raws {
		rec, err := parseRecord(raw, withoutOutcome)
		if err != nil || rec.expired(now) {
			continue
		}
		if out := rec.public(now); f.State == "" || f.State == out.State {
			page.Records = append(page.Records, out)
		}
	}
	return page, nil
}

// filterOf is a filter as the server takes it.
func filterOf(f once.RecordFilter, now int64) bson.D {
	is := func(key string, value any) bson.E { return bson.E{Key: key, Value: value} }
	date := bson.DateTime(now)
	later := bson.D{is("$gt", date)}
	past := bson.D{is("$lte", date)}
	q := bson.D{is("_id", bson.D{is("$gt", f.After)})}
	switch f.State {
	case "":
		q = append(q, is("$or", bson.A{
			bson.D{is("state", bson.D{is("$in", bson.A{stateInFlight, stateUnknown})})},
			bson.D{is("expires_at", later)},
		}))
	case once.InFlight:
		q = append(q, is("state", stateInFlight), is("lease_end", later))
	case once.Completed:
		q = append(q, is("state", stateCompleted), is("expires_at", later))
	case once.Released:
		q = append(q, is("state", stateReleased), is("expires_at", later))
	default: // lost, or held
		policy := policyRetry
		if f.State == once.Held {
			policy = policyHold
		}
		q = append(q, is("on_unknown", policy), is("$or", bson.A{
			bson.D{is("state", stateUnknown)},
			bson.D{is("state", stateInFlight), is("lease_end", past)},
		}))
	}
	if len(f.Scope) > 0 {
		scope := make([]recordText, len(f.Scope))
		for i, s := range f.Scope {
			scope[i] = recordText(s)
		}
		q = append(q, is("scope", scope))
	}
	return q
}
