package api

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/wire"
)

// Records is what the API needs of the gateway's store of records.
type Records interface {
	once.Browser
	once.Resolver
}

// RecordsConfig says how records are shown and decided about.
type RecordsConfig struct {
	// Store of the records.
	Store Records
	// Read makes an answer of a kept outcome; nil without an error where it can't be shown.
	Read func(id once.Identity, o once.Outcome) (*wire.RecordAnswer, error)
	// Make makes an outcome of an answer.
	Make func(id once.Identity, status int, header http.Header, body []byte) (once.Outcome, error)
	// Counts are the records by state. Default: they aren't counted.
	Counts func() map[once.RecordState]int64
	// Scoped is true where keys belong to a scope.
	Scoped bool
	// ReadKey reads a key as a request bears it, bare or quoted.
	ReadKey func(text string) (string, error)
}

func (a *API) recordRoutes() []route {
	one := prefix + "/records/{id}"
	return []route{{
		method: http.MethodGet, pattern: prefix + "/records", id: "listRecords",
		summary: "A page of records of guarded requests",
		doc: pageDoc + " With `key` it is the one record of that key in `scope`. The key is " +
			"not logged.",
		query: append([]param{
			{name: "state", doc: "In this state.", enum: recordStates()},
			{name: "scope", doc: "Of this scope: its parts, separated by commas, each " +
				"percent-encoded where it holds a comma or %."},
			{name: "key", doc: "With this key, as its request bore it."},
		}, pageParams()...),
		response: wire.RecordPage{}, handle: a.withRecords(a.listRecords),
		refuses: []int{http.StatusNotFound},
	}, {
		method: http.MethodGet, pattern: one, id: "getRecord",
		summary:  "A record with the answer that is kept",
		response: wire.RecordDetail{}, handle: a.withRecords(a.getRecord),
	}, {
		method: http.MethodPost, pattern: one + "/release", id: "releaseRecord",
		summary: "Free a key: the next request runs again",
		doc: "Of a completed record: its answer is forgotten, and the work is done again. Of " +
			"one that is held or unknown: as resolve with run_again.",
		request: wire.RecordChange{}, response: wire.RecordDetail{},
		handle: a.withRecords(a.releaseRecord),
	}, {
		method: http.MethodPost, pattern: one + "/resolve", id: "resolveRecord",
		summary: "Decide about a record whose attempt was lost",
		doc: "Either run_again (it is known that nothing happened), or answer (it is known what " +
			"happened): every repeat of the same request gets it.",
		request: wire.ResolveChange{}, response: wire.RecordDetail{},
		handle: a.withRecords(a.resolveRecord),
	}}
}

// withRecords answers where there are records.
func (a *API) withRecords(handle func(*call) (any, error)) func(*call) (any, error) {
	if a.cfg.Records != nil {
		return handle
	}
	return func(*call) (any, error) {
		return nil, problemf(http.StatusNotFound, "there are no records: the configuration has no "+
			"gateway")
	}
}

func recordStates() []string {
	return list(once.InFlight, once.Completed, once.Released, once.Lost, once.Held)
}

func recordOf(r *once.Record) wire.Record {
	return wire.Record{
		ID: hex.EncodeToString(r.Identity[:]), State: string(r.State),
		Scope: texts(r.Note.Scope), Key: r.Note.Key, Request: r.Note.Request,
		OnUnknown: r.OnUnknown.String(), Attempt: r.Attempt, Fence: r.Fence,
		ClaimedAt: wire.Maybe(r.ClaimedAt), FinishedAt: wire.Maybe(r.FinishedAt),
		LastAt: wire.Maybe(r.LastAt), LeaseEnd: wire.Maybe(r.LeaseEnd),
		ExpiresAt: wire.Maybe(r.ExpiresAt), Size: r.Size,
	}
}

func (a *API) listRecords(c *call) (any, error) {
	scope, err := scopeParts(c.query["scope"])
	if err != nil {
		return nil, err
	}
	if c.query["key"] != "" {
		return a.findRecord(c, scope)
	}
	cursor, err := c.cursor()
	if err != nil {
		return nil, err
	}
	page, err := a.cfg.Records.Store.Records(c.ctx, once.RecordFilter{
		State: once.RecordState(c.query["state"]), Scope: scope, Limit: c.limit(), After: cursor,
	})
	if err != nil {
		return nil, err
	}
	out := wire.RecordPage{Items: []wire.Record{}, Next: c.next(page.Next)}
	for i := range page.Records {
		out.Items = append(out.Items, recordOf(&page.Records[i]))
	}
	return out, nil
}

