// Command payments is a small payment API with idempotency keys: a charge that is sent again under
// its key is made once, and every time gets the first answer.
//
//	go run ./examples/payments
//	curl http://127.0.0.1:8080/charges -H 'Authorization: Bearer token-of-acct-1' \
//	     -H 'Content-Type: application/json' -H 'Idempotency-Key: "order-4711"' \
//	     -d '{"card":"card-1","cents":1250}'
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncehttp"
	"github.com/oncekit/once/oncesqlite"
)

func main() {
	var o options
	flag.StringVar(&o.listen, "listen", "127.0.0.1:8080", "address for clients")
	flag.StringVar(&o.operator, "operator", "127.0.0.1:8081", "address for the operator")
	flag.StringVar(&o.dir, "dir", ".", "folder of payments.db and charges.txt")
	flag.DurationVar(&o.slow, "slow", 0, "how long the card network takes to answer")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "payments:", err)
		os.Exit(1)
	}
}

type options struct {
	listen, operator, dir string
	slow                  time.Duration
}

func run(ctx context.Context, o options) (err error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	store, err := oncesqlite.Open(ctx, oncesqlite.Config{
		Path: filepath.Join(o.dir, "payments.db"), Logger: log,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	go once.RunSweeper(ctx, store.Records(), time.Minute, log) // what is past its retention goes
	network := &cardNetwork{file: filepath.Join(o.dir, "charges.txt"), slow: o.slow}
	api, err := newAPI(store.Records(), network, log)
	if err != nil {
		return err
	}
	return serve(ctx, []listener{
		{"clients", o.listen, api},
		{"operator", o.operator, operator{store.Records()}.handler()},
	})
}

// newAPI is the API: authentication first, then the keys, then the work.
func newAPI(records once.Store, network *cardNetwork, log *slog.Logger) (http.Handler, error) {
	guard, err := oncehttp.Middleware(oncehttp.Config{
		Store: records,
		Scope: accountOf,
		Key:   oncehttp.KeyRequired,
		Guard: once.Config{
			OnUnknown: once.Hold,          // a charge whose attempt vanished waits for a person
			Retention: 7 * 24 * time.Hour, // longer than any client retries
		},
		Logger: log,
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /charges", guard(charges{network}))
	return signedIn(mux), nil
}

const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 30 * time.Second
	drain         = 20 * time.Second
)

type listener struct {
	name, address string
	handler       http.Handler
}

// serve listens until the context ends, and lets what runs come to its end.
func serve(ctx context.Context, listeners []listener) error {
	failed := make(chan error, len(listeners))
	var servers []*http.Server
	for _, to := range listeners {
		l, err := net.Listen("tcp", to.address)
		if err != nil {
			return err
		}
		fmt.Printf("%s: http://%s\n", to.name, l.Addr())
		s := &http.Server{
			Handler: to.handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout,
		}
		servers = append(servers, s)
		go func() { failed <- s.Serve(l) }()
	}
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	for _, s := range servers {
		err = errors.Join(err, s.Shutdown(ctx))
	}
	return err
}
