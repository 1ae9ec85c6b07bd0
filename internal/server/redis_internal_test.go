package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAReadinessIsAskedOnceASecondAndForASecondAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		ready := cached(func(ctx context.Context) error {
			asked++
			<-ctx.Done()
			return errors.New("it hangs")
		}, time.Second)
		start := time.Now()
		for range 5 {
			if err := ready(t.Context()); err == nil {
				t.Error("what hangs is ready")
			}
		}
		if took := time.Since(start); asked != 1 || took != time.Second {
			t.Errorf("asked %d times in %v, want once within a second", asked, took)
		}
		time.Sleep(recordsPingFresh)
		if _ = ready(t.Context()); asked != 2 {
			t.Errorf("asked %d times, want again after a second", asked)
		}
	})
}

func TestTheRedisClientsLogIsInTheFormatOfTheRestAndBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := &redisLog{log: slog.New(slog.NewJSONHandler(&out, nil))}
		for range 100 {
			l.Printf(t.Context(), "dial %s", "127.0.0.1:1")
		}
		if n := strings.Count(out.String(), "\n"); n != 1 ||
			!strings.Contains(out.String(), `"level":"WARN"`) ||
			!strings.Contains(out.String(), `"fault":"dial 127.0.0.1:1"`) {
			t.Errorf("%d lines, want one warning: %s", n, out.String())
		}
		time.Sleep(redisLogPause)
		l.Printf(t.Context(), "dial")
		if !strings.Contains(out.String(), `"left_out":99`) {
			t.Errorf("what was left out is not counted: %s", out.String())
		}
	})
}
