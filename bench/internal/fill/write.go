package fill

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/oncekit/once/queue"
)

// How long rows are remembered: longer than any benchmark takes.
const retention = 30 * 24 * time.Hour

var columns = []string{"seq", "identity", "kind", "lane", "phase", "attempt", "received_at",
	"started_at", "finished_at", "sweep_at", "retention", "keep_body", "source", "event", "flow",
	"task", "order_key", "key", "cause", "error", "dead_cause", "peer", "fingerprint", "meta",
	"body"}

// writer writes rows into a file that nobody else has.
type writer struct {
	db      *sqlite3.Conn
	row     *sqlite3.Stmt
	task    *sqlite3.Stmt
	indexes []string
	lanes   map[string]int64
	counts  map[counter]int64
	at      int64 // the time of the next row, in microseconds
}

// open drops the indexes of the rows: made at the end they cost a sort, kept they cost a random
// write a row.
func open(path string, at time.Time) (_ *writer, err error) {
	w := &writer{lanes: map[string]int64{}, counts: map[counter]int64{}, at: at.UnixMicro()}
	if w.db, w.indexes, err = openTable(path, "rows"); err != nil {
		return nil, err
	}
	if err := w.prepare(); err != nil {
		return nil, errors.Join(err, w.db.Close())
	}
	return w, nil
}

// openTable opens a file to write very many rows of a table, begins a transaction, and drops the
// table's indexes; it returns what makes them again.
func openTable(path, table string) (db *sqlite3.Conn, indexes []string, err error) {
	if db, err = sqlite3.Open(path); err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	// The file is thrown away if the process dies here.
	for _, p := range []string{"PRAGMA journal_mode=OFF", "PRAGMA synchronous=OFF",
		"PRAGMA locking_mode=EXCLUSIVE", "PRAGMA cache_size=-65536", "PRAGMA temp_store=FILE",
		"BEGIN"} {
		if err := db.Exec(p); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", p, err)
		}
	}
	of := " FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL AND tbl_name = '" +
		table + "'"
	names, err := texts(db, "SELECT name"+of)
	if err != nil {
		return nil, nil, err
	}
	if indexes, err = texts(db, "SELECT sql"+of); err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		if err := db.Exec("DROP INDEX " + name); err != nil {
			return nil, nil, fmt.Errorf("drop index %s: %w", name, err)
		}
	}
	return db, indexes, nil
}

// placeRows writes where rows are found. In a store that grew, the pages are about two thirds full:
// those of the last three of ten come into pages that are.
var placeRows = []string{
	"INSERT INTO places SELECT substr(identity, 1, 8), seq FROM rows WHERE seq % 10 < 7 ORDER BY 1",
	"INSERT INTO places SELECT substr(identity, 1, 8), seq FROM rows WHERE seq % 10 >= 7 ORDER BY 1",
	"INSERT INTO meta SELECT 'placed', max(seq) FROM rows",
}

// closeTable carries out what is left to do, such as to make the indexes, ends the transaction, and
// gives the file back in WAL mode.
func closeTable(db *sqlite3.Conn, rest ...string) error {
	return carryOut(db, append(rest, "COMMIT", "PRAGMA locking_mode=NORMAL",
		"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL",
		"PRAGMA main.wal_checkpoint(TRUNCATE)"))
}

// carryOut carries out statements.
func carryOut(db *sqlite3.Conn, statements []string) error {
	for _, s := range statements {
		if err := db.Exec(s); err != nil {
			return fmt.Errorf("%.60q: %w", s, err)
		}
	}
	return nil
}

func (w *writer) prepare() (err error) {
	marks := strings.TrimSuffix(strings.Repeat("?,", len(columns)), ",")
	w.row, _, err = w.db.Prepare("INSERT INTO rows (" + strings.Join(columns, ",") +
		") VALUES (" + marks + ")")
	if err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	w.task, _, err = w.db.Prepare("INSERT INTO tasks (flow, task, state, version, gone, final, " +
		"created_at, since_at, updated_at, retention, sweep_at) " +
		"VALUES (?1, ?2, 'finished', 5, 1, 1, ?3, ?3, ?3, ?4, ?3 + ?4)")
	return err
}

// texts returns the first column of a query.
func texts(db *sqlite3.Conn, query string) (out []string, err error) {
	q, _, err := db.Prepare(query)
	if err != nil {
		return nil, fmt.Errorf("prepare %.40q: %w", query, err)
	}
	defer q.Close()
	for q.Step() {
		out = append(out, q.ColumnText(0))
	}
	return out, q.Err()
}

