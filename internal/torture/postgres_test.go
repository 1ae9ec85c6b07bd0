package torture_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekit/once/internal/testserver"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

// pgNode is one of several servers over one PostgreSQL.
type pgNode struct {
	*testing.T
	bin, dir, name string
	addr           atomic.Pointer[string]
	server         *process
}

func (n *pgNode) start() {
	n.Helper()
	log := filepath.Join(n.dir, n.name+".log")
	s, err := startProcess(n.bin, log, nil, "serve", "--config", filepath.Join(n.dir, "once.yaml"))
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(s.kill)
	_, line, err := s.await(endLimit, "ready")
	if err != nil {
		text, _ := os.ReadFile(log) // for the message alone
		n.Fatalf("start server: %v\n%s", err, tail(string(text)))
	}
	addr, _, _ := strings.Cut(line, " ")
	n.addr.Store(&addr)
	n.server = s
}

func (n *pgNode) signal(s syscall.Signal) {
	n.Helper()
	if err := n.server.cmd.Process.Signal(s); err != nil {
		n.Fatalf("signal the server: %v", err)
	}
}

// deliverTo posts a callback to one node after the other until one answers.
func deliverTo(t *testing.T, nodes []*pgNode, client *http.Client, body string) {
	for i, limit := 0, time.Now().Add(endLimit); time.Now().Before(limit); i++ {
		r, err := client.Post("http://"+*nodes[i%len(nodes)].addr.Load()+"/in/rcs",
			"application/json", strings.NewReader(body))
		if err != nil { // it is down, or stands still
			<-time.After(senderPause)
			continue
		}
		_ = r.Body.Close()
		if r.StatusCode == http.StatusOK {
			return
		}
	}
	t.Errorf("no answer to %s", body)
}

// pgPlant are two nodes on one database, with who asks them and who is told.
type pgPlant struct {
	*testing.T
	nodes     []*pgNode
	wms       *testserver.HTTPSink
	db        *pgx.Conn
	delivered atomic.Int64
}

func newPgPlant(t *testing.T) *pgPlant {
	t.Helper()
	db := testserver.Postgres(t)
	conn, err := pgx.Connect(t.Context(), db.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // it was only read
	p := &pgPlant{T: t, wms: testserver.NewHTTPSink(t), db: conn}
	dir := t.TempDir()
	bin := buildChild(t, dir)
	file := fmt.Sprintf(mongoFile, db.URL(), p.wms.URL())
	if err := os.WriteFile(filepath.Join(dir, "once.yaml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		n := &pgNode{T: t, bin: bin, dir: dir, name: name}
		n.start()
		p.nodes = append(p.nodes, n)
	}
	return p
}

// count asks the database.
func (p *pgPlant) count(sql string) (n int) {
	p.Helper()
	if err := p.db.QueryRow(context.Background(), sql).Scan(&n); err != nil {
		p.Fatalf("%s: %v", sql, err)
	}
	return n
}

// robot sends the events of tasks, each when the one before was answered, and every other one
// twice.
func (p *pgPlant) robot(n, tasks, roads int) {
	// Short of the time-out of a server that stands still: it is asked once for each message.
	client := &http.Client{Timeout: 2 * time.Second}
	for i := range tasks {
		task := fmt.Sprintf("T%d-%d", n, i)
		for _, event := range []string{"start", "unload", "finish"} {
			body := fmt.Sprintf(`{"id":"%s %s","task":%q,"event":%q,"road":"%d"}`, task, event, task,
				event, n%roads)
			for range 1 + i%2 {
				deliverTo(p.T, p.nodes, client, body)
			}
			p.delivered.Add(1)
		}
	}
}

// D06, D08: of two nodes under load one is killed and started again, then the other one stands
// still until its leases are lost and the first one has ended everything, and goes on. Every task
// that was acknowledged comes to its end once, in the order of its events, with one effect.
func TestD06D08OverPostgreSQLKilledAndFrozenNodesLoseNothingAndDoubleNothing(t *testing.T) {
	const robots, tasksEach, roads = 4, 6, 2
	const tasks, messages = robots * tasksEach, robots * tasksEach * 3
	p := newPgPlant(t)
	var wg sync.WaitGroup
	for n := range robots {
		wg.Go(func() { p.robot(n, tasksEach, roads) })
	}
	reached := func(part int64) {
		testserver.Until(t, endLimit, "callbacks are answered", func() bool {
			return p.delivered.Load() >= messages*part/3
		})
	}
	reached(1)
	p.nodes[0].server.kill()
	p.nodes[0].start()
	reached(2)
	p.nodes[1].signal(syscall.SIGSTOP)
	wg.Wait()
	finished := func() bool {
		return p.count("SELECT count(*) FROM once.tasks WHERE state = 'finished'") == tasks &&
			p.count("SELECT count(*) FROM once.queue_rows WHERE phase <> 'done'") == 0
	}
	testserver.Until(t, endLimit, "the other node has ended everything", finished)
	p.nodes[1].signal(syscall.SIGCONT)
	client := &http.Client{Timeout: answerLimit}
	deliverTo(t, p.nodes[1:], client, `{"id":"T-new start","task":"new","event":"start","road":"9"}`)
	testserver.Until(t, endLimit, "the frozen node works again", func() bool {
		return p.count("SELECT count(*) FROM once.tasks WHERE task = 'new'") == 1
	})
	for what, want := range map[string]int{
		"SELECT count(*) FROM once.queue_rows WHERE kind = 1":              messages + 1,
		"SELECT count(*) FROM once.queue_rows WHERE kind = 2":              tasks,
		"SELECT count(*) FROM once.queue_rows WHERE phase <> 'done'":       0,
		"SELECT count(*) FROM once.task_history":                           messages + 1,
		"SELECT count(*) FROM once.tasks WHERE state = 'finished'":         tasks,
		"SELECT count(*) FROM once.resources WHERE task NOT IN ('','new')": 0,
		`SELECT count(*) FROM once.task_history WHERE (event, version)
			NOT IN (('start', 1), ('unload', 2), ('finish', 3))`: 0,
	} {
		if got := p.count(what); got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	ids := map[string]int{}
	for _, r := range p.wms.Requests() {
		ids[r.Header.Get("Idempotency-Key")]++
	}
	if len(ids) != tasks {
		t.Errorf("%d effects for %d tasks", len(ids), tasks)
	}
}
