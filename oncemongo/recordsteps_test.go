package oncemongo_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver/mongotest"
	"github.com/oncekit/once/oncemongo"
)

// The document is what people see in a shell: its fields and their kinds are kept to.
func TestARecordIsADocumentThatAPersonCanRead(t *testing.T) {
	t.Parallel()
	s, db := someRecords(t)
	c := recordClaim("read")
	g := claimRecord(t, s, c)
	doc := stored(t, db, c.Identity)
	for name, want := range map[string]any{
		"state": "in_flight", "key": "ke", "request": "POST /orders", "on_unknown": "retry",
		"attempt": int64(1), "takeover": false, "retention_ms": int64(3_600_000),
		"fence": g.Fence, "revision": int64(1),
	} {
		if doc[name] != want {
			t.Errorf("%s is %v (%T), want %v (%T)", name, doc[name], doc[name], want, want)
		}
	}
	if scope, _ := doc["scope"].(bson.A); !slices.Equal(scope, bson.A{"tenant", "a"}) {
		t.Errorf("scope is %v", doc["scope"])
	}
	claimed, _ := doc["claimed_at"].(bson.DateTime)
	lease, _ := doc["lease_end"].(bson.DateTime)
	if claimed == 0 || lease-claimed != 60_000 || g.Fence != int64(claimed)*1000 {
		t.Errorf("claimed at %v until %v with fence %d", claimed, lease, g.Fence)
	}
	for _, name := range []string{"expires_at", "finished_at", "outcome", "outcome_kind"} {
		if _, found := doc[name]; found {
			t.Errorf("in flight it has %s", name)
		}
	}
	completeRecord(t, s, g, "done")
	doc = stored(t, db, c.Identity)
	finished, _ := doc["finished_at"].(bson.DateTime)
	// An hour and a 16th of it.
	if expires, _ := doc["expires_at"].(bson.DateTime); expires-finished != 3_825_000 {
		t.Errorf("finished at %v, expires at %v", finished, expires)
	}
	if data, _ := doc["outcome"].(bson.Binary); string(data.Data) != "done" ||
		doc["outcome_kind"] != "kept" || doc["outcome_bytes"] != int64(4) ||
		doc["revision"] != int64(2) || doc["state"] != "completed" {
		t.Errorf("completed it is %v", doc)
	}
}

// What BSON can't hold as a string comes back as it was.
func TestANoteIsKeptAsItIs(t *testing.T) {
	t.Parallel()
	s, _ := someRecords(t)
	c := recordClaim("note")
	c.Note = once.Note{
		Scope: []string{"a\x00b", "", strings.Repeat("s", 300)}, Key: "k\xff",
		Request: strings.Repeat("é", 200),
	}
	claimRecord(t, s, c)
	r, err := s.Record(testContext(t), c.Identity)
	if err != nil || len(r.Note.Scope) != 3 || r.Note.Scope[0] != "a\x00b" ||
		r.Note.Scope[1] != "" || len(r.Note.Scope[2]) != 256 || r.Note.Key != "k\xff" ||
		len(r.Note.Request) != 256 {
		t.Errorf("the note is %q, %v", r.Note, err)
	}
}

func TestB07_AnInsertWhoseAnswerWasLostIsOnesOwn(t *testing.T) {
	t.Parallel()
	s, _ := someRecords(t)
	c := recordClaim("own")
	first := claimRecord(t, s, c) // whose answer its caller never got
	if again := claimRecord(t, s, c); again != first {
		t.Errorf("the claim again: %+v, want %+v", again, first)
	}
	_, err := s.Claim(testContext(t), recordClaim("own"))
	wantError(t, "another owner", err, once.ErrInFlight)
}

