package oncemongo

import (
	"context"
	"errors"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/oncekit/once/write"
)

// WriteAll writes up to write.MaxBatch events, in the order given where they change one document.
// In steps that is six round trips if nothing stands in the way, and three more for each further
// collection; what stands in the way of an event costs those of a single one. The error is for a
// batch that is too large, and for one of which no result is known.
func (w *Writer) WriteAll(ctx context.Context, events []write.Event) ([]write.Result, error) {
	facts, err := w.opened()
	if err != nil {
		return nil, err
	}
	if err := write.CheckBatch(events); err != nil {
		return nil, err
	}
	b := &batch{w: w, results: make([]write.Result, len(events)), first: map[string]int{}}
	jobs := make([]*writeJob, len(events))
	for i, e := range events {
		if jobs[i], b.results[i].Err = w.newJob(e, facts); jobs[i] != nil {
			jobs[i].place = i
		}
	}
	// A batch may take longer than one event.
	limited, cancel := context.WithTimeout(ctx, w.conf.Patience*batchPatience)
	defer cancel()
	b.write(limited, slices.DeleteFunc(jobs, func(j *writeJob) bool { return j == nil }))
	if len(events) > 0 && allUnknown(b.results) {
		return nil, b.results[0].Err
	}
	return b.results, nil
}

const (
	// batchPatience is how many times the wait of one call a batch may take.
	batchPatience = 3
	// batchRounds bounds how often what follows a change that was refused is sent again at once.
	batchRounds = 8
)

// allUnknown tells whether the server gave no answer about any event.
func allUnknown(results []write.Result) bool {
	return !slices.ContainsFunc(results, func(r write.Result) bool {
		return r.Err == nil || !isUnavailable(r.Err)
	})
}

func resultOf(r write.Result, err error) write.Result {
	if err != nil {
		return write.Result{Err: err}
	}
	return r
}

// batch collects the results of a batch.
type batch struct {
	w       *Writer
	results []write.Result
	first   map[string]int // the place of the first event with an id
}

func (b *batch) set(j *writeJob, r write.Result, err error) {
	b.results[j.place] = resultOf(r, err)
}

// write writes events as if one came after the other: those that are new, and follow each other, in
// runs.
func (b *batch) write(ctx context.Context, jobs []*writeJob) {
	fresh, open := b.begin(ctx, jobs)
	var run, known []*writeJob
	for _, j := range jobs {
		first, repeated := b.first[j.event.ID]
		if !repeated {
			b.first[j.event.ID] = j.place
		}
		switch {
		case repeated && b.sameFate(run, j):
			known = append(known, j)
		case repeated:
			run = b.flush(ctx, run)
			if b.results[first].Err == nil {
				known = append(known, j)
			} else {
				b.single(ctx, j)
			}
		case fresh[j]:
			run = append(run, j)
		case open[j]:
			run = b.flush(ctx, run)
			b.single(ctx, j)
		}
	}
	b.flush(ctx, run)
	b.repeat(ctx, known)
}

// begin finds out which events are new. Those of which something else than an answer is known are
// open. In steps, the records of the new ones are made by it.
func (b *batch) begin(ctx context.Context, jobs []*writeJob) (fresh, open map[*writeJob]bool) {
	seen := map[string]bool{}
	var once []*writeJob
	for _, j := range jobs {
		if !seen[j.event.ID] {
			seen[j.event.ID] = true
			once = append(once, j)
		}
	}
	if b.w.now().Transactions {
		left := b.answer(ctx, once)
		return setOf(left), nil
	}
	for _, j := range once {
		j.epoch = b.w.epochs.get(j) // before the records are there
	}
	made, others := b.remember(ctx, once)
	return setOf(made), setOf(b.answer(ctx, others))
}

func setOf(jobs []*writeJob) map[*writeJob]bool {
	set := make(map[*writeJob]bool, len(jobs))
	for _, j := range jobs {
		set[j] = true
	}
	return set
}

// sameFate tells whether an event repeats one of the run that is not written yet, and nothing
// between the two could let it have another end than that one.
func (b *batch) sameFate(run []*writeJob, j *writeJob) bool {
	i := slices.IndexFunc(run, func(e *writeJob) bool { return e.event.ID == j.event.ID })
	if i < 0 || run[i].digest != j.digest {
		return false
	}
	return !slices.ContainsFunc(run[i+1:], func(e *writeJob) bool {
		return epochKey(e) == epochKey(j)
	})
}

