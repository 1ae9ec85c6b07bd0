package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/testserver"
)

// operate runs an operator's command against a server.
func (p *process) operate(args ...string) (status int, out, errs string) {
	return run(append(args, "--server", p.admin)...)
}

// told runs a command that has to be done, and returns what it wrote.
func (p *process) told(args ...string) string {
	p.t.Helper()
	status, out, errs := p.operate(args...)
	if status != 0 || errs != "" {
		p.t.Fatalf("once %s: status %d\n%s%s", strings.Join(args, " "), status, out, errs)
	}
	return out
}

// plant serves the robots' example and leaves behind what stuck does, and a dead effect.
func plant(t *testing.T) *process {
	t.Helper()
	p, _ := plantIn(t, t.TempDir())
	p.deadEffect()
	return p
}

// plain takes out of a text what differs from run to run: ids, times, ports, and how many blanks
// stand between columns.
func plain(s string) string {
	for _, r := range [][2]string{
		{`\b[0-9a-v]{26}\b`, "ID"}, {`\d{4}-\d\d-\d\dT[0-9:]+(Z|[+-][0-9:]+)`, "TIME"},
		{`127\.0\.0\.1:\d+`, "ADDR"}, {` +`, " "}, {`\d+(\.\d+)?(ms|µs)`, "0s"},
	} {
		s = regexp.MustCompile(r[0]).ReplaceAllString(s, r[1])
	}
	return s
}

func wantText(t *testing.T, got, want string) {
	t.Helper()
	if got = plain(got); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestListsShowWhatTheAPIHas(t *testing.T) {
	t.Parallel()
	p := plant(t)
	wantText(t, p.told("callbacks", "list", "--task", "TASK-1"),
		"RECEIVED ID SOURCE EVENT TASK KEY STATE TRIES DUPL CONFL ERROR\n"+
			"TIME ID rcs finishFE TASK-1 REQ-2 · TASK-1 · finishFE done 1\n"+
			"TIME ID rcs startFE TASK-1 REQ-1 · TASK-1 · startFE done 1 1\n")
	wantText(t, p.told("callbacks", "list", "--state", "parked", "--key", "early"),
		"RECEIVED ID SOURCE EVENT TASK KEY STATE TRIES DUPL CONFL ERROR\n"+
			"TIME ID rcs finish TASK-3 early · TASK-3 · finish parked 1 too early: the task is "+
			"not known yet; finish is legal in unloaded\n")
	wantText(t, p.told("effects", "list", "--destination", "wms"),
		"CREATED ID DESTINATION NAME TASK RESOURCE STATE TRIES ERROR\n"+
			"TIME ID wms tell-wms TASK-1 dead 1 destination answered 400 Bad Request\n")
	wantText(t, p.told("tasks", "list", "--state", "running"),
		"TASK STATE SINCE CREATED OVERDUE CHANGES\n"+
			"transport/TASK-2 running TIME TIME TIME 1\n"+
			"transport/TASK-4 running TIME TIME TIME 1\n")
	wantText(t, p.told("resources", "list"), "RESOURCE STATE OWNER SINCE FENCE WAITING\n"+
		"roadway/R7 free TIME 1\n"+"roadway/R9 owned transport/TASK-4 TIME 1\n")
	wantText(t, p.told("destinations", "list"), "NAME KIND STATE PAUSED SINCE REASON\n"+
		"plant log open\nwms http open\n")
	wantText(t, p.told("sources", "list"), "NAME TO STATE PAUSED SINCE REASON\n"+
		"rcs flow/transport open\n")
	nodes := plain(p.told("nodes", "list"))
	if !regexp.MustCompile(`^NAME STATE STARTED SEEN WORKS ON\n\S+-\d+ alive TIME TIME\n$`).
		MatchString(nodes) {
		t.Errorf("nodes: %q", nodes)
	}
	if status := p.post("rcs", `{"reqCode":"R","taskCode":"T"}`); status != 400 {
		t.Fatalf("status %d", status)
	}
	wantText(t, p.told("rejected", "list", "--source", "rcs"),
		"AT ID SOURCE OUTCOME FROM BYTES REASON\n"+
			"TIME 1 rcs invalid ADDR 30 body.callbackMethod: no such field\n")
	wantText(t, p.told("rejected", "show", "1", "--body"), `{"reqCode":"R","taskCode":"T"}`)
}

func TestJSONIsWhatTheAPIWroteOneObjectALine(t *testing.T) {
	t.Parallel()
	p := plant(t)
	var page struct{ Items []map[string]any }
	p.get("/api/v1/callbacks?limit=1000", &page)
	out := p.told("callbacks", "list", "-o", "json", "--all")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != len(page.Items) {
		t.Fatalf("%d lines for %d callbacks", len(lines), len(page.Items))
	}
	for i, line := range lines {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil ||
			fmt.Sprint(one) != fmt.Sprint(page.Items[i]) {
			t.Errorf("line %d: %v\n%s\nwant\n%v", i, err, line, page.Items[i])
		}
	}
	if n := strings.Count(p.told("callbacks", "list", "-o", "json", "-n", "2"), "\n"); n != 2 {
		t.Errorf("%d lines, want 2", n)
	}
	for _, path := range []string{"callbacks/" + p.one("key=early"), "tasks/transport/TASK-1"} {
		var want, got map[string]any
		p.get("/api/v1/"+path, &want)
		what, id, _ := strings.Cut(path, "/")
		text := p.told(what, "show", id, "--output", "json")
		if err := json.Unmarshal([]byte(text), &got); err != nil ||
			strings.Count(text, "\n") != 1 || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v\n%s\nwant\n%v", path, err, text, want)
		}
	}
}