// The server has removed nothing yet; and a later removal does not harm the record that took the
// place.
func TestB08_WhatIsPastItsRetentionIsAbsentBeforeItIsRemoved(t *testing.T) {
	t.Parallel()
	s, db := someRecords(t)
	c := recordClaim("late")
	old := claimRecord(t, s, c)
	completeRecord(t, s, old, "old")
	past := bson.DateTime(time.Now().Add(-5 * time.Second).UnixMilli())
	edit(t, db, c.Identity, setting("expires_at", past))
	_, err := s.Record(testContext(t), c.Identity)
	wantError(t, "record", err, once.ErrNotFound)
	if page, err := s.Records(testContext(t), once.RecordFilter{}); err != nil ||
		len(page.Records) > 0 {
		t.Errorf("records: %d, %v", len(page.Records), err)
	}
	g := claimRecord(t, s, recordClaim("late"))
	if g.Attempt != 1 || g.Takeover || g.Fence <= old.Fence {
		t.Errorf("granted %+v after %+v", g, old)
	}
	doc := stored(t, db, c.Identity)
	if _, found := doc["outcome"]; found || doc["expires_at"] != nil {
		t.Errorf("the new record has something of the old one: %v", doc)
	}
	if n, err := s.Sweep(testContext(t), 10); n != 0 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	wantError(t, "renew", s.Renew(testContext(t), g, time.Minute), nil)
}

// A record that was removed is followed by one with a higher fence: the fence is the time.
func TestAFenceRisesOverARecordThatWasRemoved(t *testing.T) {
	t.Parallel()
	s, _ := someRecords(t)
	before := claimRecord(t, s, recordClaim("a"))
	for range 5 { // each raises it by one at least
		wantError(t, "release", s.Release(testContext(t), before), nil)
		before = claimRecord(t, s, recordClaim("a"))
	}
	completeRecord(t, s, before, "done")
	s.Advance(2 * time.Hour)
	if n, err := s.Sweep(testContext(t), 10); n != 1 || err != nil {
		t.Fatalf("swept %d, %v", n, err)
	}
	if g := claimRecord(t, s, recordClaim("a")); g.Fence <= before.Fence || g.Attempt != 1 {
		t.Errorf("granted %+v after %+v", g, before)
	}
}

// A sweep looks again at what it has found: what was claimed meanwhile is kept.
func TestASweepLeavesWhatCameBackBeforeItWasRemoved(t *testing.T) {
	t.Parallel()
	plain, db := someRecords(t)
	var again once.Grant
	server := mongotest.Ferret(t)
	client := mongotest.Connect(t, server.URI, watching(func(e *event.CommandStartedEvent) {
		if e.CommandName == "delete" && e.DatabaseName == db.Name() && again.Attempt == 0 {
			again = claimRecord(t, plain, recordClaim("back"))
		}
	}))
	completeRecord(t, plain, claimRecord(t, plain, recordClaim("back")), "old")
	s, err := oncemongo.NewRecords(client.Database(db.Name()), oncemongo.RecordsConfig{})
	if err != nil {
		t.Fatal(err)
	}
	plain.Advance(2 * time.Hour)
	s.KeepClock(plain)
	if n, err := s.Sweep(testContext(t), 10); n != 0 || err != nil || again.Attempt != 1 {
		t.Errorf("swept %d, %v; meanwhile %+v was granted", n, err, again)
	}
	wantError(t, "renewal", plain.Renew(testContext(t), again, time.Minute), nil)
}

func TestASweepTakesNothingThatHasNoExpiry(t *testing.T) {
	t.Parallel()
	s, db := someRecords(t)
	flying, held, lost := recordClaim("flying"), recordClaim("held"), recordClaim("lost")
	held.OnUnknown = once.Hold
	claimRecord(t, s, flying)
	unknown := once.Outcome{Kind: once.Unknown}
	for _, c := range []once.Claim{held, lost} {
		wantError(t, "lose", s.Complete(testContext(t), claimRecord(t, s, c), unknown), nil)
	}
	s.Advance(1000 * time.Hour)
	if n, err := s.Sweep(testContext(t), 10); n != 0 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	for _, c := range []once.Claim{flying, held, lost} {
		if doc := stored(t, db, c.Identity); doc == nil || doc["expires_at"] != nil {
			t.Errorf("it is %v", doc)
		}
	}
}

