package inbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/oncekit/once"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/queue"
)

// itemField returns a member of the element that a message stands at.
func itemField(m *inbox.Message, name string) (any, error) {
	object, ok := m.Item.(map[string]any)
	if !ok {
		return nil, errors.New("element is not an object")
	}
	return object[name], nil
}

// elementsOf returns a value as a list of elements: an object is a list of one.
func elementsOf(v any) ([]any, error) {
	switch v := v.(type) {
	case []any:
		return v, nil
	case map[string]any:
		return []any{v}, nil
	}
	return nil, errors.New("data is no list")
}

// listed is a source whose messages carry callbacks in body.data, each with a number and a state.
// Its replies are one letter an outcome.
func listed() *inbox.Source {
	letter := func(s string) inbox.Reply {
		return inbox.Reply{Body: text(func(m *inbox.Message) (string, error) {
			if m.Item != nil {
				return "", errors.New("a reply has no element")
			}
			return strings.TrimSuffix(s+" "+m.Error, " "), nil
		})}
	}
	return &inbox.Source{
		Name: "listed",
		Each: func(m *inbox.Message) ([]any, error) {
			v, err := bodyField(m, "data")
			if err != nil {
				return nil, err
			}
			return elementsOf(v)
		},
		Key: func(m *inbox.Message) (once.Key, error) {
			v, err := itemField(m, "no")
			if err != nil {
				return nil, err
			}
			return once.KeyOf(v)
		},
		Event: func(m *inbox.Message) (string, error) {
			v, err := itemField(m, "state")
			return fmt.Sprint(v), err
		},
		Fingerprint: func(m *inbox.Message) (once.Fingerprint, error) {
			return value.Digest(m.Item, nil)
		},
		Route: func(m *inbox.Message, event string) (inbox.Route, error) {
			v, err := itemField(m, "no")
			return inbox.Route{Lane: "flow", Task: fmt.Sprint(v), Unrouted: event == "9"}, err
		},
		Replies: map[queue.Outcome]inbox.Reply{
			queue.Accepted: letter("A"), queue.Duplicate: letter("D"), queue.Conflict: letter("C"),
			queue.Invalid: letter("I"), queue.Unavailable: letter("U"),
		},
	}
}

// elementCounter is a counter that counts elements too.
type elementCounter struct{ counter }

func (c *elementCounter) Elements(source string, o queue.Outcome, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[source+" "+string(o)] += n
}

// sent posts a message to the source listed and returns the reply's body.
func sent(rc *inbox.Receiver, body string) string {
	w := post(rc, "/in/listed", body)
	return w.Body.String()
}

// keysOf are the keys of arrivals, in order.
func keysOf(as []queue.Arrival) []string {
	out := []string{}
	for _, a := range as {
		out = append(out, strings.Join(a.Key, "|"))
	}
	return out
}

