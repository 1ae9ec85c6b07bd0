// Command once receives callbacks, works each exactly once in effect, and sends what follows.
package main

import "github.com/oncekit/once/serve"

func main() { serve.Main(nil) }
