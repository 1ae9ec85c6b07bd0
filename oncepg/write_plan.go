package oncepg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/oncekit/once"
	"github.com/oncekit/once/write"
)

// plan is what is to be sent for some events: statements, and the events of each.
type plan struct {
	queries []query
	jobs    [][]*job
	lean    lean // the one statement is a lean one
	// What a lean statement of several events says: it did nothing; what there is to do is done by
	// its twin.
	blocked, twin bool
}

// lean is a kind of lean statement.
type lean int

const (
	notLean lean = iota
	leanOne      // of one event: if it brings no row, it told nothing
	leanAll      // of several
)

// plan puts events together that one statement can carry out. Those with the same id, or for the
// same row, go one after the other, in the order in which they were given. Events that don't fit
// their table are looked up only: they may be recorded since before it was changed.
func (v *solver) plan(ctx context.Context, pending []*job) (plan, error) {
	if len(pending) == 1 {
		return v.planOne(ctx, pending[0])
	}
	type place struct{ table, key string }
	type slot struct {
		wave int
		form string
	}
	rows, ids := map[place]int{}, map[string]int{}
	followed := map[slot]bool{} // some of it has to be there before what comes later
	last := map[place]slot{}
	groups := map[slot][]*job{}
	var slots []slot
	for _, j := range pending {
		key, err := v.prepare(ctx, j)
		var shape *write.ShapeError
		if err != nil && !errors.As(err, &shape) {
			return plan{}, err
		}
		at := place{j.target.Name, key}
		s := slot{wave: max(rows[at], ids[j.ID])}
		if j.shape = err; err == nil {
			s.form = j.change.name
		}
		rows[at], ids[j.ID] = s.wave+1, s.wave+1
		if before, found := last[at]; found {
			followed[before] = true
		}
		last[at] = s
		if groups[s] == nil {
			slots = append(slots, s)
		}
		groups[s] = append(groups[s], j)
	}
	if len(slots) == 1 && slots[0].form != "" {
		if p, ok := v.planLean(groups[slots[0]]); ok {
			return p, nil
		}
	}
	slices.SortStableFunc(slots, func(a, b slot) int { return a.wave - b.wave })
	var p plan
	for _, s := range slots {
		jobs := groups[s]
		sortByKey(jobs)
		p.jobs = append(p.jobs, jobs)
		if s.form == "" {
			p.queries = append(p.queries, v.lookup(jobs))
		} else {
			p.queries = append(p.queries, v.query(jobs, followed[s]))
		}
	}
	return p, nil
}

// sortByKey puts events in the order of their keys, in which their rows are locked, so that batches
// seldom wait in a circle.
func sortByKey(jobs []*job) {
	slices.SortFunc(jobs, func(a, b *job) int {
		return cmp.Or(strings.Compare(a.target.Name, b.target.Name),
			strings.Compare(a.ekey, b.ekey))
	})
}

// planLean tries several events of one form with a lean statement; ok is false if it isn't likely
// to be enough.
// It takes settings of the transaction, and is for transactions of the writer's own.
func (v *solver) planLean(jobs []*job) (p plan, ok bool) {
	f := jobs[0].change.form
	if _, isPool := v.runner.(poolRunner); !isPool || v.leant {
		return plan{}, false
	}
	if !f.isPlain() || !v.twin && v.hints.isMixed(f) {
		return plan{}, false
	}
	v.leant = true
	sortByKey(jobs)
	return plan{
		queries: []query{v.leanManyQuery(jobs, v.hints.insert(f))},
		jobs:    [][]*job{jobs}, lean: leanAll,
	}, true
}

// planOne is plan for one event.
func (v *solver) planOne(ctx context.Context, j *job) (plan, error) {
	_, err := v.prepare(ctx, j)
	var shape *write.ShapeError
	if err != nil && !errors.As(err, &shape) {
		return plan{}, err
	}
	jobs := []*job{j}
	p := plan{jobs: [][]*job{jobs}}
	var q query
	switch j.shape = err; {
	case err != nil:
		q = v.lookup(jobs)
	case !v.leant:
		p.lean, v.leant = leanOne, true
		q = v.leanQuery(j, v.hints.insert(j.change.form))
	default:
		q = v.query(jobs, false)
	}
	p.queries = []query{q}
	return p, nil
}