// repeat answers events that others of the batch were before, with the same id.
func (b *batch) repeat(ctx context.Context, jobs []*writeJob) {
	var written []*writeJob
	for _, j := range jobs {
		if err := b.results[b.first[j.event.ID]].Err; err != nil {
			b.set(j, write.Result{}, err)
		} else {
			written = append(written, j)
		}
	}
	for _, j := range b.answer(ctx, written) {
		b.single(ctx, j)
	}
}

// single writes an event by itself.
func (b *batch) single(ctx context.Context, j *writeJob) {
	r, err := b.w.writeOne(ctx, j)
	b.set(j, r, err)
}

// flush writes a run of new events, and returns an empty one.
func (b *batch) flush(ctx context.Context, run []*writeJob) []*writeJob {
	if len(run) == 0 {
		return nil
	}
	if b.w.now().Transactions {
		for _, j := range b.w.batchInTransaction(ctx, b, run) {
			b.single(ctx, j)
		}
		return nil
	}
	if err := b.w.stop(stepRecord); err != nil {
		b.fail(run, err)
		return nil
	}
	for len(run) > 0 {
		n := b.wave(run)
		b.carry(ctx, run[:n])
		run = run[n:]
	}
	return nil
}

func (b *batch) fail(jobs []*writeJob, err error) {
	for _, j := range jobs {
		b.set(j, write.Result{}, err)
	}
}

// wave is how many of the events can be between their change and their mark at a time: each
// document's list has to have room for those of others, and what they add has to be known.
func (b *batch) wave(jobs []*writeJob) int {
	most := max(1, b.w.conf.Pending/2)
	earlier := map[string][]*writeJob{}
	for i, j := range jobs {
		key := epochKey(j)
		if len(earlier[key]) == most || !j.follows(earlier[key]) {
			return i
		}
		earlier[key] = append(earlier[key], j)
	}
	return len(jobs)
}

// remember is step 1 of all. Those whose record could not be made, or of which nobody knows, are
// the others.
func (b *batch) remember(ctx context.Context, jobs []*writeJob) (fresh, others []*writeJob) {
	records := make([]any, len(jobs))
	for i, j := range jobs {
		records[i] = j.record(statePending)
	}
	_, err := b.w.events.InsertMany(ctx, records, options.InsertMany().SetOrdered(false))
	if err == nil {
		return jobs, nil
	}
	var bulk mongo.BulkWriteException
	if !errors.As(err, &bulk) || bulk.WriteConcernError != nil {
		return nil, jobs // a single write meets its own record as its own
	}
	refusedAt := map[int]bool{}
	for _, e := range bulk.WriteErrors {
		refusedAt[e.Index] = true
	}
	for i, j := range jobs {
		if refusedAt[i] {
			others = append(others, j)
		} else {
			fresh = append(fresh, j)
		}
	}
	return fresh, others
}

// answer gives the results of events that are remembered as done, and returns the others.
func (b *batch) answer(ctx context.Context, jobs []*writeJob) (open []*writeJob) {
	if len(jobs) == 0 {
		return nil
	}
	known, err := b.w.recallAll(ctx, jobs)
	if err != nil {
		return jobs // each is asked for again
	}
	for _, j := range jobs {
		r := known[j.event.ID]
		if r == nil || r.State != stateApplied && r.State != stateStale {
			open = append(open, j)
			continue
		}
		kept, err := r.record()
		if err != nil {
			b.set(j, write.Result{}, err)
			continue
		}
		b.set(j, kept.Answer(j.digest), nil)
	}
	return open
}

// recallAll reads the records of events, by their ids.
func (w *Writer) recallAll(
	ctx context.Context, jobs []*writeJob,
) (map[string]*eventRecord, error) {
	ids := make(bson.A, len(jobs))
	for i, j := range jobs {
		ids[i] = j.event.ID
	}
	var found []eventRecord
	cursor, err := w.events.Find(ctx,
		bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}})
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	if err != nil {
		return nil, err
	}
	known := make(map[string]*eventRecord, len(found))
	for i := range found {
		known[found[i].ID] = &found[i]
	}
	return known, nil
}

// byCollection are the jobs of each collection, in the order of the first of each.
func byCollection(jobs []*writeJob) [][]*writeJob {
	var groups [][]*writeJob
	at := map[string]int{}
	for _, j := range jobs {
		i, found := at[j.target.Name]
		if !found {
			i = len(groups)
			at[j.target.Name] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], j)
	}
	return groups
}
