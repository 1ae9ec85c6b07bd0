// Command ferret is a server that speaks MongoDB's protocol, for tests: FerretDB with its SQLite
// backend, and before it a proxy that lets one writing command through at a time, for FerretDB
// itself updates a document in two steps between which others may write.
//
// A second proxy plays a member of a replica set, with retryable writes and with transactions that
// run one at a time: for the code that needs them, which would not be run at all without it.
//
// It prints one line, the addresses of the proxy, of FerretDB and of the second proxy, and ends
// when its standard input does. It is a module of its own, so that FerretDB is no dependency of
// once.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"

	"github.com/FerretDB/FerretDB/ferretdb"
)

func main() {
	dir := flag.String("dir", "", "where the data is; without it in a folder that is gone in the end")
	listen := flag.String("listen", "127.0.0.1:0", "host:port on which one write passes at a time")
	raw := flag.String("raw", "127.0.0.1:0", "host:port of FerretDB itself")
	member := flag.String("member", "127.0.0.1:0", "host:port of what plays a replica set")
	flag.Parse()
	if err := run(*dir, *listen, *raw, *member); err != nil {
		fmt.Fprintln(os.Stderr, "ferret:", err)
		os.Exit(1)
	}
}

// run serves until standard input ends.
func run(dir, listen, raw, member string) error {
	if dir == "" {
		made, err := os.MkdirTemp("", "ferret-")
		if err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
		defer os.RemoveAll(made)
		dir = made
	}
	warnings := &slog.HandlerOptions{Level: slog.LevelWarn}
	server, err := ferretdb.New(&ferretdb.Config{
		Listener: ferretdb.ListenerConfig{TCP: raw},
		Logger:   slog.New(slog.NewTextHandler(os.Stderr, warnings)),
		Handler:  "sqlite",
		// What a test kills is the process, never the machine: nothing needs to be flushed.
		SQLiteURL: "file:" + dir + "/?_pragma=journal_mode(wal)&_pragma=busy_timeout(60000)" +
			"&_pragma=synchronous(off)",
	})
	if err != nil {
		return fmt.Errorf("make server: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	uri, err := url.Parse(server.MongoDBURI()) // waits until it listens
	if err != nil {
		return fmt.Errorf("read address: %w", err)
	}
	gate, err := newGate(listen, uri.Host)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	go gate.serve()
	members, err := newGate(member, uri.Host)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	members.writing, members.member = gate.writing, newReplica(members)
	go members.serve()
	fmt.Printf("%s %s %s\n", gate.addr(), uri.Host, members.addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop()
	return <-ended
}
