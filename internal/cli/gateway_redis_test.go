package cli_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/testserver"
)

func TestAGatewayOverRedisSaysWhereItsRecordsAreAndLogsInOneFormat(t *testing.T) {
	t.Parallel()
	redis, dir := testserver.Redis(t, "appendonly yes"), t.TempDir()
	redis.Do("CONFIG", "SET", "requirepass", "the-password")
	file := write(t, dir, "once.yaml", `log: {format: json}
sources: {rcs: {key: ["body.id"], to: {http: "http://127.0.0.1:1/x"}}}
gateway:
  upstream: http://127.0.0.1:1
  scope: none
  records: redis://:the-password@`+redis.Addr()+`/0
  routes: [{match: POST /payments}]
`)
	p := serve(t, dir, "--config", filepath.Join(dir, file))
	said := p.out.String()
	if !strings.Contains(said, "  records     redis://"+redis.Addr()+"/0\n") ||
		!strings.Contains(said, "  POST /payments  (key optional, on_unknown retry)\n") {
		t.Errorf("the greeting is %s", said)
	}
	redis.Kill()
	testserver.Until(t, patience, "the Redis client's fault is told", func() bool {
		_, _, _ = p.pay("k")
		return strings.Contains(p.err.String(), "the Redis client reports a fault")
	})
	for line := range strings.Lines(p.err.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("the log has another format: %s", line)
		}
	}
	if strings.Contains(p.out.String()+p.err.String(), "the-password") {
		t.Error("the password is told")
	}
}
