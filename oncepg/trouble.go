package oncepg

import (
	"database/sql/driver"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncekit/once/write"
)

// trouble is what an error of the database means to a call.
type trouble int

const (
	noTrouble     trouble = iota // nothing that another try helps against
	rival                        // another transaction was in the way
	serialization                // the snapshot is too old
	lost                         // no connection, or no answer
)

// Codes of PostgreSQL (appendix A of its manual).
const (
	codeUnique        = "23505"
	codeNotNull       = "23502"
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeLock          = "55P03"
	codePrivilege     = "42501"
	codeReadOnly      = "25006"
	classConnection   = "08"
	classResources    = "53"
	classOperator     = "57"
	classData         = "22"
	classConstraint   = "23"
	classSyntax       = "42"
	codeCanceled      = "57014"
)

// codeOf is an error's code, whichever driver it comes from; "" without one.
func codeOf(err error) string {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return coded.SQLState()
	}
	return ""
}

// troubleOf tells what an error means. None at all is an event that met a rival.
func troubleOf(err error) trouble {
	if err == nil {
		return rival
	}
	code := codeOf(err)
	var unsure *unsureError
	switch {
	case errors.As(err, &unsure): // whatever it was that ended the wait
		return lost
	case code == codeSerialization:
		return serialization
	case code == codeDeadlock || code == codeLock || isOwnIndex(err):
		return rival
	case code == codeCanceled:
		return noTrouble // a limit of the user's own
	case code == codeReadOnly || hasClass(code, classConnection, classResources, classOperator):
		return lost
	case code == "" && isNetwork(err):
		return lost
	}
	return noTrouble
}

func hasClass(code string, classes ...string) bool {
	for _, class := range classes {
		if strings.HasPrefix(code, class) {
			return true
		}
	}
	return false
}

// isNetwork tells errors of a connection from those that a driver makes of a call.
func isNetwork(err error) bool {
	var (
		network net.Error
		connect *pgconn.ConnectError
	)
	return errors.As(err, &network) || errors.As(err, &connect) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, driver.ErrBadConn) ||
		strings.Contains(err.Error(), "conn closed")
}

// ownIndex ends the name of the unique index of the events' records, and of nothing else.
const ownIndex = "_once_id"

// isOwnIndex tells the unique index of the records from those of the user's tables.
func isOwnIndex(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == codeUnique && strings.HasSuffix(pg.ConstraintName, ownIndex)
	}
	return codeOf(err) == codeUnique && strings.Contains(err.Error(), ownIndex+`"`)
}

// refusals are reasons for people, where a code by itself says little.
var refusals = map[string]string{
	"22001": "a text is too long for its column",
	"22003": "a number is out of the range of its column",
	"22007": "a text is no time that its column can read",
	"22P02": "a value can't be read as the type of its column",
	"23502": "null where its column takes none",
	"42P01": "a table is missing, the target or that of the events, which Open makes",
}

// isUnnamed tells that a record was to be made without its id: see form.writeHits.
func (s *shared) isUnnamed(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == codeNotNull && pg.ColumnName == "id" &&
		pg.TableName == tableName(s.conf.Events)
}

// shapeError tells what a change does not fit, or nil for an error that means something else.
func shapeError(err error) *write.ShapeError {
	code := codeOf(err)
	if isOwnIndex(err) || code == codePrivilege ||
		!hasClass(code, classData, classConstraint, classSyntax) {
		return nil
	}
	reason := "refused by the database"
	if said, ok := refusals[code]; ok {
		reason = said
	}
	shape := &write.ShapeError{Reason: reason + ", code " + code, Err: err}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		// The message may hold a value; the names don't.
		shape.Field, shape.Err = pg.ColumnName, &Error{Code: pg.Code, Constraint: pg.ConstraintName}
		if pg.ConstraintName != "" {
			shape.Reason = "constraint " + pg.ConstraintName + " refuses it, code " + code
		}
	}
	return shape
}

// Error is what PostgreSQL said about a change that does not fit its table, without the values that
// its own message may hold.
type Error struct {
	// Code is the SQLSTATE.
	Code string
	// Constraint that was broken, or empty.
	Constraint string
}

// Error names the code and the constraint.
func (e *Error) Error() string {
	if e.Constraint == "" {
		return "SQLSTATE " + e.Code
	}
	return "SQLSTATE " + e.Code + ", constraint " + e.Constraint
}

// SQLState returns the code.
func (e *Error) SQLState() string { return e.Code }

func levelOf(t trouble) slog.Level {
	if t == lost {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

func attrs(tries int, t trouble) []slog.Attr {
	why := map[trouble]string{
		rival: "another transaction", serialization: "serialization", lost: "no answer",
	}[t]
	return []slog.Attr{slog.Int("tries", tries), slog.String("because", why)}
}
