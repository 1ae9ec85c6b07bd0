// Package serve is the once program as a library: a program of your own that has handlers in Go.
//
//	func main() {
//		serve.Main(serve.Handlers{"bookings": bookings{}})
//	}
//
// It has every command of once. A source in its configuration names a handler by
// `to: {handler: bookings}`.
package serve

import (
	"os"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/cli"
)

// Handlers are handlers in Go by the name that the configuration gives them.
type Handlers map[string]inbox.Handler

// Main runs the program with the arguments of the process, and ends the process with its status: 0
// done, 1 failed, 2 a wrong configuration or command line. handlers may be nil.
func Main(handlers Handlers) {
	os.Exit(cli.Run(os.Args[1:], cli.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, handlers))
}
