package torture_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/testserver/mongotest"
)

// mongoFile is a flow of three events, with a resource and an effect.
const mongoFile = `
listen: 127.0.0.1:0
admin: {listen: "127.0.0.1:0"}
store: "%s"
sources:
  rcs:
    key: ["body.id"]
    event: "body.event"
    reply: {accepted: {status: 200}}
    to: {flow: transport}
flows:
  transport:
    task: "body.task"
    initial: created
    final: [finished]
    starts: [start]
    events:
      start:
        from: [created]
        to: running
        acquire: ["road/${body.road}"]
      unload:
        from: [running]
        to: unloaded
        effects: [{name: told, to: wms, payload: {id: "${effect.id}", task: "${task.id}"}}]
      finish: {from: [unloaded], to: finished, release: all}
destinations:
  wms: {http: {url: "%s"}, retry: {base: 10ms, cap: 200ms}}
`

const (
	// mongoReadyLimit is how long a start may take: it waits until it is sure that the process
	// before has ended.
	mongoReadyLimit = 2 * time.Minute
	// senderPause is that of a sender whose server is down.
	senderPause = 10 * time.Millisecond
)

// plantOverMongo is a server over MongoDB that is killed and started again.
type plantOverMongo struct {
	*testing.T
	bin, dir string
	addr     atomic.Pointer[string]
	server   *process
}

func (p *plantOverMongo) start() {
	p.Helper()
	s, err := startProcess(p.bin, filepath.Join(p.dir, "serve.log"), nil, "serve", "--config",
		filepath.Join(p.dir, "once.yaml"))
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(s.kill)
	_, line, err := s.await(mongoReadyLimit, "ready")
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(p.dir, "serve.log")) // for the message alone
		p.Fatalf("start server: %v\n%s", err, tail(string(log)))
	}
	addr, _, _ := strings.Cut(line, " ")
	p.addr.Store(&addr)
	p.server = s
}

// deliver posts a callback until it is answered.
func (p *plantOverMongo) deliver(client *http.Client, body string) {
	for limit := time.Now().Add(endLimit); time.Now().Before(limit); {
		r, err := client.Post("http://"+*p.addr.Load()+"/in/rcs", "application/json",
			strings.NewReader(body))
		if err != nil { // it is down: its next life listens elsewhere
			<-time.After(senderPause)
			continue
		}
		_ = r.Body.Close()
		if r.StatusCode == http.StatusOK {
			return
		}
	}
	p.Errorf("no answer to %s", body)
}

// The process is killed again and again while robots report over MongoDB. Every task that was
// acknowledged comes to its end once, each with one effect, however often that was sent: they share
// two roads, so a road that was lost or freed twice would show as a task that never ends.
func TestOverMongoDBAKilledProcessLosesNothingAndDoublesNothing(t *testing.T) {
	const robots, tasksEach, roads, kills = 4, 2, 2, 2
	m := mongotest.Ferret(t)
	wms := testserver.NewHTTPSink(t)
	p := &plantOverMongo{T: t, dir: t.TempDir()}
	p.bin = buildChild(t, p.dir)
	db := m.Database(t)
	store := strings.Replace(m.URI, "/?", "/"+db.Name()+"?", 1)
	file := fmt.Sprintf(mongoFile, store, wms.URL())
	if err := os.WriteFile(filepath.Join(p.dir, "once.yaml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	p.start()
	client := &http.Client{Timeout: answerLimit}
	var delivered atomic.Int64
	var wg sync.WaitGroup
	for n := range robots {
		wg.Go(func() {
			for i := range tasksEach {
				task := fmt.Sprintf("T%d-%d", n, i)
				for _, event := range []string{"start", "unload", "finish"} {
					p.deliver(client, fmt.Sprintf(`{"id":"%s %s","task":%q,"event":%q,"road":"%d"}`,
						task, event, task, event, n%roads))
					delivered.Add(1)
				}
			}
		})
	}
	all := int64(robots * tasksEach * 3)
	for k := range int64(kills) { // at a third, and at two thirds
		testserver.Until(t, endLimit, "callbacks are answered", func() bool {
			return delivered.Load() >= all*(k+1)/(kills+1)
		})
		p.server.kill()
		p.start()
	}
	wg.Wait()
	told := func() map[string]int {
		ids := map[string]int{}
		for _, r := range wms.Requests() {
			ids[r.Header.Get("Idempotency-Key")]++
		}
		return ids
	}
	testserver.Until(t, endLimit, "every task told the warehouse", func() bool {
		return len(told()) >= robots*tasksEach
	})
	found := mongotest.Connect(t, m.URI).Database(db.Name()).Collection("once_tasks")
	testserver.Until(t, endLimit, "every task is finished", func() bool {
		n, err := found.CountDocuments(t.Context(), bson.D{{Key: "state", Value: "finished"}})
		return err == nil && n == robots*tasksEach
	})
	if n := len(told()); n != robots*tasksEach {
		t.Errorf("%d effects for %d tasks", n, robots*tasksEach)
	}
}
