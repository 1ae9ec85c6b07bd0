package server_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/server"
)

// A handler that does not even obey the end of its context is left behind: the end of the process
// waits for the drain and a few seconds more, says so, and the callback is worked again after the
// next start.
func TestAHandlerThatNeverEndsIsLeftBehindAndItsCallbackIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	dir, drain := t.TempDir(), 200*time.Millisecond
	begun, never := make(chan struct{}), make(chan struct{})
	quick := func(o *server.Options) { o.Config.Drain = drain }
	s := serve(t, dir, payments(", timeout: 10m"), quick, handles(inbox.WorkFunc(
		func(context.Context, inbox.Callback) (any, error) {
			close(begun)
			<-never
			return nil, nil
		})))
	s.post(200, "pay", payment("1", "A"))
	s.post(200, "pay", payment("2", "A"))
	<-begun
	letGo := sync.OnceFunc(func() { close(never) })
	defer letGo()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.end() // fails the test if the end is an error
	}()
	select {
	case <-ended:
	case <-time.After(patience / 2):
		t.Fatalf("a drain of %v does not end", drain)
	}
	if !strings.Contains(s.log.String(), "level=ERROR msg=\"a handler does not end although its") {
		t.Error("the log doesn't say that a handler was left behind")
	}
	letGo()

	s = serve(t, dir, payments(""), handles(inbox.WorkFunc(
		func(context.Context, inbox.Callback) (any, error) { return nil, nil })))
	for key, attempts := range map[string]int{"1": 2, "2": 1} {
		if c := s.awaitCallback("key="+key, "done"); c.Attempt != attempts {
			t.Errorf("%s was done in attempt %d, want %d", key, c.Attempt, attempts)
		}
	}
}
