package server_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/internal/server"
	"github.com/oncekit/once/internal/testserver"
)

// checked is what `config check` says of a file beside the store in dir.
func checked(t *testing.T, dir, yaml string) (idle []string, err error) {
	t.Helper()
	cfg, err := load(dir, yaml)
	if err != nil {
		t.Fatal(err)
	}
	return server.Compare(t.Context(), cfg)
}

// wantRefused wants the start, and the check, to refuse a file and to say what to write.
func wantRefused(t *testing.T, dir, yaml string, says ...string) {
	t.Helper()
	_, err := checked(t, dir, yaml)
	var wrong *config.Error
	if !errors.As(err, &wrong) {
		t.Fatalf("the check: %v", err)
	}
	for _, want := range says {
		if got := refusal(t, dir, yaml); !strings.Contains(got, want) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("the start: %s\nthe check: %v\nwant %q", got, err, want)
		}
	}
}

func TestGateway_AnotherScopeOverAUsedStoreIsRefusedUntilTheFileSaysThatItIsMeant(t *testing.T) {
	t.Parallel()
	o, dir := newOrigin(t, numbered()), t.TempDir()
	before := gatewayTo(o.URL, byAccount, "{match: POST /}")
	after := gatewayTo(o.URL, "  scope: \"header['x-tenant']\"\n", "{match: POST /}")
	s := serve(t, dir, before)
	s.end()
	s = serve(t, dir, after) // nothing is remembered yet
	s.end()
	s = serve(t, dir, before)
	first := s.pay("/p", "k1", "{}")
	s.end()
	for _, yaml := range []string{after, gatewayTo(o.URL, "  scope: none\n", "{match: POST /}")} {
		wantRefused(t, dir, yaml, "the gateway has another scope than the 1 record that the store"+
			` keeps`, `Restore scope: "header['x-account']"`, "gateway: {scope: changed}")
	}
	s = serve(t, dir, before) // a refused start has changed nothing
	wantReplayOf(t, s.pay("/p", "k1", "{}"), first)
	s.end()
	// Without a gateway, and back: what is remembered is still that of the first scope.
	s = serve(t, dir, strings.Replace(sharing, "migrate:", "#", 1))
	s.end()
	wantRefused(t, dir, after, "gateway: {scope: changed}")
	meant := after + "migrate: {gateway: {scope: changed}}\n"
	if idle, err := checked(t, dir, meant); err != nil || len(idle) != 0 {
		t.Errorf("the check: %q, %v", idle, err)
	}
	s = serve(t, dir, meant)
	if !strings.Contains(s.log.String(), "every key of the gateway counts as new") {
		t.Errorf("the log does not say it: %s", s.log)
	}
	s.end()
	if idle, err := checked(t, dir, meant); err != nil || len(idle) != 1 ||
		!strings.Contains(idle[0], "remove gateway: {scope: changed}") {
		t.Errorf("the check after it: %q, %v", idle, err)
	}
	s = serve(t, dir, after)
	s.end()
	wantRefused(t, dir, before, "gateway: {scope: changed}")
}

func TestGateway_RecordsInAnotherPlaceAreRefusedUntilTheFileSaysThatItIsMeant(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, "appendonly yes")
	o, dir := newOrigin(t, numbered()), t.TempDir()
	inStore := gatewayTo(o.URL, byAccount, "{match: POST /}")
	in := func(url string) string {
		return gatewayTo(o.URL, byAccount+"  records: "+url+"\n", "{match: POST /}")
	}
	at := "redis://" + redis.Addr()
	s := serve(t, dir, inStore)
	s.pay("/p", "k1", "{}")
	s.end()
	wantRefused(t, dir, in(at), "the gateway's records are in another place than the 1 record that"+
		" the store keeps", "the gateway without `records`", "gateway: {records: changed}")
	cfg, err := load(dir, in("redis://127.0.0.1:1")+"migrate: {gateway: {records: changed}}\n")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.Open(t.Context(), server.Options{Config: cfg}); err == nil {
		t.Fatal("it opened without its Redis")
	}
	s = serve(t, dir, inStore) // a start that could not open them has changed nothing
	s.end()
	s = serve(t, dir, in(at)+"migrate: {gateway: {records: changed}}\n")
	s.end()
	wantRefused(t, dir, inStore, "than what "+at+" keeps", "Restore records: "+at)
	wantRefused(t, dir, in(at+"/3"), "gateway: {records: changed}")
	s = serve(t, dir, in("redis://default:@"+redis.Addr()+"/0?read_timeout=2s")) // the same place
	s.end()
}

func TestGateway_FlagsAloneAreToldWhatToDoAboutAnotherScope(t *testing.T) {
	t.Parallel()
	o, dir := newOrigin(t, numbered()), t.TempDir()
	s := serve(t, dir, gatewayTo(o.URL, byAccount, "{match: POST /}"))
	s.pay("/p", "k1", "{}")
	s.end()
	cfg, err := load(dir, gatewayTo(o.URL, "  scope: none\n", "{match: POST /}"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = server.Open(t.Context(), server.Options{Config: cfg, NoFile: true})
	if err == nil || !strings.Contains(err.Error(), "write a file, or use another --store") {
		t.Errorf("%v", err)
	}
}
