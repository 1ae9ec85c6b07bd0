package demo

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// clocked builds the program once more, with a clock that can be put forward and back.
var clocked = sync.OnceValues(func() (string, error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return program()
	}
	tool := os.Getenv("GO")
	if tool == "" {
		tool = "go"
	}
	dir, err := folder()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "clocked")
	cmd := exec.Command(tool, "build", "-race=false", "-ldflags=-checklinkname=0", "-o", path,
		"./testdata/clocked")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return string(out), err
	}
	return path, nil
})

func buildClocked(t *testing.T) string {
	t.Helper()
	path, err := clocked()
	if err != nil {
		t.Fatalf("build once with another clock: %v\n%s", err, path)
	}
	return path
}

// checkClocks makes sure that the nodes' clocks are as far off as they should be.
func (f *fleet) checkClocks() {
	f.t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		f.t.Logf("on %s/%s all nodes have the same clock", runtime.GOOS, runtime.GOARCH)
		return
	}
	for _, n := range f.nodes {
		res, err := n.client.client.Get(n.client.url + "/readyz")
		if err != nil {
			f.t.Fatal(err)
		}
		_ = res.Body.Close()
		at, err := http.ParseTime(res.Header.Get("Date"))
		if err != nil {
			f.t.Fatal(err)
		}
		ahead := time.Until(at) - time.Duration(clocks[n.n])*time.Second
		if ahead.Abs() > time.Minute {
			f.t.Fatalf("the clock of node %d is %v further than it should be", n.n, ahead)
		}
	}
}

// plantEffects are the ids of what the store says the plant has done, in order.
func (f *fleet) plantEffects() (ids []string) {
	for _, e := range f.evidence.Store.Effects {
		if e.Destination == plant && e.State == "done" {
			ids = append(ids, e.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// storeQuestions each name what must not be in the store, and count it.
var storeQuestions = map[string]string{
	"counters that are not what is there": `
		WITH kept AS (
			SELECT what, source, state, sum(n)::bigint AS n FROM once.counters
			GROUP BY what, source, state HAVING sum(n) <> 0
		), counted AS (
			SELECT CASE kind WHEN 1 THEN 'callback' ELSE 'effect' END AS what, source,
				CASE WHEN phase IN ('ready', 'delayed', 'in line') THEN 'pending' ELSE phase END AS state,
				count(*) AS n FROM once.queue_rows GROUP BY 1, 2, 3
			UNION ALL
			SELECT 'task', flow, state, count(*) FROM once.tasks WHERE NOT gone GROUP BY 2, 3
		)
		SELECT count(*) FROM (
			(SELECT * FROM kept EXCEPT SELECT * FROM counted) UNION ALL
			(SELECT * FROM counted EXCEPT SELECT * FROM kept)) d`,
	"rows that somebody has in hand": `
		SELECT count(*) FROM once.queue_rows
		WHERE phase = 'working' OR lease_until IS NOT NULL OR node IS NOT NULL`,
	"effects that were tried before the one ahead in their line was done": `
		SELECT count(*) FROM (
			SELECT started_at, lag(finished_at) OVER (PARTITION BY lane, order_key ORDER BY seq) AS ahead
			FROM once.queue_rows WHERE kind = 2 AND order_key <> '') d
		WHERE started_at < ahead`,
	"times that no clock of the database has shown": `
		SELECT count(*) FROM (
			SELECT unnest(ARRAY[received_at, last_at, started_at, finished_at]) AS at FROM once.queue_rows
			UNION ALL SELECT at FROM once.task_history
			UNION ALL SELECT unnest(ARRAY[created_at, since_at, updated_at]) FROM once.tasks
			UNION ALL SELECT since_at FROM once.resources
			UNION ALL SELECT unnest(ARRAY[started_at, seen_at]) FROM once.queue_nodes) t
		WHERE at NOT BETWEEN (SELECT min(applied_at) FROM once.once_migrations) AND clock_timestamp()`,
}

// checkStore looks into the tables: what is kept has to agree with itself and with the senders.
func (f *fleet) checkStore() {
	f.t.Helper()
	for what, sql := range storeQuestions {
		var n int
		if !f.ask(&n, sql) {
			f.t.Fatalf("no answer from the store: %s", what)
		}
		if n != 0 {
			f.t.Errorf("%d %s", n, what)
		}
	}
	// The senders began a callback of a task when the one before was acknowledged.
	seqs, last := f.seqs(), map[string]int64{}
	for _, c := range f.evidence.Callbacks {
		seq, ok := seqs[keyOf(c.Request, c.Task, c.Event)]
		switch {
		case !ok:
			f.t.Errorf("%s of %s is not in the store", c.Name(), c.Task)
		case seq < last[c.Task]:
			f.t.Errorf("%s of %s was accepted before one that was acknowledged before it was sent",
				c.Name(), c.Task)
		default:
			last[c.Task] = seq
		}
	}
}

// keyOf is a key as one text.
func keyOf(parts ...string) string { return strings.Join(parts, " ") }

// seqs are the places of callbacks in the order of acceptance, by their keys.
func (f *fleet) seqs() map[string]int64 {
	f.t.Helper()
	conn, err := pgx.Connect(f.ctx, f.pg.URL(fleetDB))
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = conn.Close(f.ctx) }() // it was only asked
	rows, err := conn.Query(f.ctx, "SELECT key, seq FROM once.queue_rows WHERE kind = 1")
	if err != nil {
		f.t.Fatal(err)
	}
	out := map[string]int64{}
	for rows.Next() {
		var key []string
		var seq int64
		if err := rows.Scan(&key, &seq); err != nil {
			f.t.Fatal(err)
		}
		out[keyOf(key...)] = seq
	}
	if err := rows.Err(); err != nil {
		f.t.Fatal(err)
	}
	return out
}
