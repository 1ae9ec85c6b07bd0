package oncemongo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The store has one document, the turn, through which every commit of every node goes. It says who
// may commit (epoch), how many commits there were (n), and what the last one writes (journal). A
// commit is one conditional update of it: that is the moment at which all of the commit has
// happened. What it writes is carried out behind, by whoever committed or, if that one is lost, by
// the next one to take the turn, before it reads anything. See docs/adr/0019.

const turnID = "turn"

// turnDoc is the turn as it is stored.
type turnDoc struct {
	ID string `bson:"_id"`
	// Epoch rises each time somebody takes the turn; a commit under an older one changes nothing.
	Epoch int64 `bson:"epoch"`
	// Holder is the node that has the turn; empty: nobody.
	Holder string `bson:"holder"`
	// Beat rises while the holder is at work, so that others see that it lives.
	Beat int64 `bson:"beat"`
	// Wanted is the node that waits for the turn; empty: none, or it is not known.
	Wanted string `bson:"wanted"`
	// N is the number of the last commit.
	N     int64     `bson:"n"`
	State turnState `bson:"state"`
	// Journal is what the last commit writes.
	Journal []docWrite `bson:"journal"`
}

// turnState is what a batch has to know before it reads anything, and changes with it.
type turnState struct {
	// Last is the last number that a row or a task was given.
	Last int64 `bson:"last"`
	// At is the latest time of a commit.
	At stamp `bson:"at"`
	// Timer is when something is due by time, or earlier; 0: nothing waits for a time.
	Timer stamp `bson:"timer"`
	// Overdue is when a task will have stood still too long, or earlier; 0: none does.
	Overdue stamp `bson:"overdue"`
	// WaitsEnd puts off the limits of waits that came while nobody served the store.
	WaitsEnd stamp `bson:"waits_end"`
	// Waiting is how many rows wait for something, or were woken and not worked yet.
	Waiting int64       `bson:"waiting"`
	Lanes   []laneState `bson:"lanes"`
	// Wakes are what is left of wakes of very many rows.
	Wakes []unfinishedWake `bson:"wakes"`
}

// laneState is what is kept of a lane.
type laneState struct {
	Name string `bson:"name"`
	// Kinds has the bit of each kind of row that was ever put into it.
	Kinds int64 `bson:"kinds"`
	// InLine, Working and Suspects count its rows in line, its rows in somebody's hands, and those
	// of them that lost a worker before.
	InLine   int64 `bson:"in_line"`
	Working  int64 `bson:"working"`
	Suspects int64 `bson:"suspects"`
}

// lane returns what is kept of a lane.
func (s *turnState) lane(name string) laneState {
	for _, l := range s.Lanes {
		if l.Name == name {
			return l
		}
	}
	return laneState{Name: name}
}

// turn is what a node knows of the turn while it has it. Only the writer uses it.
type turn struct {
	held     bool
	epoch, n int64
	state    turnState
	// counts are the kept counters as of commit n.
	counts map[counterKey]int64
	// owed is true while the journal may not have been carried out.
	owed bool
	// since is when it was taken.
	since time.Time
}

// errTurnLost says that another node has taken the turn: nothing of the batch was committed.
var errTurnLost = errors.New("another node has the turn")

// readTurn reads the turn; what of it is chosen by fields, nil for all.
func (s *Store) readTurn(ctx context.Context, fields bson.D) (turnDoc, error) {
	var doc turnDoc
	found, err := s.find(ctx, meta, bson.D{{Key: "_id", Value: turnID}}, nil, 1, fields)
	if err != nil {
		return doc, fmt.Errorf("read the turn: %w", err)
	}
	if len(found) == 0 {
		return doc, fmt.Errorf("read the turn: it is gone: %w", errDamaged)
	}
	if err := bson.Unmarshal(found[0], &doc); err != nil {
		return doc, fmt.Errorf("read the turn: %w: %w", errDamaged, err)
	}
	return doc, nil
}

// headFields are all of the turn but the journal and the state.
var headFields = bson.D{{Key: "epoch", Value: 1}, {Key: "holder", Value: 1},
	{Key: "beat", Value: 1}, {Key: "wanted", Value: 1}, {Key: "n", Value: 1},
	{Key: "state.timer", Value: 1}}

// take gets the turn, waiting for whoever has it, carries out what an earlier holder owes, and
// reads what the writer keeps in memory.
func (s *Store) take(ctx context.Context) error {
	if s.turn.held {
		return nil
	}
	wait := newTurnWait(s)
	for {
		head, err := s.readTurn(ctx, headFields)
		if err != nil {
			return err
		}
		lost, may := wait.may(head)
		if !may {
			if err := wait.pause(ctx, head); err != nil {
				return err
			}
			continue
		}
		doc, err := s.grab(ctx, head.Epoch)
		if errors.Is(err, errTurnLost) {
			continue
		}
		if err != nil {
			return err
		}
		return s.begin(ctx, doc, lost)
	}
}