func TestShowTellsWhyAndHowAConflictDiffers(t *testing.T) {
	t.Parallel()
	p := plant(t)
	id := p.one("key=REQ-1")
	wantText(t, p.told("callbacks", "show", id), `callback ID done

source rcs
event startFE
key REQ-1 · TASK-1 · startFE
task transport/TASK-1
received TIME
last arrival TIME
repeats 0 with the same content, 1 with other content
tries 1
last try TIME
finished TIME

request
 POST /in/rcs
 to ADDR from ADDR
 Accept-Encoding: gzip
 Content-Length: 90
 Content-Type: application/json
 User-Agent: Go-http-client/1.1

body, 90 bytes
 {
 "reqCode": "REQ-1",
 "taskCode": "TASK-1",
 "callbackMethod": "startFE",
 "data": {
 "roadway": "R7"
 }
 }

receipts
N AT OUTCOME FROM REVISION
0 TIME accepted ADDR
1 TIME conflict ADDR

receipt 1 against the first content
 body.data.roadway: "R7" → "R8"

attempts
N STARTED TOOK RESULT ERROR
1 TIME 0s done
`)
	out := p.told("callbacks", "accept", id, "--receipt", "1", "--reason", "R8 it is")
	wantText(t, out, "receipt 1 of callback ID is the revision ID\n")
	wantText(t, p.told("tasks", "show", "transport/TASK-1"), `task transport/TASK-1 unloaded

since TIME
created TIME
changed TIME
legal now cancel, finish

fields
 {
 "roadway": "R7"
 }

history
N AT EVENT FROM TO NOTE CALLBACK
1 TIME startFE running ID
2 TIME finishFE running unloaded ID
`)
	effect := p.told("effects", "show", p.deadEffect())
	for _, want := range []string{"dead: permanent\ndestination answered 400 Bad Request\n",
		"task          transport/TASK-1\n",
		`"state": "unloaded"`, "addressing\n  {"} {
		if !strings.Contains(effect, want) {
			t.Errorf("the effect lacks %q:\n%s", want, effect)
		}
	}
}

func TestStatusShowsWhereSomethingStands(t *testing.T) {
	t.Parallel()
	p := plant(t)
	wantText(t, p.told("status"), `once devel at http://ADDR ready

CALLBACKS pending done parked dead
rcs 0 4 2 0

EFFECTS pending done dead
plant 0 1 0
wms 0 0 1

TASKS STATE N
transport running 2
transport unloaded 1

1 dead effect needs a person: once effects list --state dead
`)
	var got struct {
		Ready  bool
		Counts struct{ Tasks []struct{ N int } }
	}
	if err := json.Unmarshal([]byte(p.told("status", "-o", "json")), &got); err != nil ||
		!got.Ready || len(got.Counts.Tasks) != 2 {
		t.Errorf("%v: %+v", err, got)
	}
}

