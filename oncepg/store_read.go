package oncepg

import (
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/turn"
	"github.com/oncekit/once/queue"
)

// What a batch asks, in its transaction.

// filter is a condition in the making.
type filter struct {
	parts []string
	args  []any
}

// add puts a condition to the others; its $ is the next argument.
func (f *filter) add(text string, args ...any) {
	for _, a := range args {
		f.args = append(f.args, a)
		text = strings.Replace(text, "$", "\x00"+strconv.Itoa(len(f.args)), 1)
	}
	f.parts = append(f.parts, strings.ReplaceAll(text, "\x00", "$"))
}

func (f *filter) text(name, text string) {
	if text != "" {
		f.add("r."+name+" = $", recordText(text))
	}
}

// long compares a text of any length, of which the index has the beginning.
func (f *filter) long(name, text string) {
	text = recordText(text)
	f.add("left(r."+name+", 200) = left($::text, 200)", text)
	f.add("r."+name+" = $", text)
}

// wait selects rows that wait for something.
func (f *filter) wait(text string) {
	f.add("r.wait_marks IS NOT NULL AND r.wait_marks @> ARRAY[$::bigint]", mark(text))
	f.add("r.waits @> ARRAY[$::text]", recordText(text))
}

func (f *filter) where() string {
	if len(f.parts) == 0 {
		return "true"
	}
	return strings.Join(f.parts, " AND ")
}

// orders are how rows are sorted that are not sorted by their number.
var orders = map[turn.Order]string{turn.ByNext: "r.next_at, r.seq",
	turn.ByLease: "r.lease_until, r.seq", turn.BySweepAt: "r.sweep_at, r.seq"}

// orderOf is how the rows of a query are sorted.
func orderOf(q *turn.RowQuery) string {
	if q.By == turn.BySeq {
		return seqOf(q)
	}
	return orders[q.By]
}

// seqOf is the number of a query's rows, written so that what is due in a lane is found by the
// index of just that.
func seqOf(q *turn.RowQuery) string {
	if q.Lane != "" && len(q.Phases) == 1 && q.Phases[0] == turn.Ready {
		return "(r.seq + 0)"
	}
	return "r.seq"
}

// queryFilter is a query as a condition.
func queryFilter(q *turn.RowQuery) *filter {
	f := &filter{}
	if q.Kind != 0 {
		f.add("r.kind = $", int16(q.Kind))
	}
	f.text("lane", q.Lane)
	if len(q.Phases) == 1 {
		f.add("r.phase = " + phaseLiterals(q.Phases))
	} else if len(q.Phases) > 1 {
		f.add("r.phase IN (" + phaseLiterals(q.Phases) + ")")
	}
	if q.Keyed {
		f.long("order_key", q.OrderKey)
	}
	if q.InLine {
		f.add("r.in_line")
	}
	if q.Wait != "" {
		f.wait(q.Wait)
	}
	f.text("flow", q.Flow)
	if q.NoFlow {
		f.add("r.flow = ''")
	}
	if q.Tasked {
		f.long("task", q.Task)
		if q.Task != "" {
			f.add("r.task <> ''")
		}
	}
	if q.Node != "" { // found among what is in somebody's hands
		f.text("node", q.Node)
		f.add("r.lease_until IS NOT NULL")
	}
	f.text("source", q.Source)
	if q.Event != "" {
		f.long("event", q.Event)
	}
	if q.After > 0 {
		f.add(seqOf(q)+" > $", q.After)
	}
	if q.Upto > 0 {
		f.add("r.seq <= $", q.Upto)
	}
	by := func(name, op string, at turn.Stamp) {
		if at != 0 {
			f.add("r."+name+" "+op+" $", stampOut(at))
		}
	}
	by("next_at", "<=", q.NextBy)
	by("lease_until", "<", q.LeaseBy)
	by("sweep_at", "<=", q.SweepBy)
	return f
}

// Rows implements [turn.Stored].
func (tx *storeTx) Rows(q *turn.RowQuery, limit int) ([]*turn.Row, error) {
	f := queryFilter(q)
	f.args = append(f.args, limit)
	// What is to be swept may be counted by an arrival meanwhile: then it is looked at after that.
	lock := ""
	if q.SweepBy != 0 {
		lock = " FOR UPDATE"
	}
	return tx.rows(f.where()+" ORDER BY "+orderOf(q)+" LIMIT $"+strconv.Itoa(len(f.args))+lock,
		f.args...)
}

func (tx *storeTx) rows(where string, args ...any) ([]*turn.Row, error) {
	rows, err := tx.conn.Query(tx.ctx, tx.s.sql.rows+where, args...)
	return scanned(rows, err, scanWholeRow)
}

// RowsBySeq implements [turn.Stored].
func (tx *storeTx) RowsBySeq(seqs []int64) ([]*turn.Row, error) {
	return tx.rows("r.seq = ANY($1::bigint[])", seqs)
}

// RowsByIdentity implements [turn.Stored].
func (tx *storeTx) RowsByIdentity(k queue.Kind, ids []once.Identity) ([]*turn.Row, error) {
	list := make([][]byte, len(ids))
	for i := range ids {
		list[i] = ids[i][:]
	}
	return tx.rows("r.identity = ANY($1::bytea[]) AND r.kind = $2 ORDER BY r.seq FOR UPDATE", list,
		int16(k))
}

