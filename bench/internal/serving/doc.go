// Package serving runs what is measured: `once serve` with the configuration of the benchmark, its
// peers, a destination, and the load generator, each a process of its own.
package serving