func TestAMessageWithSeveralElementsHasOneReply(t *testing.T) {
	many := func(n int) string {
		var b strings.Builder
		b.WriteString(`{"data":[`)
		for i := range n {
			fmt.Fprintf(&b, `{"no":%d},`, i)
		}
		return strings.TrimSuffix(b.String(), ",") + `]}`
	}
	for name, c := range map[string]struct {
		before string // a message that came before
		body   string
		refuse bool // each.bad: refuse
		want   string
		status int
		keys   string // what is accepted, after what was before
		ring   []string
	}{
		"all new": {"", `{"data":[{"no":1},{"no":"b"}]}`, false, "A", 200, "1 b", nil},
		"all known": {`{"data":[{"no":1},{"no":2}]}`, `{"data":[{"no":2},{"no":1}]}`,
			false, "D", 200, "", nil},
		"one new": {`{"data":[{"no":1}]}`, `{"data":[{"no":1},{"no":2}]}`,
			false, "A", 200, "2", nil},
		"one differs": {`{"data":[{"no":1},{"no":2}]}`, `{"data":[{"no":1},{"no":2,"x":0}]}`,
			false, "C", 200, "", nil},
		"differs and new": {`{"data":[{"no":1}]}`, `{"data":[{"no":1,"x":0},{"no":2}]}`,
			false, "A", 200, "2", nil},
		"number and text": {`{"data":[{"no":1}]}`, `{"data":[{"no":"1"}]}`,
			false, "A", 200, "1", nil},
		"other envelope": {`{"at":1,"data":[{"no":1},{"no":2}]}`,
			`{"at":2,"data":[{"no":1},{"no":2}]}`, false, "D", 200, "", nil},
		"an object":          {"", `{"data":{"no":1}}`, false, "A", 200, "1", nil},
		"object, then list":  {`{"data":{"no":1}}`, `{"data":[{"no":1}]}`, false, "D", 200, "", nil},
		"the same twice":     {"", `{"data":[{"no":1},{"no":1}]}`, false, "A", 200, "1", nil},
		"twice, then again":  {`{"data":[{"no":1},{"no":1}]}`, `{"data":[{"no":1},{"no":1}]}`, false, "D", 200, "", nil},
		"one key, two texts": {"", `{"data":[{"no":1},{"no":1,"x":0}]}`, false, "A", 200, "1", nil},
		"unrouted":           {"", `{"data":[{"no":1,"state":9},{"no":2}]}`, false, "A", 200, "1 2", nil},
		"thousand":           {"", many(1000), false, "A", 200, "...", nil},
		"empty list": {"", `{"data":[]}`, false, "I the list of elements is empty", 400, "",
			[]string{"the list of elements is empty"}},
		"no list": {"", `{"data":"x"}`, false, "I data is no list", 400, "", []string{"data is no list"}},
		"one too many": {"", many(1001), false,
			"I the message has 1001 elements, at most 1000 are taken",
			400, "", []string{"the message has 1001 elements, at most 1000 are taken"}},
		"far too many": {"", many(10000), true,
			"I the message has 10000 elements, at most 1000 are taken",
			400, "", []string{"the message has 10000 elements, at most 1000 are taken"}},
		"bad among good": {"", `{"data":[{"no":1},{"n":2},{"no":3},7]}`, false, "A", 200, "1 3",
			[]string{"element [1] of 4: key part 1 is missing",
				"element [3] of 4: element is not an object"}},
		"bad among known": {`{"data":[{"no":1}]}`, `{"data":[{"no":""},{"no":1}]}`, false, "D", 200, "",
			[]string{"element [0] of 2: key part 1 is empty"}},
		"bad refused": {"", `{"data":[{"no":1},{"n":2},{"no":3}]}`, true,
			"I element [1]: key part 1 is missing", 400, "",
			[]string{"element [1]: key part 1 is missing"}},
		"several bad refused": {"", `{"data":[{"no":1},{"n":2},{"no":null}]}`, true,
			"I 2 of the 3 elements can't be taken; element [1]: key part 1 is missing", 400, "",
			[]string{"2 of the 3 elements can't be taken; element [1]: key part 1 is missing"}},
		"all bad": {"", `{"data":[{"n":1},{"no":[]}]}`, false,
			"I none of the 2 elements can be taken; element [0]: key part 1 is missing", 400, "",
			[]string{"none of the 2 elements can be taken; element [0]: key part 1 is missing"}},
		"the only one is bad": {"", `{"data":{"no":{}}}`, false, "I element [0]: key part 1 is an object",
			400, "", []string{"element [0]: key part 1 is an object"}},
	} {
		t.Run(name, func(t *testing.T) {
			store, source := newMemStore(), listed()
			source.RefuseBad = c.refuse
			rc := newReceiver(t, store, inbox.Config{}, source)
			if c.before != "" {
				if got := sent(rc, c.before); got != "A" {
					t.Fatalf("before: %s", got)
				}
			}
			n := len(store.accepted())
			w := post(rc, "/in/listed", c.body)
			if w.Code != c.status || w.Body.String() != c.want {
				t.Errorf("answer %d %q, want %d %q", w.Code, w.Body, c.status, c.want)
			}
			got := strings.Join(keysOf(store.accepted()[n:]), " ")
			all := c.keys == "..." && strings.Count(got, " ") == 999
			if got != c.keys && !all {
				t.Errorf("accepted %s, want %s", got, c.keys)
			}
			var reasons []string
			for _, r := range store.ring() {
				reasons = append(reasons, r.Reason)
			}
			if !slices.Equal(reasons, c.ring) {
				t.Errorf("ring %q, want %q", reasons, c.ring)
			}
		})
	}
}

