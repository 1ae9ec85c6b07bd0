package scenario_test

import (
	"context"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/internal/scenario"
	"github.com/oncekit/once/internal/server"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/testserver/mongotest"
)

// gateway serves the settings of the scenarios, with edits, and returns its URL.
func gateway(t *testing.T, o *scenario.Origin, edits ...string) *url.URL {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, scenario.Settings))
	if err != nil {
		t.Fatal(err)
	}
	edits = append(edits, "127.0.0.1:7010", o.Address())
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(string(text), edits[i]) {
			t.Fatalf("%s has no %q", scenario.Settings, edits[i])
		}
	}
	cfg, err := config.Parse(filepath.Join(t.TempDir(), scenario.Settings),
		[]byte(strings.NewReplacer(edits...).Replace(string(text))),
		config.Env{Override: config.Override{Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.Open(t.Context(), server.Options{
		Config: cfg, Effects: io.Discard, Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run gateway: %v", err)
		}
	})
	return &url.URL{Scheme: "http", Host: s.Addr()}
}

func TestTheGatewayPassesEveryScenarioOverSQLite(t *testing.T) {
	o := origin(t)
	pass(t, scenario.Config{Target: gateway(t, o), Origin: o})
}

func TestTheGatewayPassesEveryScenarioOverRedis(t *testing.T) {
	o := origin(t)
	records := "redis://" + testserver.Redis(t, "appendonly yes").Addr()
	pass(t, scenario.Config{Origin: o, Target: gateway(t, o,
		"gateway:\n", "gateway:\n  records: "+records+"\n  redis_may_forget: true\n")})
}

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

func TestTheGatewayPassesEveryScenarioOverPostgreSQL(t *testing.T) {
	o := origin(t)
	records := testserver.Postgres(t).URL()
	pass(t, scenario.Config{Origin: o, Target: gateway(t, o,
		"gateway:\n", "gateway:\n  records: "+records+"\n")})
}

// The server of the tests looks through all records at each write, so that it is given few at a
// time; how fast an answer comes, which some scenarios ask for, is not asked of it.
func TestTheGatewayPassesEveryScenarioOverMongoDB(t *testing.T) {
	const atOnce = 45
	list := slices.DeleteFunc(slices.Clone(load(t)), hasLimit)
	if len(list) < 150 {
		t.Fatalf("%d scenarios are left", len(list))
	}
	for some := range slices.Chunk(list, atOnce) {
		o := origin(t)
		records := "mongodb://" + testserver.SharedMongo(t).Addr() + "/" +
			mongotest.DatabaseName() + "?directConnection=true"
		target := gateway(t, o, "gateway:\n", "gateway:\n  records: "+records+"\n")
		passSome(t, some, scenario.Config{Target: target, Origin: o, Patience: time.Minute / 2})
	}
}

// hasLimit tells a scenario that asks for an answer within a time.
func hasLimit(s scenario.Scenario) bool {
	return slices.ContainsFunc(s.Steps, func(step scenario.Step) bool {
		return step.Expect != nil && step.Expect.Within+step.Expect.FirstWithin > 0
	})
}
