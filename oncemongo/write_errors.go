package oncemongo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"

	"github.com/oncekit/once"
	"github.com/oncekit/once/write"
)

// ErrTransactions: the server has no transactions, which the call needs.
var ErrTransactions = errors.New("the server has no transactions")

// Errors of the server after which nobody knows whether the command was carried out, or will be on
// another server (retryable writes specification, and what is said of shutdowns and of writes that
// met each other).
var uncertainCodes = []int{
	6, 7, 50, 64, 89, 91, 100, 112, 134, 189, 262, 9001,
	10107, 11600, 11601, 11602, 13435, 13436,
}

// Errors of the server about a document that would become too large.
var tooLargeCodes = []int{10334, 17419, 17420, 17280}

// Errors of the server about a document, or a collection's rule, that a change does not fit.
var shapeCodes = []int{
	2,   // BadValue: a list is expected
	9,   // FailedToParse
	14,  // TypeMismatch: a number is expected
	28,  // PathNotViable
	52,  // DollarPrefixedFieldName
	56,  // EmptyFieldName
	57,  // DottedFieldName
	66,  // ImmutableField
	121, // DocumentValidationFailure
}

// definite tells whether an error says that a command was not carried out, and won't be. Of all
// others nobody knows: broken connections, time-outs, servers that step down, writes that were
// not confirmed by a majority.
func definite(err error) bool {
	if errors.Is(err, driver.ErrDocumentTooLarge) {
		return true
	}
	var server mongo.ServerError
	if !errors.As(err, &server) || mongo.IsNetworkError(err) || mongo.IsTimeout(err) ||
		server.HasErrorLabel("RetryableWriteError") ||
		server.HasErrorLabel("TransientTransactionError") {
		return false
	}
	var one mongo.WriteException
	var bulk mongo.BulkWriteException
	if errors.As(err, &one) && one.WriteConcernError != nil ||
		errors.As(err, &bulk) && bulk.WriteConcernError != nil {
		return false
	}
	return !slices.ContainsFunc(uncertainCodes, server.HasErrorCode)
}

// refusal turns a definite error of a change into one that callers can act on. Of a document of
// another shape it reads which member it is.
func (w *Writer) refusal(ctx context.Context, j *writeJob, err error) error {
	known := refusalOf(j, err)
	var shape *write.ShapeError
	if !errors.As(known, &shape) || hasCode(err, codeDuplicateKey) {
		return known
	}
	var parts bson.D
	for _, name := range append(slices.Clone(j.plan.numbers), j.plan.list) {
		if name != "" {
			parts = append(parts, bson.E{Key: name, Value: 1})
		}
	}
	doc, err := collection(w.db, j.target.Name).
		FindOne(ctx, j.self(), options.FindOne().SetProjection(parts)).Raw()
	if err != nil || len(parts) == 0 {
		return known
	}
	if member, reason := j.plan.misfit(doc); member != "" {
		shape.Field, shape.Reason = member, reason
	}
	return known
}

func refusalOf(j *writeJob, err error) error {
	is := func(codes []int) bool {
		return slices.ContainsFunc(codes, func(code int) bool { return hasCode(err, code) })
	}
	switch {
	case errors.Is(err, driver.ErrDocumentTooLarge), is(tooLargeCodes):
		return fmt.Errorf("%w: the document would pass MongoDB's limit: %w", once.ErrTooLarge, err)
	case hasCode(err, codeDuplicateKey):
		return &write.ShapeError{
			In:     j.event.In,
			Reason: "another unique index refuses the change",
			Err:    hideValues(err),
		}
	case is(shapeCodes):
		return &write.ShapeError{
			In:     j.event.In,
			Reason: "the server refuses the change",
			Err:    hideValues(err),
		}
	}
	return fmt.Errorf("change document: %w", err)
}

// hideValues keeps the code of a server's error and leaves out its text, which holds values of the
// document.
func hideValues(err error) error {
	var server mongo.ServerError
	if errors.As(err, &server) {
		return fmt.Errorf("code %v", server.ErrorCodes())
	}
	return err
}

// noAnswer wraps an error after which nobody knows whether the event was written.
func noAnswer(ctx context.Context, doing string, err error) error {
	if err == nil {
		err = ctx.Err()
	}
	return fmt.Errorf("%s: %w: %w", doing, once.ErrUnavailable, err)
}

func isUnavailable(err error) bool { return errors.Is(err, once.ErrUnavailable) }