func TestElementsCommitTogetherOrNotAtAll(t *testing.T) {
	store, seen := newMemStore(), &elementCounter{counter{n: map[string]int{}}}
	down := errors.New("disk is full")
	store.before = func(context.Context) error { return down }
	rc := newReceiver(t, store, inbox.Config{Observer: seen}, listed())
	const body = `{"data":[{"no":1},{"n":2},{"no":3,"state":9}]}`
	w := post(rc, "/in/listed", body)
	if w.Code != 503 || !strings.HasPrefix(w.Body.String(), "U ") ||
		w.Header().Get("Retry-After") == "" {
		t.Errorf("answer %d %s", w.Code, w.Body)
	}
	if len(store.accepted()) != 0 || len(store.ring()) != 0 || seen.count("listed accepted") != 0 {
		t.Errorf("accepted %v, ring %v, counted %v", store.accepted(), store.ring(), seen.n)
	}
	down = nil
	if got := sent(rc, body); got != "A" {
		t.Errorf("the retry: %s", got)
	}
	if got := sent(rc, body); got != "D" {
		t.Errorf("once more: %s", got)
	}
	as := store.accepted()
	if fmt.Sprint(keysOf(as)) != "[1 3]" || as[0].State != queue.Pending ||
		as[1].State != queue.Unrouted || as[1].Event != "9" || as[1].Task != "3" {
		t.Errorf("accepted %+v", as)
	}
	if store.appends != 2 {
		t.Errorf("%d appends, want one a message", store.appends)
	}
	for what, n := range map[string]int{"listed accepted": 2, "listed duplicate": 2,
		"listed invalid": 2, "listed/accepted": 1, "listed/duplicate": 1, "listed/unavailable": 1} {
		if seen.count(what) != n {
			t.Errorf("counted %s %d times, want %d: %v", what, seen.count(what), n, seen.n)
		}
	}
}

// shortStore loses a receipt.
type shortStore struct{ *memStore }

func (s shortStore) Append(ctx context.Context, as []queue.Arrival) ([]queue.Receipt, error) {
	rs, err := s.memStore.Append(ctx, as)
	return rs[:len(rs)-1], err
}

func TestAStoreThatSaysTooLittleAcknowledgesNoPartOfAList(t *testing.T) {
	rc := newReceiver(t, shortStore{newMemStore()}, inbox.Config{}, listed())
	if w := post(rc, "/in/listed", `{"data":[{"no":1},{"no":2}]}`); w.Code != 503 {
		t.Errorf("answer %d %s", w.Code, w.Body)
	}
}

func TestAPanicAboutOneElementAcknowledgesNone(t *testing.T) {
	store, source := newMemStore(), listed()
	key := source.Key
	source.Key = func(m *inbox.Message) (once.Key, error) {
		if v, _ := itemField(m, "no"); v == any(int64(2)) {
			panic("two")
		}
		return key(m)
	}
	rc := newReceiver(t, store, inbox.Config{}, source)
	if w := post(rc, "/in/listed", `{"data":[{"no":1},{"no":2}]}`); w.Code != 503 {
		t.Errorf("answer %d %s", w.Code, w.Body)
	}
	if len(store.accepted()) != 0 {
		t.Errorf("accepted %v", store.accepted())
	}
}

func TestManyBadElementsDoNotFillTheRing(t *testing.T) {
	store := newMemStore()
	rc := newReceiver(t, store, inbox.Config{}, listed())
	var b strings.Builder
	for i := range 98 {
		fmt.Fprintf(&b, `,{"bad":%d}`, i)
	}
	if got := sent(rc, `{"data":[{"no":1}`+b.String()+`,{"no":2}]}`); got != "A" {
		t.Fatalf("answer %s", got)
	}
	ring := store.ring()
	if len(ring) != 21 {
		t.Fatalf("%d entries", len(ring))
	}
	if r := ring[3]; r.Reason != "element [4] of 100: key part 1 is missing" ||
		string(r.Body) != `{"bad":3}` || r.Size != 9 || r.Outcome != queue.Invalid ||
		r.Source != "listed" || r.Peer == "" || r.At.IsZero() {
		t.Errorf("entry %+v", r)
	}
	if r := ring[20]; r.Reason != "78 more of the 100 elements can't be taken, the first of them: "+
		"element [21]: key part 1 is missing" {
		t.Errorf("the last one says %q", r.Reason)
	}
	if request, err := inbox.DecodeMeta(ring[0].Meta); err != nil || request.Path != "/in/listed" {
		t.Errorf("request %+v, %v", request, err)
	}
}

