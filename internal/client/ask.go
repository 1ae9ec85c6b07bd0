package client

import (
	"context"
	"encoding/json"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/oncekit/once/internal/wire"
)

// Item is a thing as this program knows it, and as the server wrote it: a newer one may say more.
type Item[T any] struct {
	Value T
	JSON  json.RawMessage
}

// UnmarshalJSON reads both.
func (i *Item[T]) UnmarshalJSON(b []byte) error {
	i.JSON = slices.Clone(b)
	return json.Unmarshal(b, &i.Value)
}

// Page is one page of a list. It may be empty although Next is not.
type Page[T any] struct {
	Items []Item[T] `json:"items"`
	// Next is the cursor of the following page; empty: there is none.
	Next string `json:"next"`
}

// Query selects what a list has. Filter has parameters by the names that the API gives them; empty
// values select everything.
type Query struct {
	Filter map[string]string
	// Limit of the page, 1 to 1000; 0: what the server thinks right.
	Limit  int
	Cursor string
}

// MaxLimit is the largest page that the API gives.
const MaxLimit = 1000

func (q Query) values() url.Values {
	out := url.Values{}
	for _, name := range slices.Sorted(maps.Keys(q.Filter)) {
		if q.Filter[name] != "" {
			out.Set(name, q.Filter[name])
		}
	}
	if q.Limit > 0 {
		out.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.Cursor != "" {
		out.Set("cursor", q.Cursor)
	}
	return out
}

// segments makes a path of texts, each percent-encoded by itself.
func segments(parts ...string) string {
	var b strings.Builder
	b.WriteString(prefix)
	for _, p := range parts {
		b.WriteString("/" + url.PathEscape(p))
	}
	return b.String()
}

func list[T any](ctx context.Context, c *Client, of string, q Query) (p Page[T], err error) {
	err = c.get(ctx, segments(of), q.values(), &p)
	return p, err
}

func one[T any](ctx context.Context, c *Client, parts ...string) (i Item[T], err error) {
	err = c.get(ctx, segments(parts...), nil, &i)
	return i, err
}

func change[T any](ctx context.Context, c *Client, change any, parts ...string) (i Item[T],
	err error) {
	err = c.post(ctx, segments(parts...), change, &i)
	return i, err
}

// Callbacks returns a page of callbacks, latest first. The filters are source, state, event, task
// and key.
func (c *Client) Callbacks(ctx context.Context, q Query) (Page[wire.Callback], error) {
	return list[wire.Callback](ctx, c, "callbacks", q)
}

// Callback returns one callback.
func (c *Client) Callback(ctx context.Context, id string) (Item[wire.CallbackDetail], error) {
	return one[wire.CallbackDetail](ctx, c, "callbacks", id)
}

// ChangeCallback does retry or discard to a callback.
func (c *Client) ChangeCallback(ctx context.Context, id, action string, by wire.Change) (
	Item[wire.CallbackDetail], error) {
	return change[wire.CallbackDetail](ctx, c, by, "callbacks", id, action)
}

// Accept makes a conflicting arrival of a callback a revision.
func (c *Client) Accept(ctx context.Context, id string, ch wire.AcceptChange) (
	Item[wire.CallbackDetail], error) {
	return change[wire.CallbackDetail](ctx, c, ch, "callbacks", id, "accept")
}

// Effects returns a page of effects, latest first. The filters are state, destination, name and
// task.
func (c *Client) Effects(ctx context.Context, q Query) (Page[wire.Effect], error) {
	return list[wire.Effect](ctx, c, "effects", q)
}

// Effect returns one effect.
func (c *Client) Effect(ctx context.Context, id string) (Item[wire.EffectDetail], error) {
	return one[wire.EffectDetail](ctx, c, "effects", id)
}

// ChangeEffect does retry, discard or done to an effect.
func (c *Client) ChangeEffect(ctx context.Context, id, action string, by wire.Change) (
	Item[wire.EffectDetail], error) {
	return change[wire.EffectDetail](ctx, c, by, "effects", id, action)
}

// Tasks returns a page of tasks, those that were created last first. The filters are flow and
// state.
func (c *Client) Tasks(ctx context.Context, q Query) (Page[wire.ListedTask], error) {
	return list[wire.ListedTask](ctx, c, "tasks", q)
}

// Task returns one task.
func (c *Client) Task(ctx context.Context, flow, id string) (Item[wire.Task], error) {
	return one[wire.Task](ctx, c, "tasks", flow, id)
}

// Move puts a task into another state.
func (c *Client) Move(ctx context.Context, flow, id string, ch wire.MoveChange) (Item[wire.Task],
	error) {
	return change[wire.Task](ctx, c, ch, "tasks", flow, id, "move")
}

// Resources returns a page of resources by kind and name. The filter is kind.
func (c *Client) Resources(ctx context.Context, q Query) (Page[wire.ListedResource], error) {
	return list[wire.ListedResource](ctx, c, "resources", q)
}

// Release frees a resource, as its owner would.
func (c *Client) Release(ctx context.Context, kind, name string, ch wire.ReleaseChange) (
	Item[wire.Resource], error) {
	return change[wire.Resource](ctx, c, ch, "resources", kind, name, "release")
}

// Transfer gives a resource to a task.
func (c *Client) Transfer(ctx context.Context, kind, name string, ch wire.TransferChange) (
	Item[wire.Resource], error) {
	return change[wire.Resource](ctx, c, ch, "resources", kind, name, "transfer")
}

// Rejected returns the latest refused messages, on one page. The filter is source.
func (c *Client) Rejected(ctx context.Context, q Query) (Page[wire.Rejected], error) {
	return list[wire.Rejected](ctx, c, "rejected", q)
}

// Destinations returns how each destination stands.
func (c *Client) Destinations(ctx context.Context) (Page[wire.Destination], error) {
	return list[wire.Destination](ctx, c, "destinations", Query{})
}

// Sources returns how each source stands.
func (c *Client) Sources(ctx context.Context) (Page[wire.Source], error) {
	return list[wire.Source](ctx, c, "sources", Query{})
}

// Nodes returns the processes that serve the store.
func (c *Client) Nodes(ctx context.Context) (Page[wire.Node], error) {
	return list[wire.Node](ctx, c, "nodes", Query{})
}

// Counts returns the counters that the server keeps.
func (c *Client) Counts(ctx context.Context) (Item[wire.Counts], error) {
	return one[wire.Counts](ctx, c, "counts")
}

// Index returns the version of the server and what it answers.
func (c *Client) Index(ctx context.Context) (i wire.Index, err error) {
	err = c.get(ctx, "/", nil, &i)
	return i, err
}

// Ready asks whether the store can be written. That it can't is a *wire.Problem with the reason.
func (c *Client) Ready(ctx context.Context) error {
	return c.get(ctx, "/readyz", nil, &wire.Health{})
}

// isLoopback reports whether a host can only be this machine.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// Records returns a page of records of guarded requests. The filters are state, scope and key.
func (c *Client) Records(ctx context.Context, q Query) (Page[wire.Record], error) {
	return list[wire.Record](ctx, c, "records", q)
}

// Record returns one record.
func (c *Client) Record(ctx context.Context, id string) (Item[wire.RecordDetail], error) {
	return one[wire.RecordDetail](ctx, c, "records", id)
}

// ReleaseRecord frees a key.
func (c *Client) ReleaseRecord(ctx context.Context, id string, ch wire.RecordChange) (
	Item[wire.RecordDetail], error) {
	return change[wire.RecordDetail](ctx, c, ch, "records", id, "release")
}

// ResolveRecord decides about a record whose attempt was lost.
func (c *Client) ResolveRecord(ctx context.Context, id string, ch wire.ResolveChange) (
	Item[wire.RecordDetail], error) {
	return change[wire.RecordDetail](ctx, c, ch, "records", id, "resolve")
}