// scopeParts reads the parts of a scope.
func scopeParts(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, ",")
	for i, p := range parts {
		plain := unescapePart(p)
		if plain == "" {
			return nil, problemf(http.StatusBadRequest, "part %d of the scope is empty: "+
				"want parts separated by commas, %%2C for a comma and %%25 for a %%", i+1)
		}
		parts[i] = plain
	}
	return parts, nil
}

func unescapePart(s string) string {
	return strings.NewReplacer("%2C", ",", "%2c", ",", "%25", "%").Replace(s)
}

// findRecord is the list of the one record that a key has in its scope.
func (a *API) findRecord(c *call, scope []string) (any, error) {
	key, err := a.cfg.Records.ReadKey(c.query["key"])
	if err != nil || key == "" {
		return nil, problemf(http.StatusBadRequest, "the key is none that a request can bear")
	}
	id, err := a.identify(scope, key)
	if err != nil {
		return nil, err
	}
	out := wire.RecordPage{Items: []wire.Record{}}
	r, err := a.cfg.Records.Store.Record(c.ctx, id)
	switch {
	case errors.Is(err, once.ErrNotFound):
		return out, nil
	case err != nil:
		return nil, err
	}
	if state := c.query["state"]; state == "" || state == string(r.State) {
		out.Items = append(out.Items, recordOf(&r))
	}
	return out, nil
}

func (a *API) identify(parts []string, key string) (once.Identity, error) {
	scope := once.NoScope()
	switch {
	case a.cfg.Records.Scoped && len(parts) == 0:
		return once.Identity{}, problemf(http.StatusBadRequest, "scope is missing: a key belongs "+
			"to one")
	case a.cfg.Records.Scoped:
		var err error
		if scope, err = once.NewScope(parts...); err != nil {
			return once.Identity{}, problemf(http.StatusBadRequest, "%v", err)
		}
	case len(parts) > 0:
		return once.Identity{}, problemf(http.StatusBadRequest, "keys have no scope here: leave "+
			"it out")
	}
	k, err := once.KeyOf(key)
	if err != nil {
		return once.Identity{}, problemf(http.StatusBadRequest, "the key is none that a request "+
			"can bear")
	}
	return once.Identify(scope, k)
}

// identity reads an id: all of the identity in hex.
func (c *call) identity() (id once.Identity, err error) {
	b, err := hex.DecodeString(c.path["id"])
	if err != nil || len(b) != len(id) {
		return id, problemf(http.StatusNotFound, "no record has this id: it is %d hex digits long",
			2*len(id))
	}
	return once.Identity(b), nil
}

func (a *API) getRecord(c *call) (any, error) {
	id, err := c.identity()
	if err != nil {
		return nil, err
	}
	r, err := a.cfg.Records.Store.Record(c.ctx, id)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	c.request = r.Note.Request
	out := wire.RecordDetail{Record: recordOf(&r), Means: meaningOf(&r)}
	if r.State == once.Completed {
		if out.Answer, err = a.cfg.Records.Read(id, r.Outcome); err != nil {
			out.Means += " The kept answer can't be read."
		}
	}
	return out, nil
}

// lostMeans is true of every lost attempt: a record doesn't keep in which way it was lost.
const lostMeans = "An attempt ended, and nobody knows whether it had its effect: its answer was " +
	"500, 502 or 504, or none came. "

// meaningOf says to a person what a state is.
func meaningOf(r *once.Record) string {
	switch r.State {
	case once.InFlight:
		return "The request runs, or its process is gone: then the lease ends by itself."
	case once.Completed:
		if r.Outcome.Kind == once.Tombstone {
			return "It is done. The answer was too large or a stream, and was not kept."
		}
		return "It is done; repeats get the answer."
	case once.Released:
		return "It had no effect. The same request may run again under this key, no other."
	case once.Lost:
		return lostMeans + "The next repeat runs it again."
	case once.Held:
		return lostMeans + "Repeats get 409 until somebody has looked in the service, and has " +
			"resolved it: to run again if it did not happen, and if it did, with the answer that " +
			"repeats shall get."
	}
	return ""
}

