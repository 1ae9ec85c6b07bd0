package config

import (
	"net/url"
	"slices"
	"strings"
)

// redisSchemes are those of a single server, a Cluster and Sentinels.
var redisSchemes = []string{"redis", "rediss", "redis+cluster", "rediss+cluster",
	"redis+sentinel", "rediss+sentinel"}

// InMongoDB reports whether the records are kept in a MongoDB rather than in a Redis or the store.
func (g *Gateway) InMongoDB() bool { return isMongoDB(g.Records) }

func isMongoDB(text string) bool {
	return strings.HasPrefix(text, "mongodb://") || strings.HasPrefix(text, "mongodb+srv://")
}

// InPostgreSQL reports whether the records are kept in a PostgreSQL.
func (g *Gateway) InPostgreSQL() bool { return IsPostgreSQL(g.Records) }

// MongoDatabase is the name of the database in the URL of a MongoDB; empty: it names none. Such a
// URL may name several hosts, each with a port, which are no URL to others.
func MongoDatabase(text string) string {
	_, name := hostsOf(text)
	return name
}

// hostsOf are the hosts of a MongoDB or PostgreSQL, as they are written, and the name of its
// database.
func hostsOf(text string) (hosts, database string) {
	_, rest, _ := strings.Cut(text, "://")
	rest, _, _ = strings.Cut(rest, "?")
	rest = rest[strings.LastIndex(rest, "@")+1:]
	hosts, database, _ = strings.Cut(rest, "/")
	return hosts, database
}

// records reads where records are kept that are not in the store.
func (r *reader) records(g *object, c *Gateway) {
	c.MayForget = g.boolean("redis_may_forget", false)
	c.MayEvict = g.boolean("redis_may_evict", false)
	n := g.textNode("records", "redis://HOST:PORT, postgres://HOST/DATABASE or"+
		" mongodb://HOST/DATABASE")
	for field, set := range map[string]bool{"redis_may_forget": c.MayForget,
		"redis_may_evict": c.MayEvict} {
		switch {
		case !set:
		case n == nil:
			r.add(g.get(field).pos(), "%s has no meaning without `records`; expected records:"+
				" redis://HOST:PORT, or no such line", field)
		case isMongoDB(n.text), IsPostgreSQL(n.text):
			kind := MongoDB
			if IsPostgreSQL(n.text) {
				kind = PostgreSQL
			}
			r.add(g.get(field).pos(), "%s has no meaning for records in %s, which keeps what"+
				" it has acknowledged; expected no such line", field, kind.title())
		}
	}
	if n == nil {
		return
	}
	c.Records = n.text
	c.at["records"] = r.problems.at(n.at, "")
	if isMongoDB(n.text) || IsPostgreSQL(n.text) {
		r.databaseRecords(g, n)
		return
	}
	if msg := checkURL(n.text, append(slices.Clone(redisSchemes), "postgres", "mongodb",
		"mongodb+srv")...); msg != "" {
		r.add(n.at, "records %s", msg)
	}
	g.out.put("records", r.urlOut(n))
	if u, err := url.Parse(n.text); err == nil && u.User != nil && !n.filled {
		g.out.put("records", textOut(masked))
	}
}

// databaseRecords reads the URL of a MongoDB or PostgreSQL. Its form beyond hosts and database is
// the driver's.
func (r *reader) databaseRecords(g *object, n *node) {
	g.out.put("records", databaseOut(n))
	want := "mongodb://HOST/DATABASE"
	if IsPostgreSQL(n.text) {
		want = "postgres://HOST/DATABASE"
	}
	switch hosts, database := hostsOf(n.text); {
	case hosts == "":
		r.add(n.at, "records names no host; expected %s", want)
	case database == "":
		r.add(n.at, "records names no database; expected one after the host, such as %s", want)
	}
}

// recordsPlace is what of a URL says where the records are: neither who logs in, nor whether that
// is encrypted, nor how long a call may take.
func recordsPlace(text string) string {
	if !isMongoDB(text) && !IsPostgreSQL(text) {
		return redisPlace(text)
	}
	scheme, _, _ := strings.Cut(text, "://")
	hosts, database := hostsOf(text)
	list := strings.Split(hosts, ",")
	slices.Sort(list)
	place := "://" + strings.Join(list, ",") + "/" + database
	if isMongoDB(text) {
		return scheme + place
	}
	if _, schema := SplitSchema(text); schema != "" {
		place += " schema=" + schema
	}
	return "postgres" + place
}