func TestTheBuiltInReplyNamesTheCallbackOnlyIfItIsTheOnlyOne(t *testing.T) {
	source := listed()
	source.Replies = nil
	rc := newReceiver(t, newMemStore(), inbox.Config{}, source)
	scope, err := once.NewScope("source", "listed")
	if err != nil {
		t.Fatal(err)
	}
	key, err := once.KeyOf(int64(1))
	if err != nil {
		t.Fatal(err)
	}
	id, err := once.Identify(scope, key)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sent(rc, `{"data":[{"no":1}]}`),
		`{"outcome":"accepted","id":"`+id.ID()+`"}`+"\n"; got != want {
		t.Errorf("one: %s, want %s", got, want)
	}
	if got := sent(rc, `{"data":[{"no":1},{"no":2}]}`); got != `{"outcome":"accepted"}`+"\n" {
		t.Errorf("two: %s", got)
	}
}

func TestElementsThatTheStoreRemembersAreNotAppended(t *testing.T) {
	store := &rememberingStore{memStore: newMemStore()}
	rc := newReceiver(t, store, inbox.Config{}, listed())
	for i, c := range []struct {
		body, want         string
		recalled, arrivals int
	}{
		{`{"data":[{"no":1},{"no":2}]}`, "A", 0, 2},
		{`{"data":[{"no":1},{"no":2}]}`, "D", 2, 2},
		{`{"data":[{"no":1},{"no":3},{"no":2}]}`, "A", 4, 3},
		{`{"data":[{"no":1},{"no":2,"x":1}]}`, "C", 5, 4},
	} {
		if got := sent(rc, c.body); got != c.want || store.recalled != c.recalled ||
			store.arrivals != c.arrivals {
			t.Errorf("message %d: %s, %d recalled, %d arrivals; want %+v", i, got, store.recalled,
				store.arrivals, c)
		}
	}
}

// rowOf is the row that a store makes of an arrival, leased.
func rowOf(a queue.Arrival) queue.Row {
	return queue.Row{Seq: 1, Fence: 1, Identity: a.Identity, Fingerprint: a.Fingerprint,
		Kind: a.Kind, Lane: a.Lane, State: queue.Running, Source: a.Source, Event: a.Event,
		Flow: a.Flow, Task: a.Task, Key: a.Key, Attempt: 1, Meta: a.Meta, Body: a.Body}
}

// seen is the callback that a Go handler sees of a row.
func seenBy(t *testing.T, row queue.Row) (c inbox.Callback) {
	t.Helper()
	h := inbox.WorkFunc(func(_ context.Context, got inbox.Callback) (any, error) {
		c = got
		return nil, nil
	})
	s := inbox.Attempt(t.Context(), inbox.HandlerConfig{Handler: h}, row)
	if s.State != queue.Done {
		t.Fatalf("settlement %+v", s)
	}
	return c
}

