package oncepg

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/write"
)

// job is one event on its way.
type job struct {
	write.Event
	target write.Target
	digest once.Fingerprint
	owner  [16]byte // who of all that write this event
	ekey   string
	change formed // set when it is planned
	shape  error  // why it can't be carried out, unless it is recorded
	result *write.Result
	done   bool
}

func (j *job) fail(err error) { j.result.Err, j.done = err, true }

func writeAll(
	ctx context.Context, s *shared, r runner, events []write.Event,
) ([]write.Result, error) {
	if err := write.CheckBatch(events); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	results := make([]write.Result, len(events))
	var token [16]byte
	_, _ = rand.Read(token[:]) // never fails: crypto/rand ends the program instead
	pending := make([]*job, 0, len(events))
	for i, e := range events {
		j, err := s.job(e)
		if err != nil {
			results[i].Err = err
			continue
		}
		// Two events of one call that have the same id are two owners.
		own := token
		binary.BigEndian.PutUint16(own[14:], binary.BigEndian.Uint16(own[14:])^uint16(i))
		j.owner, j.result = own, &results[i]
		pending = append(pending, j)
	}
	v := solver{shared: s, runner: r, until: time.Now().Add(s.conf.Patience)}
	if err := v.solve(ctx, pending); err != nil {
		return nil, err
	}
	return results, nil
}

func (s *shared) job(e write.Event) (*job, error) {
	target, err := s.targets.Check(e)
	if err != nil {
		return nil, err
	}
	digest, err := write.Digest(e)
	if err != nil {
		return nil, err
	}
	ekey, err := write.EncodeKey(e.Key)
	if err != nil {
		return nil, err
	}
	return &job{Event: e, target: target, digest: digest, ekey: ekey}, nil
}

// solver carries out the events of one call, as often as it takes.
type solver struct {
	*shared
	runner
	until   time.Time
	tries   int
	careful bool            // begin READ COMMITTED explicitly
	rivals  int             // how often in a row a rival's record was in the way
	leant   bool            // a lean statement was tried
	twin    bool            // and said that its twin is the right one
	reread  map[string]bool // tables that were read again, since an event didn't fit
}

// solve returns when each event has its result. Its error is for all of them.
func (v *solver) solve(ctx context.Context, pending []*job) error {
	var missed *job // the lean statement did nothing for it
	again := false  // the tables' columns were read again
	for {
		plan, err := v.plan(ctx, pending)
		if err != nil {
			if err = v.meet(ctx, err); err != nil {
				return err
			}
			continue
		}
		if pending = left(pending); len(pending) == 0 {
			return nil
		}
		answers, err := v.send(ctx, plan)
		if err == nil {
			v.rivals = 0
			err = plan.read(answers)
		}
		if pending = left(pending); len(pending) == 0 && err == nil {
			if missed != nil && missed.result.Outcome == write.Applied {
				v.hints.wrong(missed.change.form)
			}
			return nil
		}
		switch {
		case err != nil || plan.lean == notLean:
		case plan.lean == leanOne:
			missed = pending[0]
			continue
		case plan.twin && !v.twin:
			v.hints.wrong(pending[0].change.form)
			v.twin, v.leant = true, false
			continue
		case plan.blocked:
			v.hints.mixed(pending[0].change.form)
			continue
		}
		if shape := shapeError(err); shape != nil {
			switch {
			case len(pending) > 1: // find the one, and let the others go on
				half := len(pending) / 2
				if err := v.solve(ctx, pending[:half]); err != nil {
					return err
				}
				pending = pending[half:]
			case again:
				shape.In = pending[0].In
				if v.isUnnamed(err) {
					shape.Field = pending[0].target.Key
					shape.Reason = "the row would get another key than the event's"
				}
				pending[0].fail(shape)
				return nil
			default: // the table may have changed since
				v.tables.forget(pending[0].target.Name)
				again = true
			}
			continue
		}
		if err := v.meet(ctx, err); err != nil {
			return err
		}
	}
}

// send carries out statements. Outside of a caller's transaction, whose connection a deadline would
// end, they get no longer than the call's patience: a rival may hold a row for as long as it likes.
func (v *solver) send(ctx context.Context, p plan) ([][]row, error) {
	if !v.joined() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, v.until)
		defer cancel()
	}
	_, isPool := v.runner.(poolRunner)
	if one := len(p.jobs) == 1 && len(p.jobs[0]) == 1; !isPool || one {
		return v.run(ctx, p.queries, v.careful)
	}
	planning := planAnew
	if p.lean == leanAll {
		planning = planLean
	}
	answers, err := v.run(ctx, slices.Insert(p.queries, 0, query{sql: planning}), v.careful)
	if err != nil {
		return nil, err
	}
	return answers[1:], nil
}

// planAnew, for this transaction only, has the statements after it planned for the tables as they
// are, and for as many events. A kept plan is from when the tables were small, and would go on
// reading all of them until statistics are made again. For one event it would cost more than the
// statement.
const planAnew = "SELECT set_config('plan_cache_mode', 'force_custom_plan', true)"

