package oncetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oncekit/once"
)

func browseCases() []Case {
	return []Case{
		{Name: "Browse/Record", Promise: "a record is shown with its outcome",
			needs: browses, run: browseRecord},
		{Name: "Browse/NotFound", Promise: "what isn't there isn't found",
			needs: browses, run: browseNotFound},
		{Name: "Browse/Pages", Promise: "pages of any size show each record once, without the " +
			"data of outcomes", needs: browses, run: browsePages},
		{Name: "Browse/ByState", Promise: "a filter by state shows the records in it",
			needs: browses, run: browseStates},
		{Name: "Browse/ByScope", Promise: "a filter by scope shows the records whose scope has " +
			"all its parts, and no others", needs: browses, run: browseScopes},
		{Name: "Browse/WhileRecordsCome", Promise: "records that were there before the first " +
			"page are shown once, whatever comes meanwhile", needs: browses, run: browseInserts},
		{Name: "Browse/BadCursor", Promise: "what is no cursor is refused or shows nothing, and " +
			"panics never", needs: browses, run: browseBadCursor},
	}
}

// all reads the records of a filter in pages.
func (k *kit) all(f once.RecordFilter) (all []once.Record) {
	k.Helper()
	for range 10_000 {
		page, err := k.s.(once.Browser).Records(k.ctx, f)
		if err != nil {
			k.Fatalf("records %+v: %v", f, err)
		}
		if limit := f.Limit; limit > 0 && len(page.Records) > limit {
			k.Fatalf("a page of %d records, at most %d were asked for", len(page.Records), limit)
		}
		all = append(all, page.Records...)
		if page.Next == "" {
			return all
		}
		f.After = page.Next
	}
	k.Fatal("the pages don't end")
	return nil
}

func (k *kit) wantRecords(what string, got []once.Record, names ...string) {
	k.Helper()
	count := map[once.Identity]int{}
	for _, r := range got {
		count[r.Identity]++
	}
	for _, name := range names {
		if n := count[identity(name)]; n != 1 {
			k.Errorf("%s: %q is shown %d times", what, name, n)
		}
	}
	if len(got) != len(names) {
		k.Errorf("%s: %d records, want %d", what, len(got), len(names))
	}
}

func browseRecord(k *kit) {
	c := claim("a")
	g := k.take(c)
	r := k.record(c.Identity)
	if r.State != once.InFlight || r.Fence != g.Fence || r.Attempt != 1 ||
		r.Fingerprint != c.Fingerprint || r.Identity != c.Identity || r.ClaimedAt.IsZero() ||
		!r.FinishedAt.IsZero() || r.LastAt.IsZero() || !r.ExpiresAt.IsZero() ||
		r.OnUnknown != once.Retry {
		k.Errorf("in flight: %+v", r)
	}
	if rest := r.LeaseEnd.Sub(r.ClaimedAt); rest < longLease || rest > longLease+slack {
		k.Errorf("a lease of %s, want %s", rest, longLease)
	}
	k.complete(g, kept("twelve bytes"))
	r = k.record(c.Identity)
	if r.State != once.Completed || string(r.Outcome.Data) != "twelve bytes" || r.Size != 12 ||
		r.Outcome.Kind != once.Kept || r.FinishedAt.IsZero() || r.ExpiresAt.IsZero() {
		k.Errorf("completed: %+v", r)
	}
	k.complete(k.take(holding(claim("b"))), once.Outcome{Kind: once.Tombstone})
	r = k.record(identity("b"))
	if r.Outcome.Kind != once.Tombstone || r.Size != 0 || r.OnUnknown != once.Hold {
		k.Errorf("tombstone: %+v", r)
	}
}

func browseNotFound(k *kit) {
	k.done(claim("a"), "done")
	_, err := k.s.(once.Browser).Record(k.ctx, identity("b"))
	k.wantErr("record", err, once.ErrNotFound)
}

// fill makes completed records, and returns their names.
func (k *kit) fill(prefix string, n int) (names []string) {
	k.Helper()
	for i := range n {
		names = append(names, fmt.Sprint(prefix, i))
		k.done(claim(names[i]), names[i])
	}
	return names
}

