package server_test

import (
	"strings"
	"testing"

	"github.com/oncekit/once/internal/server"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/testserver/mongotest"
)

// inMongoDB is where records are kept: a new database at an address.
func inMongoDB(addr string) string {
	return "  records: mongodb://" + addr + "/" + mongotest.DatabaseName() +
		"?directConnection=true\n"
}

func TestGateway_RecordsInMongoDBOutliveTheProcess(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, numbered())
	file := gatewayTo(o.URL, byAccount+inMongoDB(testserver.SharedMongo(t).Addr()),
		"{match: POST /, key: required, on_unknown: hold}")
	s := serve(t, t.TempDir(), file)
	first := s.pay("/p", "k", "{}")
	wantStatus(t, first, 201, "")
	s.end()
	s = serve(t, t.TempDir(), file) // a store that is new
	wantReplayOf(t, s.pay("/p", "k", "{}"), first)
	wantStatus(t, s.pay("/p", "k", "[]"), 422, "mismatch")
	if r := s.recordOf("?scope=a1&key=k"); r.State != "completed" {
		t.Errorf("record %+v", r)
	}
	if o.ran.Load() != 1 {
		t.Errorf("the origin ran %d times, want once", o.ran.Load())
	}
}

// Two gateways over one database are one: neither repeats what the other one has done.
func TestGateway_TwoShareTheirRecordsInMongoDB(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, numbered())
	file := gatewayTo(o.URL, byAccount+inMongoDB(testserver.SharedMongo(t).Addr()),
		"{match: POST /, key: required, on_unknown: retry}")
	one, two := serve(t, t.TempDir(), file), serve(t, t.TempDir(), file)
	first := one.pay("/p", "k", "{}")
	wantStatus(t, first, 201, "")
	wantReplayOf(t, two.pay("/p", "k", "{}"), first)
	if o.ran.Load() != 1 {
		t.Errorf("the origin ran %d times, want once", o.ran.Load())
	}
}

func TestGateway_IsNotReadyAndRunsNothingWhileItsMongoDBIsAway(t *testing.T) {
	t.Parallel()
	mongo := testserver.Mongo(t)
	o := newOrigin(t, numbered())
	s := serve(t, t.TempDir(), gatewayTo(o.URL, byAccount+inMongoDB(mongo.Addr()),
		"{match: POST /, key: required, on_unknown: retry}"))
	ready := func() int { return s.get("/readyz", nil).status }
	until := func(what string, status int) {
		t.Helper()
		testserver.Until(t, patience, what, func() bool { return ready() == status })
	}
	until("it is ready", 200)
	mongo.Kill()
	until("a MongoDB that is down is told", 503)
	if a := s.get("/readyz", nil); !strings.Contains(a.body, "records can't be reached: ") {
		t.Errorf("the reason is told as %s", a.body)
	}
	wantStatus(t, s.pay("/p", "k", "{}"), 503, "store-unavailable")
	if o.ran.Load() != 0 {
		t.Errorf("the origin ran %d times, want never", o.ran.Load())
	}
	mongo.Start()
	until("it is ready again", 200)
	// The claim without an answer is looked for meanwhile, and given back.
	testserver.Until(t, patience, "it works again", func() bool {
		return s.pay("/p", "k", "{}").status == 201
	})
}

func TestGateway_AMongoDBThatCannotBeUsedIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"mongodb://u:the-password@h/shop?connectTimeoutMS=x": "records can't be used: ",
		"mongodb://u:the-password@h/shop?authMechanism=x":    "records can't be used: ",
		"mongodb://h:1,h:2/shop?directConnection=true":       "records can't be used: ",
		// One that speaks the protocol, and whose updates are not atomic, is refused, too: see the
		// tests of oncemongo. Here nobody listens.
		"mongodb://127.0.0.1:1/shop?serverSelectionTimeoutMS=50": "open records: ",
	} {
		cfg, err := load(t.TempDir(), gatewayTo("http://127.0.0.1:1",
			byAccount+"  records: "+url+"\n", "{match: POST /}"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := server.Open(t.Context(), server.Options{Config: cfg}); err == nil ||
			strings.Contains(err.Error(), "the-password") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}
