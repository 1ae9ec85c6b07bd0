package oncesqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/write"
)

// eventTx carries out events in one transaction.
type eventTx struct {
	*eventShared
	tx         *sql.Tx
	cached     bool // the transaction is of the writer's own database
	savepoints bool // the transaction is the caller's
}

func (s *eventShared) recordSQL() string {
	return "INSERT INTO " + s.events + " (id, digest, target, key, outcome, numbers, at) " +
		"VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (id) DO NOTHING"
}

func (s *eventShared) recordedSQL() string {
	return "SELECT digest, target, key, outcome, numbers, at FROM " + s.events + " WHERE id = ?1"
}

func (s *eventShared) forgetSQL() string {
	return "DELETE FROM " + s.events + " WHERE id = ?1"
}

// eventSavepoint names the one around a call inside a caller's transaction.
const eventSavepoint = "once_write"

// all carries out events one after the other; changed is false if there is nothing to be committed.
func (k *eventTx) all(ctx context.Context, jobs []*eventJob) (changed bool, err error) {
	if !k.savepoints {
		return k.each(ctx, jobs)
	}
	for _, j := range jobs {
		if err := k.planJob(ctx, k.tx, j); err != nil {
			return false, err
		}
	}
	if _, err := k.tx.ExecContext(ctx, "SAVEPOINT "+eventSavepoint); err != nil {
		return false, err
	}
	if changed, err = k.each(ctx, jobs); err == nil {
		_, err = k.tx.ExecContext(ctx, "RELEASE "+eventSavepoint)
		return changed, err
	}
	ctx = context.WithoutCancel(ctx)
	_, undone := k.tx.ExecContext(ctx, "ROLLBACK TO "+eventSavepoint)
	if undone == nil {
		_, undone = k.tx.ExecContext(ctx, "RELEASE "+eventSavepoint)
	}
	return false, errors.Join(err, undone)
}

func (k *eventTx) each(ctx context.Context, jobs []*eventJob) (changed bool, err error) {
	for _, j := range jobs {
		*j.result = write.Result{} // a transaction before may have been undone
		wrote, err := k.one(ctx, j)
		if err != nil {
			return false, err
		}
		changed = changed || wrote
	}
	return changed, nil
}

// one carries out one event: it reads what decides, records the event, and changes the row. wrote
// is false if nothing of it stays.
func (k *eventTx) one(ctx context.Context, j *eventJob) (wrote bool, err error) {
	step := eventStep{result: write.Result{Outcome: write.Applied}}
	refused := j.shape
	if refused == nil {
		step, err = k.decide(ctx, j)
		if refused = refusal(j, err); refused == nil && err != nil {
			return false, err
		}
	}
	numbers, err := write.EncodeNumbers(step.result.Numbers)
	if err != nil {
		return false, err
	}
	n, err := k.exec(ctx, k.recordSQL(), j.ID, j.digest[:], j.In, j.ekey,
		string(step.result.Outcome), nullable(numbers), time.Now().UnixMicro())
	if err != nil {
		return false, err
	}
	if n == 0 {
		record, err := k.recorded(ctx, j.ID)
		if err != nil {
			return false, err
		}
		*j.result = record.Answer(j.digest)
		return false, nil
	}
	if refused == nil {
		*j.result = step.result
		err = k.carryOut(ctx, j, step)
		if refused = refusal(j, err); refused == nil {
			return err == nil, err
		}
	}
	// A statement that failed changed nothing: only the record has to go.
	*j.result = write.Result{Err: refused}
	if n, err = k.exec(ctx, k.forgetSQL(), j.ID); err == nil && n == 0 {
		err = fmt.Errorf("a trigger rolled the transaction back: %w", refused)
	}
	return false, err
}

// refusal is an error that is the result of one event; nil for one of the whole transaction.
func refusal(j *eventJob, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, write.ErrShape), errors.Is(err, write.ErrExists),
		errors.Is(err, once.ErrState):
		return err
	case isShape(err):
		reason := "refused by the database" + constraint(err)
		return &write.ShapeError{In: j.In, Reason: reason, Err: err}
	}
	return nil
}

// broken finds what SQLite says of a constraint: its kind, and its name or the columns.
var broken = regexp.MustCompile(
	`(?:NOT NULL|UNIQUE|CHECK) constraint failed: [^\n]{1,80}|FOREIGN KEY constraint failed`)

// constraint is which constraint an error names, for the end of a reason.
func constraint(err error) string {
	if found := broken.FindString(err.Error()); found != "" {
		return ": " + found
	}
	return ""
}

