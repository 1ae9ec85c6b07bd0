// Command clocked is once with a clock that is SECONDS_AHEAD of the system's, for tests of nodes
// whose clocks differ. Build it with -ldflags=-checklinkname=0.
package main

import (
	"os"
	"strconv"

	"github.com/oncekit/once/serve"
)

// ahead is how far the clock is put forward, in seconds; kernel is where the system's is asked.
var (
	ahead  int64
	kernel uintptr
)

// install has the runtime ask our clock. The vDSO's has to be in use.
func install() (ok bool)

func init() {
	if text := os.Getenv("SECONDS_AHEAD"); text != "" && text != "0" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			panic(err)
		}
		ahead = n
		if !install() {
			panic("the system's clock is not that of a vDSO")
		}
	}
}

func main() { serve.Main(nil) }
