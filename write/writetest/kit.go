package writetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/oncekit/once/write"
)

// kit is a writer under test with the calls that cases make again and again.
type kit struct {
	*testing.T
	ctx context.Context
	h   Harness
	n   int // events so far, for their ids
}

// caseLimit is how long a case may take: for a writer that hangs, on a machine that does much else.
const caseLimit = 3 * time.Minute

func newKit(t *testing.T, h Harness) *kit {
	ctx, cancel := context.WithTimeout(t.Context(), caseLimit)
	t.Cleanup(cancel)
	return &kit{T: t, ctx: ctx, h: h}
}

// event returns an event with a new id.
func (k *kit) event(key any, c write.Change) write.Event {
	k.n++
	return write.Event{ID: fmt.Sprintf("event %d", k.n), In: in(key), Key: key, Change: c}
}

// in is the target of a key: by its type.
func in(key any) string {
	if _, isText := key.(string); isText {
		return "accounts"
	}
	return "counters"
}

// write writes an event, which has to work.
func (k *kit) write(e write.Event) write.Result {
	k.Helper()
	r, err := k.h.Writer.Write(k.ctx, e)
	if err != nil {
		k.Fatalf("write %s: %v", e.ID, err)
	}
	if r.Err != nil {
		k.Errorf("write %s: no error, but one in the result: %v", e.ID, r.Err)
	}
	return r
}

// do writes a change with a new id, which has to be applied.
func (k *kit) do(key any, c write.Change) write.Result {
	k.Helper()
	r := k.write(k.event(key, c))
	k.want("outcome", r.Outcome, write.Applied)
	if r.First != nil {
		k.Errorf("an applied event has a first one: %+v", *r.First)
	}
	return r
}

func (k *kit) writeAll(events ...write.Event) []write.Result {
	k.Helper()
	rs, err := k.h.Writer.WriteAll(k.ctx, events)
	if err != nil {
		k.Fatalf("write %d events: %v", len(events), err)
	}
	if len(rs) != len(events) {
		k.Fatalf("%d results for %d events", len(rs), len(events))
	}
	return rs
}

// refuse writes an event that has to end in an error, and change nothing.
func (k *kit) refuse(e write.Event, want error) error {
	k.Helper()
	r, err := k.h.Writer.Write(k.ctx, e)
	if !errors.Is(err, want) {
		k.Errorf("write %.40q: %v, %v, want the error %v", e.ID, r, err, want)
	}
	if r.Outcome != "" {
		k.Errorf("write %.40q: an error, and the outcome %s", e.ID, r.Outcome)
	}
	return err
}

func (k *kit) want(what string, got, want any) {
	k.Helper()
	if !reflect.DeepEqual(got, want) {
		k.Errorf("%s: %v (%T), want %v (%T)", what, got, got, want, want)
	}
}

// wantDoc compares a document; nil members and those that are missing are the same.
func (k *kit) wantDoc(key any, want write.Fields) {
	k.Helper()
	got, found := k.h.Read(k.T, in(key), key)
	if !found {
		k.Errorf("document %.40v: there is none, want %v", key, want)
		return
	}
	if len(got) == 0 {
		got = write.Fields{}
	}
	if !equal(got, want) {
		k.Errorf("document %.40v: %v, want %v", key, got, want)
	}
}

func (k *kit) wantNone(key any) {
	k.Helper()
	if got, found := k.h.Read(k.T, in(key), key); found {
		k.Errorf("document %.40v: %v, want none", key, got)
	}
}

// equal compares documents: times as moments, and numbers as write.Number gives them.
func equal(a, b write.Fields) bool {
	if len(a) != len(b) {
		return false
	}
	for name, v := range a {
		w, found := b[name]
		if !found {
			return false
		}
		t, isTime := v.(time.Time)
		u, areTimes := w.(time.Time)
		if isTime && areTimes && t.Equal(u) {
			continue
		}
		if !reflect.DeepEqual(plain(v), plain(w)) {
			return false
		}
	}
	return true
}

// wantFirst compares what a repeat is told of the first time.
func (k *kit) wantFirst(r write.Result, outcome write.Outcome, e write.Event) {
	k.Helper()
	if r.First == nil {
		k.Errorf("%s of %s without what the first one did", r.Outcome, e.ID)
		return
	}
	k.want("first outcome", r.First.Outcome, outcome)
	k.want("first document", placeOf(r.First.In, r.First.Key), placeOf(e.In, e.Key))
	// The database's clock may be another machine's.
	if age := time.Since(r.First.At); age < -time.Hour || age > 24*time.Hour {
		k.Errorf("the first one was %v ago", age)
	}
}