func TestAnElementIsStoredSoThatItCanBeWorkedAlone(t *testing.T) {
	text := func(m *inbox.Message, name string) ([]any, error) {
		v, err := bodyField(m, name)
		if err != nil {
			return nil, err
		}
		s, _ := v.(string)
		inner, err := value.Decode([]byte(s), value.Limits{})
		if err != nil {
			return nil, err
		}
		if object, ok := inner.(map[string]any); ok && object["list"] != nil {
			inner = object["list"]
		}
		return elementsOf(inner)
	}
	for name, c := range map[string]struct {
		body   string
		each   func(*inbox.Message) ([]any, error) // nil: body.data
		bodies []string
		items  []string
		whole  bool
	}{
		"in the tree": {`{"b":1e400,"data":[{"no":9007199254740993},{"no":2.50}],"a":0.10}`, nil,
			[]string{`{"a":0.10,"b":1e400,"data":[{"no":9007199254740993}]}`,
				`{"a":0.10,"b":1e400,"data":[{"no":2.5}]}`},
			[]string{`{"no":9007199254740993}`, `{"no":2.5}`}, false},
		"one is stored as it came": {"\xef\xbb\xbf{ \"data\": [ {\"no\":1} ]}\n", nil,
			[]string{"\xef\xbb\xbf{ \"data\": [ {\"no\":1} ]}\n"}, []string{`{"no":1}`}, false},
		"an object is stored as it came": {`{"data": {"no": 1}}`, nil,
			[]string{`{"data": {"no": 1}}`}, []string{`{"no":1}`}, false},
		"a bad one is left out": {`{"data":[{"no":1},{}]}`, nil,
			[]string{`{"data":[{"no":1}]}`}, []string{`{"no":1}`}, false},
		"two lists alike": {`{"a":[{"no":1},{"no":2}],"data":[{"no":1},{"no":2}]}`, nil,
			[]string{`{"a":[{"no":1},{"no":2}],"data":[{"no":1}]}`,
				`{"a":[{"no":1},{"no":2}],"data":[{"no":2}]}`}, []string{`{"no":1}`, `{"no":2}`}, false},
		"the same twice": {`{"data":[{"no":1},{"no":1}]}`, nil,
			[]string{`{"data":[{"no":1}]}`}, []string{`{"no":1}`}, false},
		"in a text": {`{"reqCode":"","extra":"[{\"no\": 1}, {\"no\": 2}]"}`,
			func(m *inbox.Message) ([]any, error) { return text(m, "extra") },
			[]string{`{"extra":"[{\"no\":1}]","reqCode":""}`, `{"extra":"[{\"no\":2}]","reqCode":""}`},
			[]string{`{"no":1}`, `{"no":2}`}, false},
		"in an object in a text": {`{"a":"[","data":"{\"list\":[{\"no\":1},{\"no\":2}]}"}`,
			func(m *inbox.Message) ([]any, error) { return text(m, "data") },
			[]string{`{"a":"[","data":"{\"list\":[{\"no\":1}]}"}`,
				`{"a":"[","data":"{\"list\":[{\"no\":2}]}"}`}, []string{`{"no":1}`, `{"no":2}`}, false},
		"a copy of it in the tree": {`{"copy":[{"no":1},{"no":2}],"data":"[{\"no\":1},{\"no\":2}]"}`,
			func(m *inbox.Message) ([]any, error) { return text(m, "data") },
			[]string{`{"copy":[{"no":1},{"no":2}],"data":"[{\"no\":1}]"}`,
				`{"copy":[{"no":1},{"no":2}],"data":"[{\"no\":2}]"}`},
			[]string{`{"no":1}`, `{"no":2}`}, false},
		"some of a list": {`{"data":[{"no":1},{"no":0},{"no":2}]}`,
			func(m *inbox.Message) ([]any, error) {
				v, err := bodyField(m, "data")
				if err != nil {
					return nil, err
				}
				return slices.DeleteFunc(slices.Clone(v.([]any)), func(v any) bool {
					return v.(map[string]any)["no"] == any(int64(0))
				}), nil
			},
			[]string{`{"data":[{"no":1}]}`, `{"data":[{"no":2}]}`}, []string{`{"no":1}`, `{"no":2}`}, false},
		"the body itself": {`[{"no":1},{"no":2}]`,
			func(m *inbox.Message) ([]any, error) { return elementsOf(m.Body) },
			[]string{`[{"no":1}]`, `[{"no":2}]`}, []string{`{"no":1}`, `{"no":2}`}, false},
		"no list at all": {`{"a": {"no":1}, "b": {"no":2}}`,
			func(m *inbox.Message) ([]any, error) {
				body := m.Body.(map[string]any)
				return []any{body["a"], body["b"]}, nil
			},
			[]string{`{"a": {"no":1}, "b": {"no":2}}`, `{"a": {"no":1}, "b": {"no":2}}`},
			[]string{`{"no":1}`, `{"no":2}`}, true},
	} {
		t.Run(name, func(t *testing.T) {
			store, source := newMemStore(), listed()
			if c.each != nil {
				source.Each = c.each
			}
			rc := newReceiver(t, store, inbox.Config{}, source)
			if w := post(rc, "/in/listed?q=1", c.body, "X-A", "1"); w.Code != 200 {
				t.Fatalf("answer %d %s", w.Code, w.Body)
			}
			as := store.accepted()
			if len(as) != len(c.bodies) {
				t.Fatalf("%d rows, want %d", len(as), len(c.bodies))
			}
			for i, a := range as {
				if string(a.Body) != c.bodies[i] {
					t.Errorf("row %d is stored as %s, want %s", i, a.Body, c.bodies[i])
				}
				row := rowOf(a)
				cb := seenBy(t, row)
				if string(cb.Item) != c.items[i] || string(cb.Body) != c.bodies[i] ||
					cb.Header.Get("X-A") != "1" || cb.Query.Get("q") != "1" {
					t.Errorf("a handler sees %s of %s", cb.Item, cb.Body)
				}
				m, err := inbox.StoredMessage(source, &row, 64)
				if err != nil {
					t.Fatal(err)
				}
				item, err := value.Encode(m.Item)
				if err != nil || string(item) != c.items[i] {
					t.Errorf("the source sees %s, %v", item, err)
				}
				of, err := inbox.MessageOf(source, cb, 64)
				if err != nil || !value.Equal(of.Item, m.Item) || !value.Equal(of.Body, m.Body) ||
					of.Header.Get("X-A") != "1" || of.Query.Get("q") != "1" {
					t.Errorf("of the callback it sees %+v, %v", of, err)
				}
				if key, err := source.Key(m); err != nil || key.Strings()[0] != a.Key[0] {
					t.Errorf("the key of the stored message is %v, %v; it was %v", key, err, a.Key)
				}
				if c.whole {
					continue
				}
				got, err := source.Each(m)
				if err != nil || len(got) != 1 || !value.Equal(got[0], m.Item) {
					t.Errorf("in the stored message are %v, %v", got, err)
				}
			}
		})
	}
}

