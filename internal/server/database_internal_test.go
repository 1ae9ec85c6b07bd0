package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/ncruces/go-sqlite3"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncemongo"
	"github.com/oncekit/once/write"
)

func TestOnlyADatabaseThatDoesNotFitTheFileKeepsFromStarting(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&write.IndexError{In: "payments", Key: "id"}, true},
		{&write.ShapeError{In: "payments", Reason: "is missing"}, true},
		{fs.ErrNotExist, true},
		{oncemongo.ErrServer, true},
		{once.ErrUnavailable, false},
		{context.DeadlineExceeded, false},
		{&pgconn.PgError{Code: "28P01"}, false}, // a login that may be mended meanwhile
		{errors.New("anything else"), false},
	} {
		if got := wrongAtStart(fmt.Errorf("open: %w", c.err)); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

// Nobody but the log says why a database isn't open, and the log has no text of the database's own.
func TestTheLogSaysWhyADatabaseIsNotOpen(t *testing.T) {
	pg := func(code string) error {
		return &pgconn.PgError{Code: code, Message: "for user \"secret\""}
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{pg("3D000"), "it refuses: there is no such database, SQLSTATE 3D000"},
		{pg("28P01"), "it refuses: our login is turned down, SQLSTATE 28P01"},
		{pg("57P03"), "it refuses: SQLSTATE 57P03"},
		{errors.New("tls error: server refused TLS connection"),
			"it has no TLS, which the url asks for"},
		{mongo.CommandError{Code: mongoLoginFailed, Message: "secret"}, "it refuses our login"},
		{sqlite3.NOTADB, "it is no file of SQLite that can be opened"},
		{sqlite3.CANTOPEN, "it is no file of SQLite that can be opened"},
		{errors.New("secret"), "it refuses"},
		{context.DeadlineExceeded, "no answer in time"},
	} {
		if got := notOpen(fmt.Errorf("open: %w", c.err)); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

func TestALoginThatIsTurnedDownIsNoFaultOfTheEvent(t *testing.T) {
	for code, want := range map[string]bool{
		"28P01": true, "28000": true, "42501": true, "42703": false, "40001": false,
	} {
		if got := refusesLogin(fmt.Errorf("write: %w", &pgconn.PgError{Code: code})); got != want {
			t.Errorf("SQLSTATE %s: %v, want %v", code, got, want)
		}
	}
	if refusesLogin(context.DeadlineExceeded) {
		t.Error("no answer is taken for a refusal")
	}
}
