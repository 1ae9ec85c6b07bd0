package oncepg

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncekit/once/internal/turn"
	"github.com/oncekit/once/queue"
)

const (
	handlerSavepoint = "once_handler"
	// maxAnswerRows bounds the rows of one query of a handler: they are read at once, so that its
	// next statement need not wait for the end of them.
	maxAnswerRows = 10_000
)

var (
	errEndsTransaction = errors.New("a handler's Commit can't begin or end a transaction")
	errCommitOver      = errors.New("the handler's Commit is over")
	errCommitLimit     = errors.New("the handler's Commit took too long")
)

// handlerCommit runs a handler's Commit in the transaction that has the turn, between savepoints.
func (tx *storeTx) handlerCommit(fn func(context.Context, queue.Tx) error) (
	end func(keep bool) error, err error,
) {
	tx.wrote = true
	if err := tx.simple("SAVEPOINT " + handlerSavepoint); err != nil {
		return nil, turn.Fault(err)
	}
	end = func(keep bool) error {
		text := "RELEASE SAVEPOINT " + handlerSavepoint
		if !keep {
			text = "ROLLBACK TO SAVEPOINT " + handlerSavepoint + "; " + text
		}
		return turn.Fault(tx.simple(text))
	}
	ctx, cancel := context.WithTimeout(tx.ctx, tx.s.cfg.CommitLimit)
	defer cancel()
	h := &handlerTx{tx: tx, until: time.Now().Add(tx.s.cfg.CommitLimit)}
	err = tx.s.callCommit(ctx, h, fn)
	h.close()
	if err == nil && ctx.Err() != nil {
		err = errCommitLimit
	}
	if err == nil && h.refused {
		err = errEndsTransaction
	}
	if tx.conn.Conn().IsClosed() { // nothing of the batch can go on
		return nil, turn.Fault(fmt.Errorf("commit handler: %w", errors.Join(h.fault, io.EOF)))
	}
	if err == nil && tx.conn.Conn().PgConn().TxStatus() == 'E' {
		err = fmt.Errorf("a statement of the handler was refused: %w", h.fault)
	}
	if reset := tx.simple("SET LOCAL statement_timeout = 0"); err == nil && reset != nil {
		err = reset
	}
	if err != nil {
		return nil, errors.Join(&queue.CommitError{Err: err}, end(false))
	}
	return end, nil
}

// simple carries out statements without arguments.
func (tx *storeTx) simple(text string) error {
	_, err := tx.conn.Exec(tx.ctx, text, pgx.QueryExecModeSimpleProtocol)
	return err
}

// callCommit calls a handler: a panic in it is an error.
func (s *Store) callCommit(ctx context.Context, h *handlerTx,
	fn func(context.Context, queue.Tx) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			s.cfg.Logger.Error("a handler's Commit panicked", "panic", queue.PanicText(p),
				"stack", string(debug.Stack()))
		}
	}()
	return fn(ctx, h)
}

// handlerTx is the transaction as a handler's Commit sees it.
type handlerTx struct {
	tx    *storeTx
	until time.Time

	mu      sync.Mutex
	over    bool
	refused bool  // it tried to end the transaction
	fault   error // of the last statement
}

var _ queue.Tx = (*handlerTx)(nil)

func (h *handlerTx) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
}

// allow begins a statement: the database ends it when the handler's time is over. The handler's own
// context does not, since that would end the connection and with it the whole batch.
func (h *handlerTx) allow(text string) error {
	if h.over {
		return errCommitOver
	}
	if endsTransaction(text) {
		h.refused = true
		return errEndsTransaction
	}
	left := time.Until(h.until)
	if left <= 0 {
		return errCommitLimit
	}
	return h.tx.simple("SET LOCAL statement_timeout = " +
		strconv.FormatInt(max(left.Milliseconds(), 1), 10))
}

// ExecContext implements [queue.Tx].
func (h *handlerTx) ExecContext(_ context.Context, text string, args ...any) (sql.Result, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.allow(text); err != nil {
		return nil, err
	}
	rows, err := h.tx.conn.Query(h.tx.ctx, text, args...) // Exec could take several statements
	if err == nil {
		rows.Close()
		err = rows.Err()
	}
	if err != nil {
		h.fault = err
		return nil, err
	}
	return driver.RowsAffected(rows.CommandTag().RowsAffected()), nil
}

// QueryContext implements [queue.Tx].
func (h *handlerTx) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	a := h.ask(text, args)
	if a.err != nil {
		return nil, a.err
	}
	db := sql.OpenDB(a)
	defer db.Close() // what is read from stays open
	return db.QueryContext(context.WithoutCancel(ctx), "")
}

