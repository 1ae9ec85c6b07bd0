// Package queries holds no code: its tests hold every PromQL query of the dashboard, the alerts and
// the documentation to the metrics, labels and values that a running server shows.
//
// The queries are read with the parser of Prometheus itself. Names and labels alone could be found
// by a few lines of code; but such lines would accept a query that Prometheus refuses, and what it
// refuses is an empty panel, or an alert that never comes.
package queries
