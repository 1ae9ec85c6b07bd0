package oncemongo

import (
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once"
	"github.com/oncekit/once/write"
)

// The states of an event's record. Only pending means that there is something to be done.
const (
	// statePending: the change may have been made or not; anyone can finish it.
	statePending = "pending"
	// stateApplied and stateStale: it is done and remembered for the retention.
	stateApplied = "applied"
	stateStale   = "stale"
	// stateRefused: the change could not be made. The event is not remembered: whoever brings it
	// again takes the record over. It stays as a document so that an insert that comes late, from
	// a connection that broke, finds its id taken.
	stateRefused = "refused"
)

// eventRecord is what the collection of events holds of one.
type eventRecord struct {
	ID     string      `bson:"_id"`
	State  string      `bson:"state"`
	Digest bson.Binary `bson:"digest"`
	In     string      `bson:"in"`
	Key    any         `bson:"key"`
	// Change is as package write encodes it; only while pending.
	Change string `bson:"change,omitempty"`
	// Owner is the call that brought it.
	Owner bson.ObjectID `bson:"owner"`
	// Tries counts those who registered to finish it, besides its owner's first attempt, and the
	// refusals after which a command may still be on its way: above 0, whoever ends it raises the
	// document's epoch.
	Tries   int64     `bson:"tries,omitempty"`
	Numbers string    `bson:"numbers,omitempty"` // as package write encodes them
	At      time.Time `bson:"at,omitempty"`      // when it left pending, by the server's clock
}

// record is what package write answers from.
func (r *eventRecord) record() (write.Record, error) {
	digest, err := r.fingerprint()
	if err != nil {
		return write.Record{}, err
	}
	numbers, err := write.DecodeNumbers(r.Numbers)
	if err != nil {
		return write.Record{}, fmt.Errorf("event record: %w", err)
	}
	first := write.First{Outcome: write.Applied, At: r.At.UTC(), In: r.In, Key: keyFromBSON(r.Key)}
	if r.State == stateStale {
		first.Outcome = write.Stale
	}
	return write.Record{Digest: digest, First: first, Numbers: numbers}, nil
}

func (r *eventRecord) fingerprint() (once.Fingerprint, error) {
	if len(r.Digest.Data) != len(once.Fingerprint{}) {
		return once.Fingerprint{}, fmt.Errorf("event record: %w", once.ErrCorrupt)
	}
	return once.Fingerprint(r.Digest.Data), nil
}

func keyFromBSON(key any) any {
	if k, isInt := key.(int32); isInt {
		return int64(k)
	}
	return key
}

// writeJob is one event on its way.
type writeJob struct {
	event  write.Event
	target write.Target
	digest once.Fingerprint
	change string
	plan   *changePlan
	owner  bson.ObjectID
	// mine: this call remembered the event; else it finishes what another one began.
	mine bool
	// epoch is one that the document had before the record was there; 0, the first one, it had.
	epoch int64
	// rivals: somebody else may be at the same event, or a command of this call may still be on its
	// way. What is taken out of the document's list then bars them all.
	rivals bool
	// tries is what the record's Tries were when this job last saw them.
	tries int64
	// missed is why the last attempt made no change.
	missed error
	// taken counts how often a unique index had what was to be made, and no document the key; full,
	// how often the document's list was full.
	taken, full int
	// place is where the event stands in its batch.
	place int
}

// record is the job's record, in a state.
func (j *writeJob) record(state string) eventRecord {
	r := eventRecord{
		ID:     j.event.ID,
		State:  state,
		Digest: bson.Binary{Data: j.digest[:]},
		In:     j.event.In,
		Key:    keyToBSON(j.event.Key),
		Owner:  j.owner,
	}
	if state == statePending {
		r.Change = j.change
	}
	return r
}

// newJob checks an event and puts its words together. Nothing is asked of a server.
func (w *Writer) newJob(e write.Event, facts Facts) (*writeJob, error) {
	target, err := w.targets.Check(e)
	if err != nil {
		return nil, err
	}
	digest, err := write.Digest(e)
	if err != nil {
		return nil, err
	}
	change, err := write.EncodeChange(e.Change)
	if err != nil {
		return nil, err
	}
	if most := facts.MaxDocument - recordRoom; facts.MaxDocument > 0 && len(change) > most {
		return nil, &write.EventError{
			Field:    "Change",
			Reason:   fmt.Sprintf("takes more than %d bytes as it is remembered", most),
			TooLarge: true,
		}
	}
	plan, err := planOf(e.Change, facts.Decimals)
	if err != nil {
		return nil, err
	}
	return &writeJob{
		event: e, target: target, digest: digest, change: string(change), plan: plan,
		owner: bson.NewObjectID(), mine: true,
	}, nil
}

// recordRoom is what a record needs besides its change, in bytes.
const recordRoom = 16 << 10

// jobOf takes up what a record says that is to be done.
func (w *Writer) jobOf(r *eventRecord, facts Facts) (*writeJob, error) {
	change, err := write.DecodeChange([]byte(r.Change))
	if err != nil {
		return nil, err
	}
	e := write.Event{ID: r.ID, In: r.In, Key: keyFromBSON(r.Key), Change: change}
	j, err := w.newJob(e, facts)
	if err != nil {
		return nil, fmt.Errorf("take up pending event: %w", err)
	}
	j.owner, j.mine, j.rivals, j.tries = r.Owner, false, true, r.Tries
	return j, nil
}

// self finds the job's document.
func (j *writeJob) self() bson.D {
	return bson.D{{Key: j.target.Key, Value: keyToBSON(j.event.Key)}}
}
