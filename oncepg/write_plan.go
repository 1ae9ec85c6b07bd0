package oncepg

import (
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
	// lean tells that the one statement is lean: if it brings no row, it told nothing.
	lean bool
}

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
	slices.SortStableFunc(slots, func(a, b slot) int { return a.wave - b.wave })
	var p plan
	for _, s := range slots {
		jobs := groups[s]
		// Rows are locked in the order of their keys, so that batches seldom wait in a circle.
		slices.SortFunc(jobs, func(a, b *job) int {
			return strings.Compare(a.target.Name+a.ekey, b.target.Name+b.ekey)
		})
		p.jobs = append(p.jobs, jobs)
		if s.form == "" {
			p.queries = append(p.queries, v.lookup(jobs))
		} else {
			p.queries = append(p.queries, v.query(jobs, followed[s]))
		}
	}
	return p, nil
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
		p.lean, v.leant = true, true
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
	f := jobs[0].change.form
	n := plainArgs + len(f.columns)
	lists := make([][]*string, n)
	for _, j := range jobs {
		key, digest, owner := keyText(j.Key), bytesText(j.digest[:]), bytesText(j.owner[:])
		for i, s := range []*string{&j.ID, &digest, &owner, &j.ekey, &key} {
			lists[i] = append(lists[i], s)
		}
		for i, s := range j.change.values {
			lists[plainArgs+i] = append(lists[plainArgs+i], s)
		}
	}
	kind := whole
	if followed {
		kind = wholeFollowed
	}
	q := query{sql: f.texts.get(kind, func() string { return f.statement(v.events, followed) })}
	for _, list := range lists {
		q.args = append(q.args, arrayText(list))
	}
	if f.state >= 0 {
		q.args = append(q.args, f.fromText())
	}
	return q
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
func (p plan) read(answers [][]row) error {
	if p.lean {
		if rows := answers[0]; len(rows) == 1 {
			p.jobs[0][0].applied(rows[0][0])
		}
		return nil
	}
	for i, rows := range answers {
		byID := make(map[string]*job, len(p.jobs[i]))
		for _, j := range p.jobs[i] {
			byID[j.ID] = j
		}
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