// prepare finds the form of an event's change, and the text of its key. Where they don't fit, the
// table is read again, once a call: what is missing may have come since.
func (v *solver) prepare(ctx context.Context, j *job) (string, error) {
	text, err := v.fit(ctx, j)
	name := j.target.Name
	if !errors.Is(err, write.ErrShape) || v.reread[name] {
		return text, err
	}
	if v.reread == nil {
		v.reread = map[string]bool{}
	}
	v.reread[name] = true
	v.tables.forget(name)
	return v.fit(ctx, j)
}

func (v *solver) fit(ctx context.Context, j *job) (string, error) {
	t, err := v.tables.get(ctx, v.runner, j.target)
	if err != nil {
		return "", err
	}
	if j.change, err = give(t, j.Change); err != nil {
		return "", err
	}
	text, isText := j.Key.(string)
	if isText != (t.key.kind == kindText) {
		return "", &write.ShapeError{
			In: t.name, Field: t.key.name,
			Reason: "is a key of type " + t.key.typ + ", the event's is " + kindOfValue(j.Key),
		}
	}
	switch {
	case !isText:
		text = keyText(j.Key)
	case t.key.most > 0 && utf8.RuneCountInString(text) > t.key.most:
		// PostgreSQL would cut spaces at the end, which is another key.
		return "", &write.ShapeError{
			In: t.name, Field: t.key.name,
			Reason: fmt.Sprintf("takes no more than %d characters", t.key.most),
		}
	case t.key.base == "uuid": // it has several spellings
		text = strings.ToLower(strings.NewReplacer("-", "", "{", "", "}", "").Replace(text))
	}
	return text, nil
}

// query is the statement of one group, with its arguments.
func (v *solver) query(jobs []*job, followed bool) query {
	f, kind := jobs[0].change.form, whole
	if followed {
		kind = wholeFollowed
	}
	q := query{
		sql:  f.texts.get(kind, func() string { return f.statement(v.events, followed) }),
		args: lists(jobs, f.given(true)),
	}
	if f.state >= 0 {
		q.args = append(q.args, f.fromText())
	}
	return q
}

// lists are the arguments of several events: plainArgs and the values of some columns, each an
// array with an element an event.
func lists(jobs []*job, columns []int) []any {
	lists := make([][]*string, plainArgs+len(columns))
	for i := range lists {
		lists[i] = make([]*string, 0, len(jobs))
	}
	for _, j := range jobs {
		key, digest, owner := keyText(j.Key), bytesText(j.digest[:]), bytesText(j.owner[:])
		for i, s := range []*string{&j.ID, &digest, &owner, &j.ekey, &key} {
			lists[i] = append(lists[i], s)
		}
		for i, c := range columns {
			lists[plainArgs+i] = append(lists[plainArgs+i], j.change.values[c])
		}
	}
	args := make([]any, 0, len(lists)+1)
	for _, list := range lists {
		args = append(args, arrayText(list))
	}
	return args
}

// lookup reads the records of events.
func (v *solver) lookup(jobs []*job) query {
	ids := make([]*string, len(jobs))
	for i, j := range jobs {
		ids[i] = &j.ID
	}
	return query{fmt.Sprintf(recordedSQL, v.events), []any{arrayText(ids)}}
}

// read gives each event what the answers say of it.
func (p *plan) read(answers [][]row) error {
	if p.lean != notLean {
		p.readLean(answers[0])
		return nil
	}
	for i, rows := range answers {
		byID := byID(p.jobs[i])
		for _, r := range rows {
			if r[atID] == nil || byID[*r[atID]] == nil {
				return fmt.Errorf("read event: %w: it was not asked for", once.ErrCorrupt)
			}
			if err := byID[*r[atID]].take(r); err != nil {
				return err
			}
		}
		for _, j := range p.jobs[i] {
			if !j.done && j.shape != nil {
				j.fail(j.shape)
			}
		}
	}
	return nil
}

func byID(jobs []*job) map[string]*job {
	m := make(map[string]*job, len(jobs))
	for _, j := range jobs {
		m[j.ID] = j
	}
	return m
}