func TestB13_AnOutcomeBeyondADocumentIsRefusedAndItsTombstoneIsNot(t *testing.T) {
	t.Parallel()
	db := mongotest.Ferret(t).Database(t)
	s := openRecords(t, db, oncemongo.RecordsConfig{MaxOutcome: 31 << 19})
	g := claimRecord(t, s, recordClaim("large"))
	over := once.Outcome{Data: make([]byte, 31<<19+1)}
	wantError(t, "one byte more", s.Complete(testContext(t), g, over), once.ErrTooLarge)
	wantError(t, "a tombstone", s.Complete(testContext(t), g,
		once.Outcome{Kind: once.Tombstone, Data: []byte("201")}), nil)
	if got := replayOf(t, s, recordClaim("large")); got.Kind != once.Tombstone ||
		string(got.Data) != "201" {
		t.Errorf("replayed %v %.40q", got.Kind, got.Data)
	}
	whole := bytes.Repeat([]byte("0123456789abcde\x00"), 31<<15)
	completeRecord(t, s, claimRecord(t, s, recordClaim("whole")), string(whole))
	if got := replayOf(t, s, recordClaim("whole")); !bytes.Equal(got.Data, whole) {
		t.Errorf("%d bytes come back, want %d", len(got.Data), len(whole))
	}
}

func TestARecordThatCannotBeReadIsNeverRunAgain(t *testing.T) {
	t.Parallel()
	s, db := someRecords(t)
	c := recordClaim("bad")
	completeRecord(t, s, claimRecord(t, s, c), "outcome")
	whole := stored(t, db, c.Identity)
	unsetting := func(name string) bson.D {
		return bson.D{{Key: "$unset", Value: bson.D{{Key: name, Value: ""}}}}
	}
	for _, damage := range []bson.D{
		setting("state", "done"), setting("state", 2), setting("fence", "1"), unsetting("fence"),
		setting("fence", int64(-1)), unsetting("owner"), setting("owner", []byte("short")),
		unsetting("fingerprint"), setting("on_unknown", "maybe"), unsetting("revision"),
		unsetting("expires_at"), unsetting("finished_at"), unsetting("claimed_at"),
		unsetting("outcome"), setting("outcome_bytes", 3), unsetting("outcome_kind"),
		setting("outcome_kind", "lost"), setting("state", "in_flight"),
		setting("state", "released"), setting("scope", "text"), setting("key", 7),
		setting("attempt", 0), setting("retention_ms", 1.5), setting("lease_end", "tomorrow"),
	} {
		edit(t, db, c.Identity, damage)
		_, err := s.Claim(testContext(t), recordClaim("bad"))
		wantError(t, damage.String()+": claim", err, once.ErrCorrupt)
		if errors.Is(err, once.ErrUnavailable) {
			t.Errorf("%s: %v, which would be tried again", damage, err)
		}
		_, err = s.Record(testContext(t), c.Identity)
		wantError(t, damage.String()+": record", err, once.ErrCorrupt)
		if _, err := s.Records(testContext(t), once.RecordFilter{}); err != nil {
			t.Errorf("%s: records: %v", damage, err)
		}
		if _, err := db.Collection("once_records").ReplaceOne(testContext(t), byID(c.Identity),
			whole); err != nil {
			t.Fatal(err)
		}
	}
	if got := replayOf(t, s, recordClaim("bad")); string(got.Data) != "outcome" {
		t.Errorf("replayed %q in the end", got.Data)
	}
}

// What somebody else has put into the collection is no record, and hides none.
func TestRecordsAreListedAmongForeignDocuments(t *testing.T) {
	t.Parallel()
	s, db := someRecords(t)
	for _, id := range []any{"0", "g", bson.NewObjectID(), 7, strings.Repeat("f", 64)} {
		if _, err := db.Collection("once_records").InsertOne(testContext(t),
			bson.D{{Key: "_id", Value: id}, {Key: "state", Value: "unknown"}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		claimRecord(t, s, recordClaim(name))
	}
	f, seen := once.RecordFilter{Limit: 1}, 0
	for {
		page, err := s.Records(testContext(t), f)
		if err != nil {
			t.Fatal(err)
		}
		seen += len(page.Records)
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	if seen != 3 {
		t.Errorf("%d records, want 3", seen)
	}
}
