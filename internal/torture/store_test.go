package torture_test

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/json"
	"os"
	"strings"
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver" // reads what the server left
)

// row is a callback or an effect as the store has it.
type row struct {
	seq, kind             int64
	source, event, task   string
	key, state, deadCause string
	problem               string
	payload, resource     string // of an effect: the id and resource that it tells
	duplicates, conflicts int
}

// stateNames are the phases of schema.sql by number.
func stateNames() map[int64]string {
	return map[int64]string{-1: "done", 0: "pending", 1: "pending", 2: "pending", 3: "running",
		4: "parked", 5: "held", 6: "dead", 7: "stale", 8: "unrouted", 9: "expired",
		10: "discarded"}
}

// openStore opens the file without the server.
func openStore(t *testing.T, r *rig) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+r.path("once.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // it was only read
	return db
}

// query calls each for every row of a result; scan reads its columns.
func query(t *testing.T, db *sql.DB, text string, each func(scan func(...any))) {
	t.Helper()
	rows, err := db.Query(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer func() { _ = rows.Close() }() // Err says what went wrong
	for rows.Next() {
		each(func(into ...any) {
			if err := rows.Scan(into...); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		})
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func readRows(t *testing.T, db *sql.DB) []row {
	t.Helper()
	var all []row
	names := stateNames()
	query(t, db, `SELECT seq, kind, source, event, task, coalesce(key, ''), coalesce(phase, -1),
		coalesce(dead_cause, ''), coalesce(error, ''), duplicates, conflicts,
		iif(kind = 2, coalesce(cast(body AS TEXT) ->> '$.id', ''), ''),
		iif(kind = 2, coalesce(cast(body AS TEXT) ->> '$.resource', ''), '')
		FROM rows ORDER BY seq`, func(scan func(...any)) {
		var w row
		var phase int64
		scan(&w.seq, &w.kind, &w.source, &w.event, &w.task, &w.key, &phase, &w.deadCause,
			&w.problem, &w.duplicates, &w.conflicts, &w.payload, &w.resource)
		w.state = names[phase]
		all = append(all, w)
	})
	return all
}

// arrival is an effect, or a callback handed to the service, as the sink counted it.
type arrival struct {
	n                           int // its place in the order of arrival
	to, key                     string
	id, effect, task            string
	resource, order, fence, hdr string
}

// readArrivals reads the sink's file. A last line that is cut off was never acknowledged.
func readArrivals(t *testing.T, r *rig) []arrival {
	t.Helper()
	f, err := os.Open(r.path("effects.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	var all []arrival
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 2<<20)
	for lines.Scan() {
		var rec struct {
			To, Key, Fence string
			Body           map[string]any
		}
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.UseNumber()
		if err := d.Decode(&rec); err != nil {
			t.Fatalf("effect %d: %v", len(all), err)
		}
		text := func(name string) string {
			switch v := rec.Body[name].(type) {
			case string:
				return v
			case json.Number:
				return v.String()
			}
			return ""
		}
		all = append(all, arrival{n: len(all), to: rec.To, key: strings.Trim(rec.Key, `"`),
			id: text("id"), effect: text("effect"), task: text("task"),
			resource: text("resource"), order: text("order"), fence: text("fence"),
			hdr: rec.Fence})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