func browsePages(k *kit) {
	if all := k.all(once.RecordFilter{}); len(all) != 0 {
		k.Fatalf("an empty store shows %d records", len(all))
	}
	names := k.fill("r", 25)
	for _, limit := range []int{0, 1, 7, 24, 25, 26, once.MaxRecordPage, once.MaxRecordPage + 1} {
		got := k.all(once.RecordFilter{Limit: limit})
		k.wantRecords(fmt.Sprint("limit ", limit), got, names...)
		for _, r := range got {
			if r.Outcome.Data != nil || r.Size < 2 || r.State != once.Completed || r.Fence == 0 {
				k.Fatalf("in a page: %+v", r)
			}
		}
	}
}

func browseStates(k *kit) {
	k.take(claim("in flight"))
	k.done(claim("completed"), "done")
	k.complete(k.take(claim("tombstone")), once.Outcome{Kind: once.Tombstone})
	k.release(k.take(claim("released")))
	k.lose(k.take(claim("lost")))
	k.lose(k.take(holding(claim("held"))))
	k.take(k.lapsing("lapsed"))
	k.take(holding(k.lapsing("lapsed and held")))
	k.lapse()
	for state, names := range map[once.RecordState][]string{
		once.InFlight: {"in flight"}, once.Completed: {"completed", "tombstone"},
		once.Released: {"released"}, once.Lost: {"lost", "lapsed"},
		once.Held: {"held", "lapsed and held"},
	} {
		for _, limit := range []int{1, 100} {
			got := k.all(once.RecordFilter{State: state, Limit: limit})
			k.wantRecords(string(state), got, names...)
			for _, r := range got {
				if r.State != state {
					k.Errorf("asked for %s, got %s", state, r.State)
				}
			}
		}
	}
}

func browseScopes(k *kit) {
	scopes := map[string][]string{
		"none": nil, "a": {"a"}, "b": {"b"}, "a b": {"a", "b"}, "ab": {"ab"}, "b a": {"b", "a"},
		"A": {"A"}, "a,b": {"a,b"}, "quoted": {`a","b`}, "no text": {"\xff\x80"},
		"long": {"a", strings.Repeat("0123456789", 100)},
	}
	for name, scope := range scopes {
		c := claim(name)
		c.Note.Scope = slices.Clone(scope)
		k.done(c, "done")
	}
	for name, scope := range scopes {
		if scope != nil {
			got := k.all(once.RecordFilter{Scope: scope})
			k.wantRecords(fmt.Sprintf("scope %q", scope), got, name)
		}
	}
	k.wantRecords("scope and state",
		k.all(once.RecordFilter{Scope: []string{"a"}, State: once.Released}))
	k.wantRecords("no such scope", k.all(once.RecordFilter{Scope: []string{"c"}}))
}

func browseInserts(k *kit) {
	names := k.fill("before", 20)
	f := once.RecordFilter{Limit: 3}
	count := map[once.Identity]int{}
	for i := 0; ; i++ {
		page, err := k.s.(once.Browser).Records(k.ctx, f)
		if err != nil || i > 1000 {
			k.Fatalf("page %d: %v", i, err)
		}
		for _, r := range page.Records {
			count[r.Identity]++
		}
		if page.Next == "" {
			break
		}
		f.After = page.Next
		if i < 20 {
			k.fill(fmt.Sprint("meanwhile", i, "/"), 2)
		}
	}
	for _, name := range names {
		if n := count[identity(name)]; n == 0 || n > 1 && !k.h.Twice {
			k.Errorf("%s is shown %d times", name, n)
		}
	}
	for id, n := range count {
		if n != 1 && !k.h.Twice {
			k.Errorf("%s is shown %d times", id.ID(), n)
		}
	}
}

func browseBadCursor(k *kit) {
	k.fill("r", 3)
	for _, after := range []string{"x", "zz", "-1", "\x00", "' OR 1=1", "99999999999999999999"} {
		page, err := k.s.(once.Browser).Records(k.ctx, once.RecordFilter{After: after})
		if err == nil && len(page.Records) > 3 {
			k.Errorf("after %q: %d records", after, len(page.Records))
		}
	}
}