// left are those that have no result.
func left(jobs []*job) []*job {
	var rest []*job
	for _, j := range jobs {
		if !j.done {
			rest = append(rest, j)
		}
	}
	return rest
}

// maxRivals is how often a record that can't be seen may be in the way inside a caller's
// transaction: at READ COMMITTED it is seen by the next statement.
const maxRivals = 3

// meet decides what is done about an error, or about events that met a rival (nil): it waits, and
// returns nil to try again, or the error that the caller gets.
func (v *solver) meet(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("write events: %w", context.Cause(ctx))
	}
	trouble := troubleOf(err)
	switch {
	case codeOf(err) == codeCanceled: // by statement_timeout
		return fmt.Errorf("write events: %w: %w", write.ErrBusy, err)
	case trouble == noTrouble:
		return fmt.Errorf("write events: %w", err)
	case trouble == lost && v.joined():
		return fmt.Errorf("write events: %w: %w", once.ErrUnavailable, err)
	case trouble == serialization && v.joined():
		return fmt.Errorf("write events: begin the transaction again: %w: %w", write.ErrBusy, err)
	case trouble == serialization:
		v.careful = true
	case trouble == rival && v.joined() && err != nil:
		if v.rivals++; v.rivals == maxRivals {
			return fmt.Errorf("write events: begin the transaction again: %w", write.ErrBusy)
		}
	}
	if time.Now().After(v.until) {
		if trouble == lost {
			return fmt.Errorf("write events: %w: %w", once.ErrUnavailable, err)
		}
		return fmt.Errorf("write events: %w", write.ErrBusy)
	}
	v.tries++
	if trouble == lost || v.tries > 10 {
		v.conf.Logger.LogAttrs(ctx, levelOf(trouble), "writing events again",
			attrs(v.tries, trouble)...)
	}
	return pause(ctx, v.tries)
}

// Pauses between tries: full jitter below a bound that doubles.
const (
	firstPause = 2 * time.Millisecond
	maxPause   = 200 * time.Millisecond
)

func pause(ctx context.Context, tries int) error {
	most := min(maxPause, firstPause<<min(tries, 10))
	timer := time.NewTimer(mathrand.N(most))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("write events: %w", context.Cause(ctx))
	case <-timer.C:
		return nil
	}
}

// take reads what an answer's row says of an event.
func (j *job) take(r row) error {
	text := func(i int) string {
		if r[i] == nil {
			return ""
		}
		return *r[i]
	}
	switch text(atWhat) {
	case isNew:
		j.applied(r[atNumbers])
		j.result.Outcome = write.Outcome(text(atOutcome)) // perhaps it is stale
		return nil
	case isOld:
		return j.takeOld(text)
	}
	switch text(atOutcome) {
	case notExists:
		j.fail(fmt.Errorf("insert: %w", write.ErrExists))
	case notMissing:
		j.fail(&write.StateError{Missing: true, From: j.change.from, To: j.to()})
	case notState:
		j.fail(&write.StateError{State: text(atNumbers), From: j.change.from, To: j.to()})
	case notShape:
		c := j.change.columns[j.change.list]
		j.fail(&write.ShapeError{In: j.In, Field: c.name, Reason: "holds JSON that is no list"})
	}
	return nil // else it met a rival
}

// applied is for an event that was written now.
func (j *job) applied(numbers *string) {
	*j.result = write.Result{Outcome: write.Applied}
	if numbers != nil {
		j.result.Numbers = numbersOf(*numbers)
	}
	j.done = true
}

func (j *job) to() string { return *j.change.values[j.change.state] }

// takeOld is for an event that is recorded: by this very call, if an answer got lost.
func (j *job) takeOld(text func(int) string) error {
	micro, err := strconv.ParseInt(text(atTime), 10, 64)
	if err != nil {
		return fmt.Errorf("read event: %w: time", once.ErrCorrupt)
	}
	digest, err := digestOf(text(atDigest))
	if err != nil {
		return err
	}
	record := write.Record{
		Digest: digest,
		First: write.First{
			Outcome: write.Outcome(text(atOutcome)), At: time.UnixMicro(micro).UTC(),
			In: text(atTarget),
		},
		Numbers: numbersOf(text(atNumbers)),
	}
	if key := text(atKey); key != "" {
		if record.First.Key, err = write.DecodeKey(key); err != nil {
			return fmt.Errorf("read event: %w", err)
		}
	}
	j.done = true
	if text(atOwner) == hex.EncodeToString(j.owner[:]) {
		*j.result = write.Result{Outcome: record.First.Outcome, Numbers: record.Numbers}
		return nil
	}
	*j.result = record.Answer(j.digest)
	return nil
}

func digestOf(digits string) (once.Fingerprint, error) {
	var f once.Fingerprint
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != len(f) {
		return f, fmt.Errorf("read event: %w: digest", once.ErrCorrupt)
	}
	return once.Fingerprint(b), nil
}

// numbersOf reads what was recorded. What is no number (NaN was in the column before) is left out:
// the change is made, and that is no reason to say otherwise.
func numbersOf(text string) write.Fields {
	numbers, err := write.DecodeNumbers(text)
	if err != nil {
		return nil
	}
	return numbers
}
