// Command child is the processes of the crash test beside the test itself: the server that is
// killed, and the destination that counts. Each prints "ready ADDRESS…" when it listens, and ends
// with its standard input, so that none outlives the test.
//
//	child serve --config FILE --store URL [--point POINT --after N --linger D]
//	child sink --log FILE --seed N
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("want serve or sink")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3) // the test is gone
	}()
	switch args[0] {
	case "serve":
		return serve(ctx, args[1:])
	case "sink":
		return sink(ctx, args[1:])
	}
	return fmt.Errorf("unknown role %q", args[0])
}

// say tells the test something. A line is one write, so it is whole even if the process ends at
// once.
func say(format string, args ...any) {
	if _, err := fmt.Fprintf(os.Stdout, format+"\n", args...); err != nil {
		os.Exit(3)
	}
}
