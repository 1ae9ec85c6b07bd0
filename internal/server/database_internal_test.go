package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

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
