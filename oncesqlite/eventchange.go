package oncesqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/oncekit/once"
	"github.com/oncekit/once/write"
)

// eventJob is one event on its way.
type eventJob struct {
	write.Event
	target write.Target
	digest once.Fingerprint
	ekey   string
	result *write.Result

	key  any         // as SQLite has it
	plan *changePlan // nil with shape
	// shape is why the change can't be made; an event that is recorded is answered all the same.
	shape error
}

// changePlan is a change of one event: what is read, and what is written then.
type changePlan struct {
	table *eventTable
	// what is written, in the order of the columns' names
	set, onInsert, add []bound
	list               *bound // its value is what is appended
	values             []any
	state, newer       *bound
	from               []string
	updates, inserts   bool
	read               []string // columns
}

// bound is a column with a value that SQLite has.
type bound struct {
	name  string
	value any
}

// jobs checks events. Those that are wrong have their result.
func (s *eventShared) jobs(
	ctx context.Context, events []write.Event,
) ([]*eventJob, []write.Result, error) {
	if err := write.CheckBatch(events); err != nil {
		return nil, nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	results := make([]write.Result, len(events))
	jobs := make([]*eventJob, 0, len(events))
	for i, e := range events {
		j, err := s.job(e)
		if err != nil {
			results[i].Err = err
			continue
		}
		j.result = &results[i]
		jobs = append(jobs, j)
	}
	return jobs, results, nil
}

func (s *eventShared) job(e write.Event) (*eventJob, error) {
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
	return &eventJob{Event: e, target: target, digest: digest, ekey: ekey}, nil
}

func (w *Writer) prepareJobs(ctx context.Context, jobs []*eventJob) error {
	for _, j := range jobs {
		if err := w.prepareJob(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// prepareJob makes the plan of an event, and prepares its statements.
func (w *Writer) prepareJob(ctx context.Context, j *eventJob) error {
	if err := w.planJob(ctx, w.db, j); err != nil {
		return err
	}
	texts := []string{w.recordSQL(), w.recordedSQL(), w.forgetSQL()}
	if j.plan != nil {
		texts = append(texts, j.plan.statements()...)
	}
	for _, text := range texts {
		err := w.stmts.prepare(ctx, text)
		switch {
		case err == nil:
		case isShape(err): // the table has changed since it was read
			w.tables.forget(j.target.Name)
			j.shape, j.plan = &write.ShapeError{
				In: j.In, Reason: "the table is not as it was", Err: err,
			}, nil
			return nil
		default:
			return err
		}
	}
	return nil
}

// planJob makes the plan of an event, or its shape error. A column that is missing may have come
// since the table was read.
func (s *eventShared) planJob(ctx context.Context, db eventQuerier, j *eventJob) error {
	for again := false; ; again = true {
		t, err := s.tables.get(ctx, db, j.target)
		if err == nil {
			j.plan, err = s.plan(t, j)
		}
		j.shape = err
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, write.ErrShape):
			return err
		case again:
			j.plan = nil
			return nil
		}
		s.tables.forget(j.target.Name)
	}
}

func (s *eventShared) plan(t *eventTable, j *eventJob) (p *changePlan, err error) {
	if j.key, err = s.bind(t, t.key, j.Key); err != nil {
		return nil, err
	}
	if _, isText := j.key.(string); isText && t.rowid {
		return nil, t.wrong(t.key, "takes a number, not a text")
	}
	p = &changePlan{table: t}
	switch ch := j.Change.(type) {
	case write.Insert:
		p.inserts = true
		p.set, err = s.bindAll(t, ch.Set)
	case write.Upsert:
		p.updates, p.inserts = true, true
		err = s.planParts(p, ch.Set, ch.SetOnInsert, ch.Increment, ch.Newer)
	case write.Increment:
		p.updates, p.inserts = true, true
		err = s.planParts(p, nil, ch.SetOnInsert, ch.By, "")
	case write.Append:
		p.updates, p.inserts = true, true
		if err = s.planParts(p, nil, ch.SetOnInsert, nil, ""); err != nil {
			return nil, err
		}
		text, err := s.bind(t, ch.To, ch.Values)
		if err != nil {
			return nil, err
		}
		p.list, p.values = &bound{ch.To, text}, ch.Values
		p.read = append(p.read, ch.To)
	case write.Transition:
		p.updates, p.from = true, ch.From
		if err = s.planParts(p, ch.Set, nil, nil, ch.Newer); err != nil {
			return nil, err
		}
		to, err := s.bind(t, ch.Field, ch.To)
		if err != nil {
			return nil, err
		}
		p.state = &bound{ch.Field, to}
		p.read = append(p.read, ch.Field)
	}
	return p, err
}

func (s *eventShared) planParts(
	p *changePlan, set, onInsert, add write.Fields, newer string,
) (err error) {
	if p.set, err = s.bindAll(p.table, set); err != nil {
		return err
	}
	if p.onInsert, err = s.bindAll(p.table, onInsert); err != nil {
		return err
	}
	if p.add, err = s.bindAll(p.table, add); err != nil {
		return err
	}
	for _, b := range p.add {
		p.read = append(p.read, b.name)
	}
	if newer != "" {
		i := slices.IndexFunc(p.set, func(b bound) bool { return b.name == newer })
		p.newer = &p.set[i]
		p.read = append(p.read, newer)
	}
	return nil
}

func (s *eventShared) bindAll(t *eventTable, fields write.Fields) ([]bound, error) {
	var list []bound
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		v, err := s.bind(t, name, fields[name])
		if err != nil {
			return nil, err
		}
		list = append(list, bound{name, v})
	}
	return list, nil
}

// statements are the texts that the plan may run.
func (p *changePlan) statements() []string {
	var texts []string
	if len(p.read) > 0 {
		texts = append(texts, p.readSQL())
	}
	if p.updates {
		if text := p.updateSQL(); text != "" {
			texts = append(texts, text)
		}
	}
	if p.inserts {
		texts = append(texts, p.insertSQL())
	}
	return texts
}

// readSQL reads the columns that decide, each after its type. The plus takes the declared type
// away, by which some drivers would make something else of a value.
func (p *changePlan) readSQL() string {
	columns := []string{"1"}
	for _, name := range p.read {
		q := quoteName(name)
		columns = append(columns, "typeof("+q+")", "+"+q)
	}
	return fmt.Sprintf("SELECT %s FROM %s WHERE %s", strings.Join(columns, ", "),
		quoteName(p.table.name), p.table.isKey())
}

// written are the columns that an update writes.
func (p *changePlan) written() []bound {
	list := slices.Concat(p.set, p.add)
	for _, b := range []*bound{p.list, p.state} {
		if b != nil {
			list = append(list, *b)
		}
	}
	return list
}

// isKey finds the row byte by byte: the column may have another collation than its unique index.
func (t *eventTable) isKey() string { return quoteName(t.key) + " = ?1 COLLATE BINARY" }

// updateSQL is empty if a row that is there stays as it is. OR ABORT is for constraints declared
// with ON CONFLICT IGNORE, REPLACE or ROLLBACK: the change would be lost, take another row away, or
// end the transaction in the middle of a batch.
func (p *changePlan) updateSQL() string {
	var sets []string
	for i, b := range p.written() {
		sets = append(sets, fmt.Sprintf("%s = ?%d", quoteName(b.name), i+2))
	}
	if len(sets) == 0 {
		return ""
	}
	return fmt.Sprintf("UPDATE OR ABORT %s SET %s WHERE %s", quoteName(p.table.name),
		strings.Join(sets, ", "), p.table.isKey())
}

func (p *changePlan) insertSQL() string {
	names, places := []string{quoteName(p.table.key)}, []string{"?1"}
	for i, b := range slices.Concat(p.written(), p.onInsert) {
		names = append(names, quoteName(b.name))
		places = append(places, fmt.Sprintf("?%d", i+2))
	}
	return fmt.Sprintf("INSERT OR ABORT INTO %s (%s) VALUES (%s) ON CONFLICT (%s) DO NOTHING",
		quoteName(p.table.name), strings.Join(names, ", "), strings.Join(places, ", "),
		quoteName(p.table.key))
}

// isShape tells errors of a change that does not fit its table. SQLite's texts name tables and
// columns, and hold no values.
func isShape(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return slices.ContainsFunc([]string{
		"constraint failed", "datatype mismatch", "cannot store ", "no such column",
		"no such table", "has no column named", "string or blob too big",
		"cannot UPDATE generated column", "cannot INSERT into generated column",
		"cannot modify ",
	}, func(part string) bool { return strings.Contains(text, part) })
}
