package onceredis_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/onceredis"
)

func TestAnOutcomeIsReplayedByteForByte(t *testing.T) {
	t.Parallel()
	s, _ := single(t, onceredis.Config{})
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for name, data := range map[string][]byte{
		"nothing": nil, "every byte": every, "as much as it takes": bytes.Repeat(every, 4352),
	} {
		g := claim(t, s, claimOf(name))
		complete(t, s, g, string(data))
		if got := replay(t, s, claimOf(name)); !bytes.Equal(got.Data, data) {
			t.Errorf("%s: %d bytes come back, want %d", name, len(got.Data), len(data))
		}
	}
	g := claim(t, s, claimOf("more"))
	over := once.Outcome{Data: make([]byte, 1088<<10+1)}
	want(t, "one byte more", s.Complete(t.Context(), g, over), once.ErrTooLarge)
	tombstone := once.Outcome{Kind: once.Tombstone, Data: []byte("201")}
	want(t, "a tombstone", s.Complete(t.Context(), g, tombstone), nil)
	if got := replay(t, s, claimOf("more")); got.Kind != once.Tombstone ||
		string(got.Data) != "201" {
		t.Errorf("replay is %v %.40q, want the tombstone", got.Kind, got.Data)
	}
}

func TestARecordKeepsWhatPeopleAreShown(t *testing.T) {
	t.Parallel()
	s, _ := single(t, onceredis.Config{})
	c := claimOf("shown")
	c.Note = once.Note{
		Scope: []string{"a\x00b", "", strings.Repeat("s", 300)}, Key: "k\xff",
		Request: strings.Repeat("é", 200),
	}
	g := claim(t, s, c)
	r, err := s.Record(t.Context(), c.Identity)
	if err != nil || r.State != once.InFlight || r.Attempt != 1 || r.Fence != g.Fence ||
		!r.FinishedAt.IsZero() || !r.ExpiresAt.IsZero() || r.Fingerprint != c.Fingerprint {
		t.Errorf("in flight: %+v, %v", r, err)
	}
	if len(r.Note.Scope) != 3 || r.Note.Scope[0] != "a\x00b" || r.Note.Scope[1] != "" ||
		len(r.Note.Scope[2]) != 256 || r.Note.Key != "k\xff" || len(r.Note.Request) != 256 {
		t.Errorf("the note is %q", r.Note)
	}
	complete(t, s, g, "done")
	r, err = s.Record(t.Context(), c.Identity)
	if err != nil || r.State != once.Completed || string(r.Outcome.Data) != "done" || r.Size != 4 {
		t.Errorf("completed: %+v, %v", r, err)
	}
	if kept := r.ExpiresAt.Sub(r.FinishedAt); kept < time.Hour || kept > time.Hour+time.Hour/16 {
		t.Errorf("it is kept for %v, want an hour and at most a 16th more", kept)
	}
	_, err = s.Record(t.Context(), claimOf("none").Identity)
	want(t, "no record", err, once.ErrNotFound)
}

// A replay that came a quarter of the retention later is one that extends it by as much.
func TestArrivalsExtendTheRetentionAndItsKey(t *testing.T) {
	t.Parallel()
	s, server := single(t, onceredis.Config{})
	c := claimOf("extended")
	complete(t, s, claim(t, s, c), "done")
	server.Do("PEXPIRE", s.Key(c.Identity), "60000") // as it would be after a while
	s.Advance(45 * time.Minute)
	replay(t, s, claimOf("extended"))
	if ttl := server.Do("PTTL", s.Key(c.Identity)); len(ttl) != len("3825000") {
		t.Errorf("the key has %s ms left, want an hour and a 16th", ttl)
	}
	s.Advance(59 * time.Minute)
	replay(t, s, claimOf("extended"))
	s.Advance(65 * time.Minute) // more than the hour and its 16th
	g := claim(t, s, claimOf("extended"))
	if g.Attempt != 1 || g.Takeover {
		t.Errorf("after the retention: %+v, want a first attempt", g)
	}
}

func TestK03_OfAHundredClaimsOneIsGranted(t *testing.T) {
	t.Parallel()
	s, _ := single(t, onceredis.Config{})
	granted := make(chan once.Grant, 100)
	other := make(chan error, 100)
	for range 100 {
		go func() {
			g, err := s.Claim(t.Context(), claimOf("raced"))
			if err != nil {
				other <- err
				return
			}
			granted <- g
		}()
	}
	for range 99 {
		want(t, "a loser", <-other, once.ErrInFlight)
	}
	<-granted
}

// K04: the winner stalls, its lease is over by the store's time, another one takes the record; what
// the first one does later changes nothing.
func TestK04_AClaimIsNeverOverwritten(t *testing.T) {
	t.Parallel()
	s, _ := single(t, onceredis.Config{})
	first := claim(t, s, claimOf("stalled"))
	_, err := s.Claim(t.Context(), claimOf("stalled"))
	want(t, "while the lease runs", err, once.ErrInFlight)
	s.Advance(time.Minute)
	second := claim(t, s, claimOf("stalled"))
	if !second.Takeover || second.Attempt != 2 || second.Fence <= first.Fence {
		t.Errorf("taken over: %+v after %+v", second, first)
	}
	late := once.Outcome{Data: []byte("late")}
	want(t, "a late outcome", s.Complete(t.Context(), first, late), once.ErrLeaseLost)
	want(t, "a late release", s.Release(t.Context(), first), once.ErrLeaseLost)
	want(t, "a late renewal", s.Renew(t.Context(), first, time.Minute), once.ErrLeaseLost)
	complete(t, s, second, "second")
	if got := replay(t, s, claimOf("stalled")); string(got.Data) != "second" {
		t.Errorf("replayed %q, want that of the second owner", got.Data)
	}
}

func TestARecordThatCannotBeReadIsNeverRunAgain(t *testing.T) {
	t.Parallel()
	s, server := single(t, onceredis.Config{})
	key := s.Key(claimOf("bad").Identity)
	whole := func() string {
		server.Do("DEL", key)
		complete(t, s, claim(t, s, claimOf("bad")), "outcome")
		return server.Do("GET", key)
	}
	for name, damage := range map[string]func(v string){
		"another type":    func(string) { server.Do("DEL", key); server.Do("HSET", key, "a", "b") },
		"empty":           func(string) { server.Do("SET", key, "") },
		"cut in its data": func(v string) { server.Do("SET", key, v[:len(v)-1]) },
		"longer":          func(v string) { server.Do("SET", key, v+"x") },
		"cut":             func(v string) { server.Do("SET", key, v[:100]) },
		"another layout":  func(v string) { server.Do("SET", key, "2"+v[1:]) },
		"no such state":   func(v string) { server.Do("SET", key, "1x"+v[2:]) },
		"no such fence":   func(v string) { server.Do("SET", key, v[:5]+"\xff"+v[6:]) },
	} {
		damage(whole())
		_, err := s.Claim(t.Context(), claimOf("bad"))
		want(t, name+": claim", err, once.ErrCorrupt)
		if errors.Is(err, once.ErrUnavailable) {
			t.Errorf("%s: %v, which would be tried again", name, err)
		}
		_, err = s.Record(t.Context(), claimOf("bad").Identity)
		want(t, name+": record", err, once.ErrCorrupt)
		if page, err := s.Records(t.Context(), once.RecordFilter{}); err != nil {
			t.Errorf("%s: records: %d, %v", name, len(page.Records), err)
		}
	}
}
