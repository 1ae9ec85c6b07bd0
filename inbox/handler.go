package inbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/queue"
)

// Handler works callbacks. Both parts are called by many goroutines at once, for different
// callbacks.
//
// A callback may be worked more than once: after a lost lease, after a failed Commit, after an
// attempt that nobody knows the end of. Whatever Work does outside the store should carry
// [Callback.IdempotencyKey]; what Commit writes is in effect exactly once.
type Handler interface {
	// Work does what takes time, without a transaction, until ctx ends; it must obey ctx. Its
	// result is handed to Commit. An error means another try after a backoff, unless it was made
	// by [Permanent], [RetryAfter], [Unknown] or [Stale].
	Work(ctx context.Context, c Callback) (result any, err error)
	// Commit writes in the transaction in which the callback becomes done. It has to be short:
	// the store bounds it by ctx, which has the values of Work's, such as the span of the attempt.
	// An error undoes it all and is judged like one of Work.
	Commit(ctx context.Context, tx queue.Tx, c Callback, result any) error
}

// WorkFunc is a Handler without a Commit.
type WorkFunc func(ctx context.Context, c Callback) (any, error)

// Work calls f.
func (f WorkFunc) Work(ctx context.Context, c Callback) (any, error) { return f(ctx, c) }

// Commit does nothing.
func (f WorkFunc) Commit(context.Context, queue.Tx, Callback, any) error { return nil }

func (f WorkFunc) workOnly() {}

// workOnly is a Handler whose Commit does nothing, so that a settlement needs no transaction.
type workOnly interface{ workOnly() }

// Commits reports whether a handler has a Commit that does something, which needs a store whose
// transactions speak SQL. Nil has none.
func Commits(h Handler) bool {
	_, only := h.(workOnly)
	return h != nil && !only
}

// CommitFunc is a Handler without a Work: all it does happens in the store's transaction.
type CommitFunc func(ctx context.Context, tx queue.Tx, c Callback) error

// Work does nothing.
func (f CommitFunc) Work(context.Context, Callback) (any, error) { return nil, nil }

// Commit calls f.
func (f CommitFunc) Commit(ctx context.Context, tx queue.Tx, c Callback, _ any) error {
	return f(ctx, tx, c)
}

// Callback is a stored message as a handler sees it. Its fields must not be changed.
type Callback struct {
	// ID is stable for the life of the callback and beyond.
	ID     string
	Source string
	Event  string
	// Key is the key's parts as texts.
	Key []string
	// Header as it came, without the ones that are not kept.
	Header http.Header
	Query  url.Values
	// Body, byte for byte as it came, also encoded as Content-Encoding says; [Callback.Content] is
	// what was encoded. Of a message with several elements it is the message in which the list
	// holds only the one that this callback is.
	Body []byte
	// Item is that element, as JSON with exact numbers, and ItemIndex its place in the list as it
	// came, from 0. Nil: the message is one callback.
	Item      []byte
	ItemIndex int
	// Attempt counts from 1.
	Attempt    int
	ReceivedAt time.Time
	// TraceParent and TraceState are the trace context (W3C Trace Context) of this attempt, or as
	// the sender gave it where attempts are not traced; empty: none.
	TraceParent, TraceState string

	as bodyForm
}

// IdempotencyKey returns what a call that belongs to this callback should be known by. It is the
// same in every attempt.
func (c Callback) IdempotencyKey() string { return c.ID }

// byteOrderMark at the start of a body is accepted by the receiver and is no part of the JSON.
const byteOrderMark = "\xef\xbb\xbf"

// Content returns the body without its Content-Encoding: Body itself if it has none.
func (c Callback) Content() ([]byte, error) {
	content, err := c.as.content(c.Body)
	if err != nil {
		return nil, fmt.Errorf("decode callback: %w", err)
	}
	return content, nil
}

// Decode decodes the content into v as package encoding/json does; a form is decoded like an object
// of texts, in which a doubled name has a list. Numbers in an any become json.Number, so that none
// above 2^53 changes.
func (c Callback) Decode(v any) error {
	content, err := c.Content()
	if err != nil {
		return err
	}
	if c.as.Form {
		form, err := decodeForm(content)
		if err == nil {
			content, err = value.Encode(form)
		}
		if err != nil {
			return fmt.Errorf("decode callback: %w", err)
		}
	}
	return decodeJSON(content, v)
}

// DecodeItem decodes the element into v as Decode does the body. It is an error where the message
// is one callback.
func (c Callback) DecodeItem(v any) error {
	if c.Item == nil {
		return errors.New("decode element: the message is one callback")
	}
	return decodeJSON(c.Item, v)
}

func decodeJSON(b []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(b, []byte(byteOrderMark))))
	dec.UseNumber()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("decode callback: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("decode callback: something follows the value")
	}
	return nil
}

// callbackOf makes what a handler sees of a row.
func callbackOf(row *queue.Row) (Callback, error) {
	if row.Body == nil && row.Meta == nil {
		return Callback{}, errors.New("the message is no longer kept")
	}
	request, err := DecodeMeta(row.Meta)
	if err != nil {
		return Callback{}, err
	}
	c := Callback{
		ID: row.ID(), Source: row.Source, Event: row.Event, Key: row.Key,
		Header: request.Header, Body: row.Body, Attempt: row.Attempt,
		ReceivedAt: row.ReceivedAt, TraceParent: row.TraceParent, TraceState: row.TraceState,
		as: request.as,
	}
	if e := request.Element; e != nil {
		c.Item, c.ItemIndex = e.Value, e.Index
	}
	if request.Query != "" {
		c.Query, _ = url.ParseQuery(request.Query) // what can be read of it
	}
	return c, nil
}