// QueryRowContext implements [queue.Tx].
func (h *handlerTx) QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row {
	db := sql.OpenDB(h.ask(text, args))
	defer db.Close() // what is read from stays open
	return db.QueryRowContext(context.WithoutCancel(ctx), "")
}

// ask reads the whole answer of a query.
func (h *handlerTx) ask(text string, args []any) *answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := &answer{}
	if a.err = h.allow(text); a.err != nil {
		return a
	}
	rows, err := h.tx.conn.Query(h.tx.ctx, text, args...)
	if err != nil {
		h.fault, a.err = err, err
		return a
	}
	defer rows.Close()
	for _, f := range rows.FieldDescriptions() {
		a.columns = append(a.columns, f.Name)
	}
	for rows.Next() {
		values, err := rows.Values()
		if err == nil && len(a.rows) == maxAnswerRows {
			err = fmt.Errorf("the answer has more than %d rows", maxAnswerRows)
		}
		if err != nil {
			a.err = err
			return a
		}
		a.rows = append(a.rows, driverValues(h.tx.conn.Conn(), rows.FieldDescriptions(), values))
	}
	if a.err = rows.Err(); a.err != nil {
		h.fault = a.err
	}
	return a
}

// driverValues are values as database/sql knows them; of what it does not know, the text.
func driverValues(conn *pgx.Conn, fields []pgconn.FieldDescription, values []any) []driver.Value {
	out := make([]driver.Value, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case nil, bool, int64, float64, string, []byte, time.Time:
			out[i] = v
		case int16:
			out[i] = int64(v)
		case int32:
			out[i] = int64(v)
		case float32:
			out[i] = float64(v)
		default:
			text, err := conn.TypeMap().Encode(fields[i].DataTypeOID, pgx.TextFormatCode, v, nil)
			if err != nil {
				text = fmt.Append(nil, v)
			}
			out[i] = string(text)
		}
	}
	return out
}

// endsTransaction reports whether a statement begins with a word that begins or ends transactions.
// The database itself takes only one statement at a time.
func endsTransaction(text string) bool {
	switch strings.ToUpper(firstWord(text)) {
	case "BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE", "PREPARE":
		return true
	}
	return false
}

// firstWord skips what comes before the first word: blanks, comments, and empty statements.
func firstWord(text string) string {
	for {
		text = strings.TrimLeftFunc(text, func(r rune) bool {
			return unicode.IsSpace(r) || r == ';' || r == '\ufeff'
		})
		switch {
		case strings.HasPrefix(text, "--"):
			_, text, _ = strings.Cut(text, "\n")
		case strings.HasPrefix(text, "/*"):
			text = afterComment(text)
		default:
			end := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
			if end < 0 {
				return text
			}
			return text[:end]
		}
	}
}

// afterComment skips a comment, which may have others in it.
func afterComment(text string) string {
	depth := 0
	for len(text) > 0 {
		switch {
		case strings.HasPrefix(text, "/*"):
			depth++
			text = text[2:]
		case strings.HasPrefix(text, "*/"):
			text = text[2:]
			if depth--; depth == 0 {
				return text
			}
		default:
			text = text[1:]
		}
	}
	return text
}

// answer is what a query was answered, read already. It is the driver of a database that gives this
// one answer: nothing else makes *sql.Rows.
type answer struct {
	columns []string
	rows    [][]driver.Value
	err     error
}

// Connect implements [driver.Connector].
func (a *answer) Connect(context.Context) (driver.Conn, error) { return a, nil }

// Driver implements [driver.Connector]; nobody asks for it.
func (a *answer) Driver() driver.Driver { return nil }

// QueryContext implements [driver.QueryerContext].
func (a *answer) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return a, a.err
}

// Columns implements [driver.Rows].
func (a *answer) Columns() []string { return a.columns }

// Next implements [driver.Rows].
func (a *answer) Next(into []driver.Value) error {
	if len(a.rows) == 0 {
		return io.EOF
	}
	copy(into, a.rows[0])
	a.rows = a.rows[1:]
	return nil
}

// Close implements [driver.Rows] and [driver.Conn].
func (a *answer) Close() error { return nil }

var errOneAnswer = errors.New("there is one answer")

// Prepare implements [driver.Conn].
func (a *answer) Prepare(string) (driver.Stmt, error) { return nil, errOneAnswer }

// Begin implements [driver.Conn].
func (a *answer) Begin() (driver.Tx, error) { return nil, errOneAnswer }
