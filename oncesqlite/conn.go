package oncesqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"
)

// conn is one connection with its prepared statements. It is used by one goroutine at a time.
type conn struct {
	raw   *sqlite3.Conn
	stmts map[string]*stmt
	// db and sql own the connection where a handler's Commit may need a database/sql view of it.
	db  *sql.DB
	sql *sql.Conn
}

// openWriter opens the connection that writes, below database/sql.
func openWriter(ctx context.Context, dsn string, init func(*sqlite3.Conn) error) (*conn, error) {
	db, err := driver.Open(dsn, init)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	sc, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	c := &conn{stmts: map[string]*stmt{}, db: db, sql: sc}
	err = sc.Raw(func(dc any) error {
		c.raw = dc.(driver.Conn).Raw()
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// openReader opens a connection that only reads.
func openReader(dsn string, init func(*sqlite3.Conn) error) (*conn, error) {
	raw, err := sqlite3.Open(dsn)
	if err != nil {
		return nil, err
	}
	c := &conn{raw: raw, stmts: map[string]*stmt{}}
	if err := init(raw); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.raw.Close())
	}
	clear(c.stmts)
	if c.db == nil {
		return errors.Join(append(errs, c.raw.Close())...)
	}
	return errors.Join(append(errs, c.sql.Close(), c.db.Close())...)
}

// prepare returns the statement for a text; equal texts share one.
func (c *conn) prepare(text string) (*stmt, error) {
	if s := c.stmts[text]; s != nil {
		return s, nil
	}
	raw, _, err := c.raw.PrepareFlags(text, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, fmt.Errorf("prepare %.60q: %w", text, err)
	}
	s := &stmt{raw: raw}
	c.stmts[text] = s
	return s, nil
}

// exec runs a statement to its end.
func (c *conn) exec(text string, args ...any) error {
	s, err := c.prepare(text)
	if err != nil {
		return err
	}
	return s.exec(args...)
}

// query runs a statement and calls row for each row of its result until row returns an error.
func (c *conn) query(text string, row func(*stmt) error, args ...any) error {
	s, err := c.prepare(text)
	if err != nil {
		return err
	}
	s.bind(args...)
	for s.step() {
		if err := row(s); err != nil {
			return errors.Join(err, s.reset())
		}
	}
	return s.reset()
}

// one runs a statement that gives at most one row and reports whether it gave one.
func (c *conn) one(text string, row func(*stmt), args ...any) (bool, error) {
	found := false
	err := c.query(text, func(s *stmt) error {
		found = true
		row(s)
		return nil
	}, args...)
	return found, err
}

// int returns the only value of a statement; 0 if there is none or it is NULL.
func (c *conn) int(text string, args ...any) (int64, error) {
	var n int64
	_, err := c.one(text, func(s *stmt) { n = s.int(0) }, args...)
	return n, err
}

// stmt is a prepared statement that remembers the first error of binding.
type stmt struct {
	raw *sqlite3.Stmt
	err error
	// bound are the texts that bindAgain bound, by parameter.
	bound map[int]string
}

func (s *stmt) bind(args ...any) {
	for i, a := range args {
		s.bindAny(i+1, a)
	}
}

func (s *stmt) bindAny(i int, a any) {
	switch v := a.(type) {
	case nil:
		s.note(s.raw.BindNull(i))
	case int64:
		s.bindInt(i, v)
	case int:
		s.bindInt(i, int64(v))
	case phase:
		s.bindPhase(i, v)
	case string:
		s.bindText(i, v)
	case []byte:
		s.bindBlob(i, v)
	case bool:
		s.note(s.raw.BindBool(i, v))
	default:
		s.note(fmt.Errorf("bind parameter %d: type %T", i, a))
	}
}

func (s *stmt) note(err error) {
	if err != nil && s.err == nil {
		s.err = err
	}
}

func (s *stmt) bindInt(i int, v int64)   { s.note(s.raw.BindInt64(i, v)) }
func (s *stmt) bindText(i int, v string) { s.note(s.raw.BindText(i, v)) }
func (s *stmt) bindBlob(i int, v []byte) { s.note(s.raw.BindBlob(i, v)) }

// bindAgain binds a text that is mostly the same as the last time: SQLite keeps what was bound.
func (s *stmt) bindAgain(i int, v string) {
	if last, ok := s.bound[i]; ok && last == v {
		return
	}
	if s.bound == nil {
		s.bound = map[int]string{}
	}
	delete(s.bound, i)
	if err := s.raw.BindText(i, v); err != nil {
		s.note(err)
		return
	}
	s.bound[i] = v
}

// bindTime binds 0 as NULL.
func (s *stmt) bindTime(i int, v int64) {
	if v == 0 {
		s.note(s.raw.BindNull(i))
		return
	}
	s.bindInt(i, v)
}

// bindOpt binds an empty text as NULL.
func (s *stmt) bindOpt(i int, v string) {
	if v == "" {
		s.note(s.raw.BindNull(i))
		return
	}
	s.bindText(i, v)
}

func (s *stmt) bindPhase(i int, p phase) {
	if p == phaseDone {
		s.note(s.raw.BindNull(i))
		return
	}
	s.bindInt(i, int64(p))
}

// step runs to the next row. A false return is the end or an error, which reset returns.
func (s *stmt) step() bool {
	if s.err != nil {
		return false
	}
	ok := s.raw.Step()
	if !ok {
		s.note(s.raw.Err())
	}
	return ok
}

// reset makes the statement ready for its next use and returns the first error since the last.
func (s *stmt) reset() error {
	err := s.err
	s.err = nil
	if e := s.raw.Reset(); err == nil {
		err = e
	}
	return err
}

func (s *stmt) exec(args ...any) error {
	s.bind(args...)
	return s.run()
}

// run executes a statement that was bound by hand.
func (s *stmt) run() error {
	for s.step() {
		continue
	}
	return s.reset()
}

func (s *stmt) int(col int) int64   { return s.raw.ColumnInt64(col) }
func (s *stmt) text(col int) string { return s.raw.ColumnText(col) }
func (s *stmt) blob(col int) []byte { return cloneBytes(s.raw.ColumnRawBlob(col)) }
func (s *stmt) isNull(col int) bool { return s.raw.ColumnType(col) == sqlite3.NULL }
func (s *stmt) phase(col int) phase {
	if s.isNull(col) {
		return phaseDone
	}
	return phase(s.int(col))
}

// cloneBytes copies bytes that SQLite owns; nil stays nil.
func cloneBytes(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}