func TestTheIndexOfAnElementIsItsPlaceInTheListAsItCame(t *testing.T) {
	store := newMemStore()
	rc := newReceiver(t, store, inbox.Config{}, listed())
	sent(rc, `{"data":[{},{"no":"a"},{},{"no":"b"}]}`)
	for i, a := range store.accepted() {
		request, err := inbox.DecodeMeta(a.Meta)
		if err != nil {
			t.Fatal(err)
		}
		e := request.Element
		if want := []int{1, 3}[i]; e == nil || e.Index != want || e.Of != 4 || e.Whole {
			t.Errorf("row %d is element %+v", i, e)
		}
		if cb := seenBy(t, rowOf(a)); cb.ItemIndex != []int{1, 3}[i] {
			t.Errorf("a handler sees index %d", cb.ItemIndex)
		}
		var item struct{ No string }
		if err := seenBy(t, rowOf(a)).DecodeItem(&item); err != nil || item.No != "ab"[i:i+1] {
			t.Errorf("decoded %+v, %v", item, err)
		}
	}
	if err := seenBy(t, row(1)).DecodeItem(new(any)); err == nil {
		t.Error("a callback that is no element has one")
	}
}

func TestARowFromBeforeEachIsItsOnlyElement(t *testing.T) {
	row := row(1)
	row.Source, row.Body = "listed", []byte(`{"data":[{"no":7}]}`)
	m, err := inbox.StoredMessage(listed(), &row, 64)
	if err != nil || m.Item.(map[string]any)["no"] != any(int64(7)) {
		t.Errorf("element %v, %v", m, err)
	}
	row.Body = []byte(`{"data":[{"no":7},{"no":8}]}`)
	if _, err := inbox.StoredMessage(listed(), &row, 64); err == nil ||
		!strings.Contains(err.Error(), "stored as one callback and has 2 elements") {
		t.Errorf("error %v", err)
	}
}

func TestWhatTheRowsOfAMessageTakeIsBounded(t *testing.T) {
	elements := func(n int) string {
		return strings.TrimSuffix(strings.Repeat(`{"no":@},`, n), ",")
	}
	numbered := func(s string) string {
		for i := 0; strings.Contains(s, "@"); i++ {
			s = strings.Replace(s, "@", fmt.Sprint(i), 1)
		}
		return s
	}
	asText := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	long := strings.Repeat("x", 20000)
	for name, c := range map[string]struct {
		body string
		want string
	}{
		"many small":         {`{"data":[` + elements(1000) + `]}`, "A"},
		"many in a text":     {`{"data":` + asText(numbered(`[`+elements(500)+`]`)) + `}`, "A"},
		"few, long envelope": {`{"x":"` + long + `","data":[` + elements(15) + `]}`, "A"},
		"long, many":         {`{"x":"` + long + `","data":[` + elements(900) + `]}`, "I its 900 elements need"},
		"long, many in a text": {`{"x":"` + long + `","data":` + asText(numbered(`[`+elements(900)+`]`)) +
			`}`, "I its 900 elements need"},
	} {
		t.Run(name, func(t *testing.T) {
			store, source := newMemStore(), listed()
			each := source.Each
			source.Each = func(m *inbox.Message) ([]any, error) {
				v, err := bodyField(m, "data")
				if s, ok := v.(string); ok && err == nil {
					if v, err = value.Decode([]byte(s), value.Limits{}); err == nil {
						return elementsOf(v)
					}
				}
				return each(m)
			}
			body := numbered(c.body)
			got := sent(newReceiver(t, store, inbox.Config{}, source), body)
			if !strings.HasPrefix(got, c.want) {
				t.Fatalf("answer %s, want %s", got, c.want)
			}
			total := 0
			for _, a := range store.accepted() {
				total += len(a.Body) + len(a.Meta)
			}
			if limit := max(17*len(body), 1<<20); total > limit {
				t.Errorf("%d bytes are kept of %d, at most %d", total, len(body), limit)
			}
		})
	}
}
