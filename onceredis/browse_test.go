package onceredis_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/onceredis"
)

// pages lists all records page by page, and fails on one that comes twice.
func pages(
	t *testing.T, s *onceredis.Store, f once.RecordFilter, between func(page int),
) map[once.Identity]once.Record {
	t.Helper()
	all := map[once.Identity]once.Record{}
	const most = 2000 // pages
	for n := range most {
		page, err := s.Records(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		limit := f.Limit
		if limit == 0 {
			limit = 100
		}
		if len(page.Records) > limit {
			t.Fatalf("a page has %d records, at most %d", len(page.Records), limit)
		}
		for _, r := range page.Records {
			if _, twice := all[r.Identity]; twice {
				t.Errorf("record %s comes twice", r.Identity.ID())
			}
			all[r.Identity] = r
		}
		if page.Next == "" {
			return all
		}
		f.After = page.Next
		between(n)
	}
	t.Fatalf("no end in %d pages", most)
	return nil
}

func TestEveryRecordIsListedOnceAmongOthersKeys(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t, durable...)
	group := testserver.RedisCluster(t, durable...)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: group.Addrs(), ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = cluster.Close() })
	for name, c := range map[string]redis.UniversalClient{
		"one server": client(t, server.Addr()), "a cluster": cluster,
	} {
		s := open(t, c, onceredis.Config{Prefix: "o*[ce]:"})
		other := open(t, c, onceredis.Config{Prefix: "oXc:"}) // what an unquoted pattern would meet
		const records = 700
		for i := range records {
			cl := claimOf(fmt.Sprint(i))
			if i%10 == 0 {
				cl.Note.Scope = []string{strings.Repeat("long", 70), strings.Repeat("x", 256)}
				cl.Note.Request = strings.Repeat("r", 256)
			}
			complete(t, s, claim(t, s, cl), strings.Repeat("d", i))
			claim(t, other, cl)
			key := fmt.Sprintf("o*[ce]:{foreign%d}", i) // ours by its prefix, no record by its name
			if err := c.Set(t.Context(), key, "x", 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		for _, limit := range []int{0, 1000, 7, 1} {
			all := pages(t, s, once.RecordFilter{Limit: limit}, func(int) {})
			if len(all) != records {
				t.Errorf("%s, limit %d: %d records, want %d", name, limit, len(all), records)
			}
		}
		long := once.RecordFilter{
			Scope: []string{strings.Repeat("long", 70), strings.Repeat("x", 256)},
		}
		for _, r := range pages(t, s, long, func(int) {}) {
			if r.Note.Request != strings.Repeat("r", 256) || r.Outcome.Data != nil {
				t.Errorf("%s: the note is %q, the data %d bytes", name, r.Note, len(r.Outcome.Data))
			}
		}
		if n := len(pages(t, s, long, func(int) {})); n != records/10 {
			t.Errorf("%s: %d records of the scope, want %d", name, n, records/10)
		}
		none := once.RecordFilter{State: once.Held}
		if n := len(pages(t, s, none, func(int) {})); n != 0 {
			t.Errorf("%s: %d held records, want none", name, n)
		}
	}
}

// Records that exist all the while are listed, however many come and go between the pages.
func TestAListGoesOnWhileRecordsComeAndGo(t *testing.T) {
	t.Parallel()
	s, server := single(t, onceredis.Config{})
	const records = 300
	for i := range records {
		claim(t, s, claimOf(fmt.Sprint("stays", i)))
		claim(t, s, claimOf(fmt.Sprint("goes", i)))
	}
	all := pages(t, s, once.RecordFilter{Limit: 10}, func(page int) {
		if page < records/10 {
			for i := range 10 {
				claim(t, s, claimOf(fmt.Sprint("comes", page, "-", i)))
				server.Do("DEL", s.Key(claimOf(fmt.Sprint("goes", page*10+i)).Identity))
			}
		}
	})
	for i := range records {
		if _, found := all[claimOf(fmt.Sprint("stays", i)).Identity]; !found {
			t.Errorf("record %d is missing", i)
		}
	}
}

func TestAPageThatNoStoreGaveIsRefused(t *testing.T) {
	t.Parallel()
	s, _ := single(t, onceredis.Config{})
	for _, after := range []string{"x", "a|b|c", "a|b|1|c", "a|1|-1|c"} {
		if _, err := s.Records(t.Context(), once.RecordFilter{After: after}); err == nil {
			t.Errorf("after %q: no error", after)
		}
	}
}