// counter names a kept counter.
type counter struct {
	kind          queue.Kind
	source, state string
}

func (w *writer) writeRow(r *row) error {
	lane, err := w.lane(r.Lane, r.Kind)
	if err != nil {
		return err
	}
	w.counts[counter{r.Kind, r.Source, string(r.State)}]++
	w.at += 100 // one in a tenth of a millisecond
	q := binder{q: w.row}
	q.int(r.Seq)
	q.blob(r.Identity[:])
	q.int(int64(r.Kind))
	q.int(lane)
	q.intOr(r.phase, phaseDone)
	attempt, ended, sweep := int64(0), int64(0), int64(0)
	if r.completed {
		attempt, ended = 1, w.at+1000
	}
	if r.sweep {
		sweep = ended + retention.Microseconds()
	}
	q.int(attempt)
	q.int(w.at)
	q.intOr(ended, 0)
	q.intOr(ended, 0)
	q.intOr(sweep, 0)
	q.int(retention.Microseconds())
	keep := retention
	if r.swept {
		keep = time.Millisecond
	}
	q.int(keep.Microseconds())
	for _, s := range []string{r.Source, r.Event, r.Flow, r.Task, r.OrderKey} {
		q.text(s)
	}
	for _, s := range []string{r.keyText, r.Cause, r.Error, string(r.DeadCause), r.peer} {
		q.textOr(s)
	}
	q.blob(r.fp)
	q.blob(r.Meta)
	q.blob(r.Body)
	if err := errors.Join(q.err, w.row.Exec()); err != nil || !r.first {
		return err
	}
	return w.writeTask(r)
}

// writeTask writes what is left of a finished task after its retention.
func (w *writer) writeTask(r *row) error {
	q := binder{q: w.task}
	q.text(r.Flow)
	q.text(r.Task)
	q.int(w.at)
	q.int(retention.Microseconds())
	return errors.Join(q.err, w.task.Exec())
}

// lane returns the number of a lane; each holds rows of one kind.
func (w *writer) lane(name string, k queue.Kind) (int64, error) {
	if id, ok := w.lanes[name]; ok {
		return id, nil
	}
	q, _, err := w.db.Prepare("INSERT INTO lanes (name, kinds) VALUES (?, ?)")
	if err != nil {
		return 0, err
	}
	defer q.Close()
	if err := errors.Join(q.BindText(1, name), q.BindInt64(2, int64(k)), q.Exec()); err != nil {
		return 0, fmt.Errorf("write lane: %w", err)
	}
	w.lanes[name] = w.db.LastInsertRowID()
	return w.lanes[name], nil
}

// close makes the indexes, writes the counters, and gives the file back in WAL mode.
func (w *writer) close() error {
	for c, n := range w.counts {
		if err := w.db.Exec(fmt.Sprintf("INSERT INTO counters VALUES (%d, '%s', '%s', %d)",
			c.kind, c.source, c.state, n)); err != nil {
			return fmt.Errorf("write counters: %w", err)
		}
	}
	if err := closeTable(w.db, append(w.indexes, placeRows...)...); err != nil {
		return err
	}
	return w.release()
}

// release closes the file as it is.
func (w *writer) release() error {
	return errors.Join(w.row.Close(), w.task.Close(), w.db.Close())
}

// binder binds parameters in their order.
type binder struct {
	q   *sqlite3.Stmt
	n   int
	err error
}

func (b *binder) note(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *binder) next() int { b.n++; return b.n }

func (b *binder) int(v int64) { b.note(b.q.BindInt64(b.next(), v)) }

// intOr binds NULL for the value none.
func (b *binder) intOr(v, none int64) {
	if v == none {
		b.note(b.q.BindNull(b.next()))
		return
	}
	b.int(v)
}

func (b *binder) text(s string) { b.note(b.q.BindText(b.next(), s)) }

// textOr binds NULL for an empty text.
func (b *binder) textOr(s string) {
	if s == "" {
		b.note(b.q.BindNull(b.next()))
		return
	}
	b.text(s)
}

// blob binds NULL for nil.
func (b *binder) blob(v []byte) {
	if v == nil {
		b.note(b.q.BindNull(b.next()))
		return
	}
	b.note(b.q.BindBlob(b.next(), v))
}
