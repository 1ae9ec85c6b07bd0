package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/child"
	"github.com/oncekit/once/internal/server"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/write"
)

// killedVariable names the folder of a configuration to a process that serves it until it has
// written a document, and then is killed.
const killedVariable = "ONCE_TEST_KILLED_AFTER_WRITE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedVariable); dir != "" {
		fmt.Fprintln(os.Stderr, serveUntilWritten(dir))
		os.Exit(1)
	}
	os.Exit(testserver.Main(m))
}

// serveUntilWritten returns only what kept it from serving.
func serveUntilWritten(dir string) error {
	yaml, err := os.ReadFile(filepath.Join(dir, "once.yaml"))
	if err != nil {
		return err
	}
	cfg, err := load(dir, string(yaml))
	if err != nil {
		return err
	}
	srv, err := server.Open(context.Background(), server.Options{Config: cfg,
		DatabaseWait: patience, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Writer: func(real write.Writer) write.Writer {
			return writerFunc(func(ctx context.Context, e write.Event) (write.Result, error) {
				r, err := real.Write(ctx, e)
				if err == nil && r.Outcome == write.Applied {
					_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
					select {} // until it has come
				}
				return r, err
			})
		}})
	if err != nil {
		return err
	}
	return srv.Run(context.Background())
}

func TestB06_AProcessKilledBetweenTheWriteAndItsSettlementHasWrittenOnce(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		dir, yaml := t.TempDir(), written(ready(t, l), "", "")
		if err := os.WriteFile(filepath.Join(dir, "once.yaml"), []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		// The event is taken in, and not written yet.
		s := serve(t, dir, edit(t, yaml, "base: 10ms", "base: 1ms"), patient,
			func(o *server.Options) {
				o.Writer = func(write.Writer) write.Writer {
					return writerFunc(func(context.Context, write.Event) (write.Result, error) {
						return write.Result{}, once.ErrUnavailable
					})
				}
			})
		s.post(200, "pay", paymentEvent("evt-1", "pay-1", "captured", 1))
		s.end()

		var out testserver.Text
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killedVariable+"="+dir)
		cmd.Stderr = &out
		p, err := child.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Kill()
		select {
		case <-p.Done():
		case <-time.After(patience):
		}
		if state := p.State(); state == nil || state.Sys().(syscall.WaitStatus).Signal() !=
			syscall.SIGKILL {
			t.Fatalf("the process ended with %v and the log\n%s", state, &out)
		}
		has(t, l, "pay-1", row{"captured", 1, 1250, 1})

		s = serve(t, dir, yaml, patient)
		s.awaitCallback("key=evt-1", "done")
		has(t, l, "pay-1", row{"captured", 1, 1250, 1})
	})
}