// RowByID implements [turn.Stored].
func (tx *storeTx) RowByID(k queue.Kind, id [16]byte) (*turn.Row, error) {
	from, to := idRange(id)
	found, err := tx.rows("r.identity >= $1 AND r.identity <= $2 AND r.kind = $3 LIMIT 1", from, to,
		int16(k))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// idRange is the first and the last identity that begins with a public id.
func idRange(id [16]byte) (from, to []byte) {
	from, to = make([]byte, 32), make([]byte, 32)
	copy(from, id[:])
	copy(to, id[:])
	for i := len(id); i < len(to); i++ {
		to[i] = 0xff
	}
	return from, to
}

// Lines implements [turn.Stored].
func (tx *storeTx) Lines(lane string, keys []string) (map[string]turn.Line, error) {
	list := make([]string, len(keys))
	for i, key := range keys {
		list[i] = recordText(key)
	}
	rows, err := tx.conn.Query(tx.ctx, tx.s.sql.lines, recordText(lane), list)
	out := make(map[string]turn.Line, len(keys))
	_, err = scanned(rows, err, func(rows pgx.Rows) (*turn.Line, error) {
		var key string
		l := turn.Line{}
		err := rows.Scan(&key, &l.Holder, &l.Head)
		out[plainText(key)] = l
		return &l, err
	})
	return out, err
}

// CallbackSeq implements [turn.Stored].
func (tx *storeTx) CallbackSeq() (int64, error) {
	var n int64
	err := tx.conn.QueryRow(tx.ctx, tx.s.sql.at("SELECT nextval('@queue_numbers')")).Scan(&n)
	return n * 2, turn.Fault(err)
}

// Arrivals implements [turn.Stored].
func (tx *storeTx) Arrivals(keys []turn.ArrivalKey) ([]*turn.Arrival, error) {
	seqs, ns := make([]int64, len(keys)), make([]int64, len(keys))
	for i, key := range keys {
		seqs[i], ns[i] = key.Row, key.N
	}
	rows, err := tx.conn.Query(tx.ctx, tx.s.sql.arrivals+"(a.seq, a.n) IN "+
		"(SELECT * FROM unnest($1::bigint[], $2::bigint[]))", seqs, ns)
	return scanned(rows, err, scanArrival)
}

// ArrivalsOf implements [turn.Stored].
func (tx *storeTx) ArrivalsOf(row int64, conflicts bool) ([]*turn.Arrival, error) {
	where := "a.seq = $1"
	if conflicts {
		where += " AND a.outcome = 'conflict'"
	}
	rows, err := tx.conn.Query(tx.ctx, tx.s.sql.arrivals+where+" ORDER BY a.n", row)
	return scanned(rows, err, scanArrival)
}

// pairs are the columns of keys.
func pairs(keys []turn.Pair) (groups, names []string) {
	for _, key := range keys {
		groups, names = append(groups, recordText(key.Group)), append(names, recordText(key.Name))
	}
	return groups, names
}

// Tasks implements [turn.Stored].
func (tx *storeTx) Tasks(keys []turn.Pair) ([]*turn.Task, error) {
	flows, names := pairs(keys)
	rows, err := tx.conn.Query(tx.ctx, tx.s.sql.tasks+"(t.flow, t.task) IN "+
		"(SELECT * FROM unnest($1::text[], $2::text[]))", flows, names)
	return scanned(rows, err, scanWholeTask)
}

// TasksBy implements [turn.Stored].
func (tx *storeTx) TasksBy(field turn.TaskTime, by turn.Stamp, limit int) ([]*turn.Task, error) {
	name := "t.overdue_at"
	if field == turn.BySweep {
		name = "t.sweep_at"
	}
	where, args := name+" IS NOT NULL", []any{limit}
	if by != 0 {
		where, args = name+" <= $2", append(args, stampOut(by))
	}
	rows, err := tx.conn.Query(tx.ctx, tx.s.sql.tasks+where+" ORDER BY "+name+", t.n LIMIT $1",
		args...)
	return scanned(rows, err, scanWholeTask)
}

// HistoryOf implements [turn.Stored].
func (tx *storeTx) HistoryOf(n int64, limit int) ([]turn.HistoryKey, error) {
	rows, err := tx.conn.Query(tx.ctx, tx.s.sql.history, n, limit)
	found, err := scanned(rows, err, func(rows pgx.Rows) (*turn.HistoryKey, error) {
		key := &turn.HistoryKey{}
		return key, rows.Scan(&key.Task, &key.Version)
	})
	out := make([]turn.HistoryKey, len(found))
	for i, key := range found {
		out[i] = *key
	}
	return out, err
}

// Resources implements [turn.Stored].
func (tx *storeTx) Resources(keys []turn.Pair) ([]*turn.Resource, error) {
	kinds, names := pairs(keys)
	rows, err := tx.conn.Query(tx.ctx, tx.s.sql.resources+"(r.kind, r.name) IN "+
		"(SELECT * FROM unnest($1::text[], $2::text[]))", kinds, names)
	return scanned(rows, err, scanResource)
}

// Owned implements [turn.Stored].
func (tx *storeTx) Owned(tasks []turn.Pair) ([]*turn.Resource, error) {
	flows, names := pairs(tasks)
	rows, err := tx.conn.Query(tx.ctx, tx.s.sql.resources+"(r.flow, r.task) IN "+
		"(SELECT * FROM unnest($1::text[], $2::text[])) AND r.task <> ''", flows, names)
	return scanned(rows, err, scanResource)
}

// Ring implements [turn.Stored].
func (tx *storeTx) Ring(source, ring string) ([]int64, error) {
	rows, err := tx.conn.Query(tx.ctx, tx.s.sql.at(`SELECT id FROM @rejected
		WHERE source = $1 AND ring = $2 ORDER BY id DESC`), recordText(source), ring)
	found, err := scanned(rows, err, func(rows pgx.Rows) (*int64, error) {
		id := new(int64)
		return id, rows.Scan(id)
	})
	out := make([]int64, len(found))
	for i, id := range found {
		out[i] = *id
	}
	return out, err
}
