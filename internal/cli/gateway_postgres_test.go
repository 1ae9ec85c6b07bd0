package cli_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncekit/once/internal/testserver"
)

func TestAGatewayWithoutAFileKeepsItsRecordsInPostgreSQL(t *testing.T) {
	t.Parallel()
	var ran atomic.Int64
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		ran.Add(1)
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(origin.Close)
	db := testserver.Postgres(t)
	args := []string{"--to", origin.URL, "--scope", "header['x-account']", "--records",
		db.URL() + "&schema=gate", "--key", "required", "--on-unknown", "hold"}
	one, two := proxy(t, t.TempDir(), args...), proxy(t, t.TempDir(), args...)
	place := "postgres://" + db.Server.Addr() + "/" + db.Name
	if said := one.out.String(); !strings.Contains(said, "  records     "+place+"\n") {
		t.Errorf("the greeting is %s", said)
	}
	if status, body, _ := one.pay("order-4711"); status != 201 {
		t.Errorf("%d %s", status, body)
	}
	if status, body, header := two.pay("order-4711"); status != 201 ||
		header.Get("Idempotent-Replayed") != "true" || ran.Load() != 1 {
		t.Errorf("%d %s, it ran %d times", status, body, ran.Load())
	}
	for _, args := range [][]string{
		{"records", "list", "--state", "completed"},
		{"records", "list", "--scope", "a1", "--key", "order-4711"},
	} {
		status, out, errs := run(append(args, "--server", two.admin)...)
		if status != 0 || !strings.Contains(out, "POST /payments") ||
			strings.Contains(out, "4711") {
			t.Errorf("%v: status %d: %s%s", args, status, out, errs)
		}
	}
}