// grab takes the turn if its epoch is still the one that was seen, and returns it as it is from
// then on: nobody else commits under the new epoch.
func (s *Store) grab(ctx context.Context, epoch int64) (turnDoc, error) {
	changed, err := s.setTurn(ctx, epoch, bson.D{{Key: "epoch", Value: epoch + 1},
		{Key: "holder", Value: s.node}, {Key: "wanted", Value: ""}})
	if err != nil {
		return turnDoc{}, err
	}
	if !changed {
		return turnDoc{}, errTurnLost
	}
	doc, err := s.readTurn(ctx, nil)
	if err == nil && (doc.Epoch != epoch+1 || doc.Holder != s.node) {
		err = errTurnLost
	}
	return doc, err
}

// setTurn changes the turn if its epoch is the given one, and reports whether it was.
func (s *Store) setTurn(ctx context.Context, epoch int64, set bson.D) (bool, error) {
	r, err := s.db.Collection(meta, quickly()).UpdateOne(ctx,
		bson.D{{Key: "_id", Value: turnID}, {Key: "epoch", Value: epoch}},
		bson.D{{Key: "$set", Value: set}})
	if err != nil {
		return false, fault(err)
	}
	return r.MatchedCount == 1, nil
}

// begin carries out the journal, which an earlier holder may owe, and reads the counters.
func (s *Store) begin(ctx context.Context, doc turnDoc, lost bool) error {
	mine := doc.Epoch == s.turn.epoch+1 && doc.N == s.turn.n && !s.turn.owed
	s.turn.epoch, s.turn.n, s.turn.state = doc.Epoch, doc.N, doc.State
	if !mine || s.turn.counts == nil { // somebody was in between
		s.turn.owed = true
		if err := s.carryOut(ctx, doc.N, doc.Journal); err != nil {
			return err
		}
		counts, err := s.readCounts(ctx)
		if err != nil {
			return err
		}
		s.turn.counts = counts
		s.forgetLive()
		s.bells.ringAll()
	}
	s.turn.owed, s.turn.held, s.turn.since = false, true, time.Now()
	if lost { // whoever had it may have been ended by a row: those at the head are worked singly
		for _, l := range doc.State.Lanes {
			s.singly[l.Name] = suspectRows
		}
	}
	return nil
}

// release lets others have the turn.
func (s *Store) release(ctx context.Context) {
	if !s.turn.held {
		return
	}
	s.turn.held = false
	if _, err := s.setTurn(ctx, s.turn.epoch, bson.D{{Key: "holder", Value: ""}}); err != nil {
		s.cfg.Logger.Warn("the turn was not given back; others wait until they see that its "+
			"holder does nothing", "error", err)
	}
}

// turnWait watches a turn that somebody else has.
type turnWait struct {
	s     *Store
	seen  turnDoc
	since time.Time
}

func newTurnWait(s *Store) *turnWait { return &turnWait{s: s} }

// may reports whether the turn can be taken as it was read, and whether its holder is lost: it did
// nothing for so long that it has ended or stands still. No clock but our own is asked, and that
// only for how long nothing changed.
func (w *turnWait) may(head turnDoc) (lost, ok bool) {
	if w.since.IsZero() || head.Epoch != w.seen.Epoch || head.N != w.seen.N ||
		head.Beat != w.seen.Beat {
		w.seen, w.since = head, time.Now()
	}
	quiet := time.Since(w.since)
	switch {
	case head.Holder == "" && (head.Wanted == "" || head.Wanted == w.s.node):
		return false, true
	case head.Holder == "": // another one waits longer; it may be gone
		return false, quiet >= w.s.cfg.turnYield
	case head.Holder == w.s.node: // ours, of a commit that was in doubt
		return false, true
	case w.s.cfg.alone:
		return true, true
	}
	return true, quiet >= w.s.cfg.turnLost
}

// pause says that we want the turn, and waits a little.
func (w *turnWait) pause(ctx context.Context, head turnDoc) error {
	if head.Wanted == "" {
		want := bson.D{{Key: "wanted", Value: w.s.node}}
		if _, err := w.s.setTurn(ctx, head.Epoch, want); err != nil {
			return err
		}
	}
	t := time.NewTimer(w.s.cfg.turnPause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return fault(ctx.Err())
	case <-t.C:
		return nil
	}
}
