package config

import (
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// DatabaseConfig is a database of the user's, in which callbacks change documents. It is not the
// store, which keeps the callbacks themselves.
type DatabaseConfig struct {
	Name string
	Kind DatabaseKind
	// URL for a driver; it may hold a login and is never shown. Empty with SQLite.
	URL string
	// Path of the SQLite file, made absolute.
	Path string
	// Database in MongoDB.
	Database string
	// Retention is how long the database remembers which callbacks were written.
	Retention time.Duration

	at Problem
}

// Wrong is a problem of a URL that was accepted at first.
func (d *DatabaseConfig) Wrong(msg string) Problem {
	p := d.at
	p.Msg = msg
	return p
}

// DatabaseKind is the technology of a database.
type DatabaseKind string

// The kinds.
const (
	PostgreSQL DatabaseKind = "postgresql"
	SQLite     DatabaseKind = "sqlite"
	MongoDB    DatabaseKind = "mongodb"
)

// title is the technology as it is called.
func (k DatabaseKind) title() string {
	return map[DatabaseKind]string{
		PostgreSQL: "PostgreSQL", SQLite: "SQLite", MongoDB: "MongoDB",
	}[k]
}

// defaultKey is the member or column by which documents are found where the file says `id`.
func (k DatabaseKind) defaultKey() string {
	if k == MongoDB {
		return "_id"
	}
	return "id"
}

// defaultEventRetention is that of what was written: longer than any sender sends again, and than
// a dead letter is likely to wait for a person.
const defaultEventRetention = 30 * 24 * time.Hour

const wantDatabase = "postgres://HOST/DATABASE, sqlite:FILE or mongodb://HOST/DATABASE"

// databases reads where documents are written.
func (r *reader) databases(o *object) {
	n := o.get("databases")
	shown := &out{byKey: map[string]*out{}}
	r.each(n, "databases", func(key, value *node) {
		d := r.object(value, "the database "+quote(key.text))
		if d.n != nil {
			r.database(key, d)
		}
		shown.put(key.text, d.out)
	})
	if n != nil {
		o.out.put("databases", shown)
	}
}

func (r *reader) database(key *node, o *object) {
	d := DatabaseConfig{Name: key.text}
	switch n := o.textNode("url", wantDatabase); {
	case n != nil:
		d.at = r.problems.at(n.at, "")
		o.out.put("url", databaseOut(n))
		r.databaseURL(n, &d)
	case !o.has("url"):
		r.add(o.at(), "`url` is missing; expected %s", wantDatabase)
	}
	d.Retention = o.duration("retention", 0)
	o.close("the database " + quote(key.text))
	r.c.Databases = append(r.c.Databases, d)
	r.databaseAt[key.text] = o
}

// databaseURL reads what kind of database a URL names. Its form beyond that is its driver's, which
// knows lists of hosts and options.
func (r *reader) databaseURL(n *node, d *DatabaseConfig) {
	scheme, rest, _ := strings.Cut(n.text, ":")
	switch {
	case n.text == masked:
		r.add(n.at, "url is %s, which stands for a secret that was hidden; expected %s", masked,
			wantDatabase)
		return
	case scheme == "sqlite":
		r.databaseFile(n, rest, d)
		return
	case (scheme == "postgres" || scheme == "postgresql") && strings.HasPrefix(rest, "//"):
		d.Kind, d.URL = PostgreSQL, n.text
		return
	case (scheme == "mongodb" || scheme == "mongodb+srv") && strings.HasPrefix(rest, "//"):
		d.Kind, d.URL = MongoDB, n.text
	default:
		r.add(n.at, "url is no address of a database that can be written to; expected %s",
			wantDatabase)
		return
	}
	if d.Database = MongoDatabase(n.text); d.Database == "" {
		r.add(n.at, "url names no database; expected one after the host, such as"+
			" mongodb://HOST/DATABASE")
	}
}

// databaseFile reads the path of a file of SQLite. The store's own file has one writer, which is
// the store.
func (r *reader) databaseFile(n *node, path string, d *DatabaseConfig) {
	d.Kind = SQLite
	if path == "" || strings.ContainsAny(path, "?#\x00") || strings.HasPrefix(path, "//") ||
		path == ":memory:" {
		r.add(n.at, "url names no file; expected sqlite:FILE")
		return
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.dir, path)
	}
	d.Path = filepath.Clean(path)
	if d.Path == r.c.Store.Path {
		r.add(n.at, "url names the file of the `store`, which nobody else can write; expected a"+
			" file of its own")
	}
}

var (
	// ownPassword matches a URL with a password, before the host or among the options.
	ownPassword = regexp.MustCompile(`(?i)//[^@]*:[^@]+@|[?&][^=&]*(?:password|token)[^=&]*=[^&]+`)
	// filledIn matches what is not in the file itself.
	filledIn = regexp.MustCompile(`\$\{(?:env|file):[^}]*\}`)
)

// holdsPassword reports whether a URL, as it stands in the file, holds a password.
func holdsPassword(raw string) bool {
	return ownPassword.MatchString(filledIn.ReplaceAllString(raw, ""))
}

// databaseOut shows a URL as it stands in the file; one that holds a password there not at all.
func databaseOut(n *node) *out {
	if holdsPassword(n.raw) {
		return textOut(masked)
	}
	return nodeOut(n)
}

// keepLongEnough gives each database its retention: an event that is forgotten sooner than its
// callback could be written twice.
func (r *reader) keepLongEnough() {
	longest := map[string]time.Duration{}
	for _, s := range r.c.Sources {
		if name := r.writesTo[s.Name]; name != "" {
			longest[name] = max(longest[name], s.Retention)
		}
	}
	for i := range r.c.Databases {
		d := &r.c.Databases[i]
		o, least := r.databaseAt[d.Name], longest[d.Name]
		switch {
		case d.Retention == 0:
			d.Retention = max(least, defaultEventRetention)
			o.out.put("retention", lineOut(formatDuration(d.Retention)))
		case d.Retention < least:
			r.add(o.get("retention").pos(), "retention is below the %s of a source that writes"+
				" here; expected at least as long, or a callback could be written twice",
				formatDuration(least))
		}
		if least == 0 {
			r.warn(o.at(), "no source writes to the database %s, so it is not opened",
				quote(d.Name))
		}
	}
}