func nullable(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// recorded reads an event's record.
func (k *eventTx) recorded(ctx context.Context, id string) (r write.Record, err error) {
	var (
		digest               []byte
		target, key, numbers sql.NullString
		outcome              string
		at                   int64
	)
	rows, err := k.query(ctx, k.recordedSQL(), id)
	if err != nil {
		return r, err
	}
	defer rows.Close()
	if !rows.Next() {
		return r, errors.Join(rows.Err(), fmt.Errorf("read event: %w: no record", once.ErrCorrupt))
	}
	if err := rows.Scan(&digest, &target, &key, &outcome, &numbers, &at); err != nil {
		return r, err
	}
	if len(digest) != len(r.Digest) {
		return r, fmt.Errorf("read event: %w: digest", once.ErrCorrupt)
	}
	r.Digest = once.Fingerprint(digest)
	r.First = write.First{
		Outcome: write.Outcome(outcome), At: time.UnixMicro(at).UTC(), In: target.String,
	}
	if key.Valid {
		if r.First.Key, err = write.DecodeKey(key.String); err != nil {
			return r, err
		}
	}
	r.Numbers, err = write.DecodeNumbers(numbers.String)
	return r, errors.Join(err, rows.Close())
}

// eventStep is what is to be done for an event.
type eventStep struct {
	result  write.Result
	found   bool // the row is there
	unread  bool // nothing depends on the row: it was not looked for
	written []bound
}

// decide finds out what an event comes to, if it is not recorded.
func (k *eventTx) decide(ctx context.Context, j *eventJob) (s eventStep, err error) {
	p := j.plan
	s.result.Outcome = write.Applied
	if len(p.read) == 0 {
		s.unread, s.written = true, p.written()
		return s, nil
	}
	there, found, err := k.read(ctx, p, j.key)
	if err != nil {
		return s, err
	}
	s.found = found
	stale, err := p.decide(there, found)
	if err != nil {
		return s, err
	}
	if stale {
		s.result.Outcome = write.Stale
		return s, nil
	}
	s.written, s.result.Numbers, err = p.compute(there)
	return s, err
}

// carryOut changes the row, or makes it.
func (k *eventTx) carryOut(ctx context.Context, j *eventJob, s eventStep) error {
	p := j.plan
	if s.result.Outcome == write.Stale {
		return nil
	}
	if text := p.updateSQL(); text != "" && p.updates && (s.found || s.unread) {
		n, err := k.exec(ctx, text, args(j.key, s.written)...)
		if err != nil || n > 0 {
			return err
		}
	}
	n, err := k.exec(ctx, p.insertSQL(), args(j.key, s.written, p.onInsert)...)
	switch {
	case err != nil || n > 0 || p.updateSQL() == "" && p.updates:
		return err
	case !p.updates:
		return fmt.Errorf("insert: %w", write.ErrExists)
	}
	return p.table.wrong("", "a trigger or another unique index keeps the row as it is")
}

func args(key any, parts ...[]bound) []any {
	list := []any{key}
	for _, part := range parts {
		for _, b := range part {
			list = append(list, b.value)
		}
	}
	return list
}

// read reads what decides of a row.
func (k *eventTx) read(
	ctx context.Context, p *changePlan, key any,
) (there map[string]any, found bool, err error) {
	rows, err := k.query(ctx, p.readSQL(), key)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	if !rows.Next() {
		return nil, false, rows.Err()
	}
	var one int64
	kinds, values := make([]string, len(p.read)), make([]any, len(p.read))
	into := []any{&one}
	for i := range p.read {
		into = append(into, &kinds[i], &values[i])
	}
	if err := rows.Scan(into...); err != nil {
		return nil, false, err
	}
	there = make(map[string]any, len(p.read))
	for i, name := range p.read {
		there[name] = values[i]
		if b, isBytes := values[i].([]byte); isBytes && kinds[i] == "text" {
			there[name] = string(b)
		}
	}
	return there, true, rows.Close()
}

// decide tells whether a change is stale, or not possible.
func (p *changePlan) decide(there map[string]any, found bool) (stale bool, err error) {
	if p.newer != nil && found && there[p.newer.name] != nil {
		order, ok := compareBound(p.newer.value, there[p.newer.name])
		if !ok {
			return false, p.table.wrong(p.newer.name,
				"holds "+kindOfBound(there[p.newer.name])+", which can't be compared")
		}
		if order <= 0 {
			return true, nil
		}
	}
	if p.state == nil {
		return false, nil
	}
	state, _ := there[p.state.name].(string)
	if found && slices.Contains(p.from, state) {
		return false, nil
	}
	to, _ := p.state.value.(string)
	return false, &write.StateError{Missing: !found, State: state, From: p.from, To: to}
}

// compute returns what is to be written.
func (p *changePlan) compute(there map[string]any) ([]bound, write.Fields, error) {
	written := p.written()
	var numbers write.Fields
	for i := range p.add {
		b := &written[len(p.set)+i]
		before := there[b.name]
		if before == nil {
			before = int64(0)
		}
		sum, err := plus(before, b.value)
		if err != nil {
			return nil, nil, p.table.wrong(b.name, err.Error())
		}
		b.value = sum
		if numbers == nil {
			numbers = write.Fields{}
		}
		if numbers[b.name], err = write.Number(sum); err != nil {
			return nil, nil, p.table.wrong(b.name, err.Error())
		}
	}
	if p.list == nil {
		return written, numbers, nil
	}
	before := there[p.list.name]
	text, isText := before.(string)
	list, ok, err := write.AppendJSON(text, p.values)
	switch {
	case err != nil:
		return nil, nil, p.table.wrong(p.list.name, err.Error())
	case !ok || before != nil && (!isText || text == ""):
		return nil, nil, p.table.wrong(p.list.name, "holds no list")
	}
	written[len(written)-1].value = list
	return written, numbers, nil
}

func (k *eventTx) exec(ctx context.Context, text string, args ...any) (int64, error) {
	var (
		done sql.Result
		err  error
	)
	if stmt := k.stmts.get(text); k.cached && stmt != nil {
		done, err = k.tx.StmtContext(ctx, stmt).ExecContext(ctx, args...)
	} else {
		done, err = k.tx.ExecContext(ctx, text, args...)
	}
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

func (k *eventTx) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if stmt := k.stmts.get(text); k.cached && stmt != nil {
		return k.tx.StmtContext(ctx, stmt).QueryContext(ctx, args...)
	}
	return k.tx.QueryContext(ctx, text, args...)
}
