package oncesqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
)

// answer is the first row of a query, read already, or why there is none. It is the driver of a
// database that gives this one answer: nothing else makes a *sql.Row.
type answer struct {
	columns []string
	values  []any // nil: no row
	err     error
}

// firstRow reads the first row of a result, and closes it.
func firstRow(rows *sql.Rows) *answer {
	a := &answer{}
	if a.columns, a.err = rows.Columns(); a.err == nil && rows.Next() {
		a.values = make([]any, len(a.columns))
		into := make([]any, len(a.columns))
		for i := range into {
			into[i] = &a.values[i]
		}
		a.err = rows.Scan(into...)
	}
	if err := rows.Close(); a.err == nil {
		a.err = err
	}
	if a.err == nil {
		a.err = rows.Err()
	}
	return a
}

// row returns the answer as database/sql does.
func (a *answer) row(ctx context.Context) *sql.Row {
	db := sql.OpenDB(a)
	defer db.Close() // what is read from stays open
	return db.QueryRowContext(context.WithoutCancel(ctx), "")
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
	if a.values == nil {
		return io.EOF
	}
	for i, v := range a.values {
		into[i] = v
	}
	a.values = nil
	return nil
}

// Close implements [driver.Rows] and [driver.Conn].
func (a *answer) Close() error { return nil }

var errOneAnswer = errors.New("there is one answer")

// Prepare implements [driver.Conn].
func (a *answer) Prepare(string) (driver.Stmt, error) { return nil, errOneAnswer }

// Begin implements [driver.Conn].
func (a *answer) Begin() (driver.Tx, error) { return nil, errOneAnswer }