func TestChangesOfOneSayWhatBecameOfItAndGiveAStatus(t *testing.T) {
	t.Parallel()
	p := plant(t)
	early, other, done := p.one("key=early"), p.one("key=other"), p.one("key=REQ-2")
	why := "--reason=station 7 is back"
	none := strings.Repeat("0", 26)
	for _, c := range []struct {
		args   []string
		status int
		want   string // of what is written
	}{
		{[]string{"callbacks", "retry", early}, 2, "once: --reason is missing"},
		{[]string{"callbacks", "retry", early, "--reason", " "}, 2, "--reason is missing"},
		{[]string{"callbacks", "retry", why}, 2, "want ids, or --state and more filters"},
		{[]string{"callbacks", "retry", early, why, "--state=dead"}, 2, "want one of them"},
		{[]string{"callbacks", "retry", why, "--state=done"}, 2, "retry is possible in parked"},
		{[]string{"callbacks", "retry", why, "--source=rcs"}, 2, "want ids, or --state"},
		{[]string{"callbacks", "retry", early, why}, 0, "callback " + early + ": retried, now p"},
		{[]string{"callbacks", "discard", other, why}, 0,
			"callback " + other + ": discarded, now discarded\n"},
		{[]string{"callbacks", "discard", other, why}, 4, "it is discarded"},
		{[]string{"callbacks", "retry", none, why}, 3, "not found"},
		{[]string{"callbacks", "retry", none, done, why}, 3, done + ": retry callback"},
		{[]string{"callbacks", "accept", done, why}, 2, "--receipt is missing"},
		{[]string{"callbacks", "accept", done, why, "--receipt=7"}, 3, "arrival 7"},
		{[]string{"effects", "done", p.deadEffect(), why}, 0,
			": said to have happened, now done\n"},
		{[]string{"tasks", "move", "transport/TASK-2", why}, 2, "--to is missing"},
		{[]string{"tasks", "move", "TASK-2", why, "--to=cancelled"}, 2, "want FLOW/TASK"},
		{[]string{"tasks", "move", "transport/TASK-2", why, "--to=nowhere"}, 4, "nowhere"},
		{[]string{"tasks", "move", "transport/nobody", why, "--to=cancelled"}, 3, "nobody"},
		{[]string{"resources", "transfer", "roadway/R9", why, "--to=transport/TASK-2"}, 0,
			"resource roadway/R9 is owned by transport/TASK-2\n"},
		{[]string{"resources", "transfer", "roadway/R9", why, "--to=transport/TASK-2"}, 4,
			"owns it already"},
		{[]string{"resources", "release", "roadway/R9", why, "--from=transport/TASK-4"}, 4,
			"task transport/TASK-2 has it"},
		{[]string{"resources", "release", "roadway/R9", why, "--from=transport/TASK-2"}, 0,
			"is being freed by transport/TASK-2: 1 effect to be acknowledged\n"},
		{[]string{"resources", "release", "lift/L1", why}, 3, "lift/L1"},
		{[]string{"tasks", "move", "transport/TASK-2", why, "--to=cancelled"}, 0,
			"task transport/TASK-2 is cancelled\n"},
	} {
		status, out, errs := p.operate(append(c.args, "--actor", "anna")...)
		if status != c.status || !strings.Contains(out+errs, c.want) ||
			(status == 0) != (errs == "") {
			t.Errorf("once %s: status %d, want %d with %q:\n%s%s", c.args, status,
				c.status, c.want, out, errs)
		}
	}
	var kept struct {
		Audit []struct{ Action, Actor, Reason string }
	}
	p.get("/api/v1/callbacks/"+early, &kept)
	if fmt.Sprint(kept.Audit) != "[{retry anna station 7 is back}]" {
		t.Errorf("kept of the change: %v", kept.Audit)
	}
	p.told("callbacks", "retry", p.one("key=early"), why) // it is parked again
	p.get("/api/v1/callbacks/"+early, &kept)
	if actor := kept.Audit[1].Actor; !regexp.MustCompile(`^[^@\s]+@[^@\s]+$`).MatchString(actor) {
		t.Errorf("without --actor it is %q, want USER@HOST", actor)
	}
}

func TestWhatIsStoredReachesNoTerminalRaw(t *testing.T) {
	t.Parallel()
	p := serve(t, t.TempDir())
	p.mustPost("rcs", `{"reqCode":"x\u001b[31mred\u0007","taskCode":"T\u009b\u202e",`+
		`"callbackMethod":"startFE","data":{"roadway":"R\u001b]0;t\u0007"}}`)
	p.awaitDone(1)
	id := p.callbacks("")[0].ID
	for _, args := range [][]string{{"callbacks", "list"}, {"callbacks", "show", id},
		{"tasks", "list"}, {"resources", "list"}, {"tasks", "show", "transport/T\u009b\u202e"},
		{"tasks", "move", "transport/T\u009b\u202e", "--to=cancelled", "--reason=x"}} {
		out := p.told(args...)
		if i := strings.IndexAny(out, "\x1b\x07\u009b\u202e"); i >= 0 {
			t.Errorf("once %s: %q", args, out[max(0, i-20):i+4])
		}
	}
}

func TestServersThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const token = "a-token-of-the-operator"
	write(t, dir, "once.yaml", "admin: {token: "+token+"}\nsources: {s: {key: [\"body.id\"], "+
		"to: {http: \"http://127.0.0.1:9/\"}}}\n")
	tokenFile := filepath.Join(dir, write(t, dir, "token", token+"\n"))
	empty := filepath.Join(dir, write(t, dir, "empty", "\n"))
	p := serve(t, dir, "--config", "once.yaml")
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "<html>\x1b[31m")
	}))
	t.Cleanup(page.Close)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"--server " + p.admin, 6, "a token is required"},
		{"--server " + p.admin + " --token wrong-wrong-wrong", 6, "wrong token"},
		{"--server " + p.admin + " --token " + token, 0, ""},
		{"--server " + p.admin + " --token-file " + tokenFile, 0, ""},
		{"--server " + p.admin + " --token-file " + empty, 2, "is empty"},
		{"--server " + p.admin + " --token-file " + dir + "/none", 2, "no such file"},
		{"--server " + p.admin + " --token x --token-file " + tokenFile, 2, "want one of them"},
		{"--server " + gone.URL, 5, "is it running? --server names another one"},
		{"--server " + page.URL, 5, `"<html>\x1b[31m"`},
		{"--server " + secure.URL, 5, "--ca FILE names the authority"},
		{"--server " + secure.URL + " --ca " + tokenFile, 2, "has no certificate"},
		{"--server " + strings.Replace(secure.URL, "https", "http", 1), 5, "HTTPS server"},
		{"--server nowhere", 2, "want a URL such as"},
		{"--server http://x --config once.yaml", 2, "both name a server"},
		{"--server " + p.admin + " --output xml", 2, "want one of table, json"},
		{"--config " + dir + "/none.yaml", 2, "no such file"},
		{"--config " + dir + "/once.yaml --server http://h", 2, "want one of them"},
	} {
		status, out, errs := run(strings.Fields("callbacks list " + c.args)...)
		if status != c.status || !strings.Contains(errs, c.want) || (status == 0) != (errs == "") {
			t.Errorf("%s: status %d, want %d with %q:\n%s%s", c.args, status, c.status, c.want, out,
				errs)
		}
		if strings.Contains(out+errs, token) || strings.ContainsRune(errs, '\x1b') {
			t.Errorf("%s: it tells too much:\n%s%s", c.args, out, errs)
		}
	}
}

func TestTheFileOfALocalServerSaysWhereItIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := serve(t, dir)
	port := p.admin[strings.LastIndex(p.admin, ":"):]
	for listen, status := range map[string]int{"127.0.0.1" + port: 0, "0.0.0.0" + port: 0,
		port: 0, "127.0.0.1:0": 2} {
		write(t, dir, "once.yaml", "admin: {listen: \""+listen+
			"\", token: a-token-that-is-not-asked}\n"+
			"sources: {s: {key: [\"body.id\"], to: {http: \"http://127.0.0.1:9/\"}}}\n")
		got, out, errs := run("status", "--config", filepath.Join(dir, "once.yaml"))
		if got != status || status == 2 && !strings.Contains(errs, "--server") {
			t.Errorf("admin.listen %s: status %d, want %d: %s%s", listen, got, status, out, errs)
		}
	}
}

func TestStatusSaysWhoKeepsThingsWaiting(t *testing.T) {
	t.Parallel()
	dir, sink := t.TempDir(), testserver.NewHTTPSink(t)
	sink.Otherwise(testserver.Answer{Status: http.StatusUnauthorized})
	write(t, dir, "once.yaml", `
sources:
  pay: {key: ["body.id"], to: {http: "`+sink.URL()+`"}}
destinations:
  broker: {mqtt: {url: "mqtt://127.0.0.1:1"}}
`)
	p := serve(t, dir, "--config", "once.yaml")
	p.mustPost("pay", `{"id":1}`)
	testserver.Until(t, patience, "both stand", func() bool {
		out := plain(p.told("status"))
		return strings.Contains(out, "source pay is paused since TIME, callbacks wait: "+
			"service answered 401 ") &&
			strings.Contains(out, "destination broker is away, effects wait: ")
	})
	for _, what := range []string{"sources", "destinations"} {
		out := plain(p.told(what, "list"))
		if !strings.Contains(out, "pay http paused TIME service answered 401 ") &&
			!strings.Contains(out, "broker mqtt away ") {
			t.Errorf("once %s list:\n%s", what, out)
		}
	}
}

func TestStatusTellsOfAStoreThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	p := serve(t, t.TempDir())
	target, err := url.Parse(p.admin)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			proxy.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"status":503,"detail":"the store can't be written: disk full"}`)
	}))
	t.Cleanup(s.Close)
	status, out, errs := run("status", "--server", s.URL)
	const want = "NOT READY\nthe store can't be written: disk full\n"
	if status != 5 || errs != "" || !strings.Contains(out, want) {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
}
