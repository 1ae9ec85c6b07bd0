package figure

import "github.com/oncekit/once/bench/internal/table"

// pgRows are the lines of callbacks in PostgreSQL.
func pgRows() []table.Row {
	return []table.Row{
		{ID: "pg-intake.insert", AtLeast: 2, Digits: 2,
			Title: "PostgreSQL, intake, 256 connections: once / best INSERT and COMMIT each"},
		{ID: "pg-intake.bare", Title: "  once / no store", AtLeast: .35, Digits: 2},
		{ID: "pg-intake.river", Title: "  once / river's unique insert", AtLeast: 6, Digits: 1},
		{ID: "pg-intake.flow-insert", AtLeast: 2, Digits: 2,
			Title: "  with the flow at work: once / best INSERT and COMMIT each"},
		{ID: "pg-intake.flow-bare", Title: "  with the flow at work: once / no store",
			AtLeast: .35, Digits: 2},
		{ID: "pg-intake.flow-river", Title: "  with the flow at work: once / river's unique insert",
			AtLeast: 6, Digits: 1},
		{ID: "pg-intake.rate", Title: "  once, stored and not yet worked, callbacks/s"},
		{ID: "pg-intake.flow-rate", Title: "  once, with the flow at work, callbacks/s"},
		{ID: "pg-intake.insert-rate", Title: "  best INSERT and COMMIT each, callbacks/s"},
		{ID: "pg-intake.river-rate", Title: "  river's unique insert, callbacks/s"},
		{ID: "pg-intake.bare-rate", Title: "  no store, requests/s"},
		{ID: "pg-end-to-end.river", AtLeast: 4, Digits: 1,
			Title: "PostgreSQL, end to end, a transition and an effect each / river, end to end"},
		{ID: "pg-end-to-end.robots-river", AtLeast: 4, Digits: 1,
			Title: "  the robot example / river, end to end"},
		{ID: "pg-end-to-end.rate", Title: "  once, a transition and an effect each, callbacks/s"},
		{ID: "pg-end-to-end.robots-rate", Title: "  once, the robot example, callbacks/s"},
		{ID: "pg-end-to-end.river-rate", Title: "  river, callbacks/s"},
		{ID: "pg-nodes.intake", Title: "PostgreSQL, intake: two nodes / one", AtLeast: .9, Digits: 2},
		{ID: "pg-nodes.worked", Title: "  accepted and worked to the end: two nodes / one",
			AtLeast: .9, Digits: 2},
		{ID: "pg-nodes.intake-two", Title: "  intake, two nodes, callbacks/s"},
		{ID: "pg-nodes.intake-one", Title: "  intake, one node, callbacks/s"},
		{ID: "pg-nodes.worked-two", Title: "  accepted and worked, two nodes, callbacks/s"},
		{ID: "pg-nodes.worked-one", Title: "  accepted and worked, one node, callbacks/s"},
		{ID: "pg-filled.intake", Title: "PostgreSQL, intake, 10,000,000 rows in the tables / none",
			AtLeast: .8, Digits: 2},
		{ID: "pg-filled.lease", Title: "  leases, 10,000,000 rows / none", AtLeast: .8, Digits: 2},
		{ID: "pg-filled.slowest", Title: "  a page of the API, 10,000,000 rows, slowest filter, ms",
			AtMost: 50, Digits: 1},
		{ID: "pg-filled.median", Title: "  median of all filters, ms", Digits: 1},
		{ID: "pg-filled.rate", Title: "  intake, 10,000,000 rows, callbacks/s"},
		{ID: "pg-filled.empty-rate", Title: "  intake, empty database, callbacks/s"},
		{ID: "pg-filled.lease-rate", Title: "  leases, 10,000,000 rows, rows/s"},
		{ID: "pg-filled.empty-lease-rate", Title: "  leases, empty database, rows/s"},
	}
}
