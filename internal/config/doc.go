// Package config reads the configuration of once: one strict YAML file, environment overrides, and
// secrets taken from variables and files at load time.
//
// Promised: a file that loads can be served: its expressions are compiled, its references known,
// its flows closed. A file that doesn't is refused as a whole, with up to 20 problems, each with
// its place, what is wrong and what was expected. Nothing is opened, listened on or connected to.
// Secrets are neither printed nor quoted in a problem.
//
// The file is walked as a syntax tree by a reader of our own: a decoder into structs loses the
// places, stops at the first mistake, and speaks of Go's types to people who never saw them.
//
// The functions that a [Config] holds are pure and safe for concurrent use.
package config
