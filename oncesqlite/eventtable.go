package oncesqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"

	"github.com/oncekit/once/write"
)

// affinity is what SQLite would turn a column's values into.
type affinity int

const (
	anyAffinity     affinity = iota // BLOB: everything stays what it is
	numericAffinity                 // texts that are written like numbers become numbers
	wholeAffinity
	realAffinity
	textAffinity
)

// affinityOf follows section 3.1 of SQLite's "Datatypes".
func affinityOf(declared string) affinity {
	declared = strings.ToUpper(declared)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(declared, p) {
				return true
			}
		}
		return false
	}
	switch {
	case has("INT"):
		return wholeAffinity
	case has("CHAR", "CLOB", "TEXT"):
		return textAffinity
	case has("BLOB") || declared == "":
		return anyAffinity
	case has("REAL", "FLOA", "DOUB"):
		return realAffinity
	}
	return numericAffinity
}

// eventTable is what is known of a target.
type eventTable struct {
	name    string
	key     string
	columns map[string]affinity
	// rowid tells that the key is the table's own INTEGER PRIMARY KEY.
	rowid bool
}

// eventTables remembers the targets' columns.
type eventTables struct {
	mu     sync.Mutex
	byName map[string]*eventTable
}

func newEventTables() *eventTables { return &eventTables{byName: map[string]*eventTable{}} }

func (t *eventTables) forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byName, name)
}

// eventQuerier is a *sql.DB or a *sql.Tx.
type eventQuerier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// get returns a target, which is read from the schema at the first time.
func (t *eventTables) get(
	ctx context.Context, db eventQuerier, target write.Target,
) (*eventTable, error) {
	t.mu.Lock()
	known := t.byName[target.Name]
	t.mu.Unlock()
	if known != nil {
		return known, nil
	}
	fresh, err := readEventTable(ctx, db, target)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byName[target.Name] = fresh
	return fresh, nil
}

func readEventTable(
	ctx context.Context, db eventQuerier, target write.Target,
) (*eventTable, error) {
	rows, err := db.QueryContext(ctx, "SELECT name, type, pk, "+
		"(SELECT count(*) FROM pragma_table_info(?1) WHERE pk > 0) FROM pragma_table_info(?1)",
		target.Name)
	if err != nil {
		return nil, fmt.Errorf("read columns of %s: %w", target.Name, err)
	}
	defer rows.Close()
	t := &eventTable{name: target.Name, key: target.Key, columns: map[string]affinity{}}
	for rows.Next() {
		var (
			name, declared string
			pk, keys       int
		)
		if err := rows.Scan(&name, &declared, &pk, &keys); err != nil {
			return nil, fmt.Errorf("read columns of %s: %w", target.Name, err)
		}
		t.columns[name] = affinityOf(declared)
		if name == target.Key {
			t.rowid = pk == 1 && keys == 1 && strings.EqualFold(declared, "INTEGER")
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read columns of %s: %w", target.Name, err)
	}
	if len(t.columns) == 0 {
		return nil, &write.ShapeError{In: target.Name, Reason: "no such table"}
	}
	if _, found := t.columns[target.Key]; !found {
		return nil, t.wrong(target.Key, "no such column")
	}
	return t, nil
}

func (t *eventTable) wrong(field, reason string) error {
	return &write.ShapeError{In: t.name, Field: field, Reason: reason}
}

// eventStmts keeps statements prepared: compiling one takes as long as running it.
type eventStmts struct {
	db *sql.DB

	mu    sync.Mutex
	bySQL map[string]*sql.Stmt
}

// maxStmts bounds the statements that are kept: forms of changes are few, but nothing says so.
const maxStmts = 256

func newEventStmts(db *sql.DB) *eventStmts {
	return &eventStmts{db: db, bySQL: map[string]*sql.Stmt{}}
}

// prepare makes sure that a statement is there. It takes a connection: not to be called inside a
// transaction.
func (s *eventStmts) prepare(ctx context.Context, text string) error {
	if s.get(text) != nil {
		return nil
	}
	stmt, err := s.db.PrepareContext(ctx, text)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bySQL[text] != nil {
		return stmt.Close()
	}
	if len(s.bySQL) >= maxStmts {
		for text, old := range s.bySQL { // whichever comes first
			delete(s.bySQL, text)
			_ = old.Close() // one that runs is closed when it is through
			break
		}
	}
	s.bySQL[text] = stmt
	return nil
}

// get returns a prepared statement, or nil.
func (s *eventStmts) get(text string) *sql.Stmt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bySQL[text]
}
