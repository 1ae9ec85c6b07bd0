package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Kinds are the servers that Serve knows.
func Kinds() []string { return []string{"bare", "naive", "river", "sink"} }

// Serve runs one of the Kinds on an address until ctx ends. dir is where it keeps its files.
func Serve(ctx context.Context, kind, addr, dir string) error {
	mux := http.NewServeMux()
	var accept Accept
	run := func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}
	switch kind {
	case "bare":
	case "naive":
		n, err := openNaive(ctx, dir)
		if err != nil {
			return err
		}
		accept, run = n.accept, n.run
	case "river":
		q, err := openRiver(ctx, dir)
		if err != nil {
			return err
		}
		accept, run = q.accept, q.run
		mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, "river_jobs_backlog %d\nriver_jobs_done %d\n",
				q.backlog(), q.done.Load())
		})
	case "sink":
		return serve(ctx, addr, &sink{seen: map[string]int{}}, run)
	default:
		return fmt.Errorf("no server %q; there are %v", kind, Kinds())
	}
	mux.Handle("/in/rcs", Handler(accept))
	return serve(ctx, addr, mux, run)
}

// serve serves a handler beside run until ctx ends or one of them fails.
func serve(ctx context.Context, addr string, h http.Handler,
	run func(context.Context) error) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 2)
	go func() { failed <- run(ctx) }()
	go func() { failed <- server.Serve(l) }()
	select {
	case <-ctx.Done():
		err = nil
	case err = <-failed:
		cancel()
	}
	if e := server.Close(); err == nil {
		err = e
	}
	if first := <-failed; err == nil && !errors.Is(first, http.ErrServerClosed) {
		err = first
	}
	return err
}