func (a *API) releaseRecord(c *call) (any, error) {
	var ch wire.RecordChange
	if err := c.change("release", &ch); err != nil {
		return nil, err
	}
	id, err := c.identity()
	if err != nil {
		return nil, err
	}
	r, err := a.cfg.Records.Store.Record(c.ctx, id)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	res := once.Resolution{Decision: once.RunAgain, Fence: r.Fence}
	if r.State == once.Completed {
		res.Decision = once.ReleaseDone
	}
	if ch.Fence != nil {
		res.Fence = *ch.Fence
	}
	return a.decide(c, id, res)
}

func (a *API) resolveRecord(c *call) (any, error) {
	var ch wire.ResolveChange
	if err := c.change("resolve", &ch); err != nil {
		return nil, err
	}
	id, err := c.identity()
	if err != nil {
		return nil, err
	}
	res := once.Resolution{Decision: once.RunAgain}
	switch {
	case ch.RunAgain == (ch.Answer != nil):
		return nil, problemf(http.StatusBadRequest, "want run_again or answer, one of them")
	case ch.Answer != nil:
		res.Decision = once.AnswerWith
		if res.Outcome, err = a.outcomeOf(id, ch.Answer); err != nil {
			return nil, err
		}
	}
	if ch.Fence != nil {
		res.Fence = *ch.Fence
	}
	return a.decide(c, id, res)
}

func (a *API) outcomeOf(id once.Identity, given *wire.ResolveAnswer) (once.Outcome, error) {
	body := []byte(given.Body)
	if given.BodyBase64 != "" {
		var err error
		body, err = base64.StdEncoding.DecodeString(given.BodyBase64)
		if err != nil || given.Body != "" {
			return once.Outcome{}, problemf(http.StatusBadRequest,
				"want body, or body_base64 in base64")
		}
	}
	header := http.Header{}
	for _, f := range given.Header {
		if !isFieldName(f.Name) || strings.ContainsAny(f.Value, "\r\n\x00") {
			return once.Outcome{}, problemf(http.StatusBadRequest, "a header is no name and value")
		}
		header.Add(f.Name, f.Value)
	}
	if given.Status < 200 || given.Status > 599 {
		return once.Outcome{}, problemf(http.StatusBadRequest, "status is %d, want 200 to 599",
			given.Status)
	}
	o, err := a.cfg.Records.Make(id, given.Status, header, body)
	if err != nil {
		return once.Outcome{}, problemf(http.StatusBadRequest, "%v", err)
	}
	return o, nil
}

func isFieldName(s string) bool {
	return s != "" && !slices.ContainsFunc([]byte(s), func(c byte) bool {
		return c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0
	})
}

// decide carries a decision out.
func (a *API) decide(c *call, id once.Identity, res once.Resolution) (any, error) {
	if err := a.cfg.Records.Store.Resolve(c.ctx, id, res); err != nil {
		return nil, a.undecided(c, id, &res, fmt.Errorf("record: %w", err))
	}
	return made(a.getRecord(c))
}

// undecided says what stood against a decision, as far as the record shows it now.
func (a *API) undecided(c *call, id once.Identity, res *once.Resolution, err error) error {
	if !errors.Is(err, once.ErrState) {
		return err
	}
	r, readErr := a.cfg.Records.Store.Record(c.ctx, id)
	switch {
	case readErr != nil:
		return err
	case res.Fence != 0 && res.Fence != r.Fence:
		return problemf(http.StatusConflict, "its fence is now %d, and not %d: something happened "+
			"to it since, look at it again", r.Fence, res.Fence)
	}
	follows := map[once.RecordState]string{
		once.InFlight:  "an attempt runs until its lease ends",
		once.Completed: "repeats get its answer, until it is released",
		once.Released:  "its key is free, and the next request runs",
	}[r.State]
	if follows == "" {
		return err // it has changed in between
	}
	return problemf(http.StatusConflict, "it is %s: %s", r.State, follows)
}
