package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Kinds are the servers that Open knows.
func Kinds() []string { return []string{"bare", "naive", "insert", "sink", "origin", "proxy"} }

// Backend is what a server does with callbacks.
type Backend struct {
	// Handler serves everything; nil: Handler over Accept, beside Metrics.
	Handler http.Handler
	// Accept makes a callback durable. Nil: nothing is stored.
	Accept Accept
	// Metrics writes numbers in the format of Prometheus. Nil: there are none.
	Metrics func(io.Writer) error
	// Run works in the background until its context ends. Nil: nothing is to be done.
	Run func(context.Context) error
}

// Open makes the backend of one of the Kinds. dir is where it keeps its files, to is the origin of
// a proxy, or the URL of the database of an inserter.
func Open(ctx context.Context, kind, dir, to string) (Backend, error) {
	switch kind {
	case "bare":
		return Backend{}, nil
	case "naive":
		n, err := openNaive(ctx, dir)
		if err != nil {
			return Backend{}, err
		}
		return Backend{Accept: n.accept, Run: n.run}, nil
	case "insert":
		i, err := openInserter(ctx, to)
		if err != nil {
			return Backend{}, err
		}
		return Backend{Accept: i.accept, Run: i.run}, nil
	case "sink":
		return Backend{Handler: &sink{seen: map[string]int{}}}, nil
	case "origin":
		return Backend{Handler: newOrigin()}, nil
	case "proxy":
		return Proxy(to)
	}
	return Backend{}, fmt.Errorf("no server %q; there are %v", kind, Kinds())
}

// Serve serves a backend on an address until ctx ends.
func Serve(ctx context.Context, addr string, b Backend) error {
	if b.Handler == nil {
		mux := http.NewServeMux()
		mux.Handle("/in/rcs", Handler(b.Accept))
		if b.Metrics != nil {
			mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
				_ = b.Metrics(w) // a reader that went away is its own affair
			})
		}
		b.Handler = mux
	}
	if b.Run == nil {
		b.Run = func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		}
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{Handler: b.Handler, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 2)
	go func() { failed <- b.Run(ctx) }()
	go func() { failed <- server.Serve(l) }()
	first := <-failed // Run ends with ctx
	cancel()
	err = server.Close()
	for _, e := range []error{first, <-failed} {
		if err == nil && !errors.Is(e, http.ErrServerClosed) {
			err = e
		}
	}
	return err
}
