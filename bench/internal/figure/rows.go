package figure

import (
	"slices"

	"github.com/oncekit/once/bench/internal/table"
)

// Rows are the lines of the table.
func Rows() []table.Row {
	return slices.Concat(callbackRows(), pgRows(), keyRows(), writeRows())
}

// callbackRows are the lines of callbacks, tasks and effects.
func callbackRows() []table.Row {
	return []table.Row{
		{ID: "intake-256.ratio", Title: "intake, 256 connections: once / no store", AtLeast: .5,
			Aim: .65, Digits: 2},
		{ID: "intake-256.stored", Title: "  the same, stored and not yet worked", AtLeast: .5,
			Aim: .65, Digits: 2},
		{ID: "intake-256.naive", Title: "  naive group commit / no store", Digits: 2},
		{ID: "intake-256.rate", Title: "  once, callbacks/s"},
		{ID: "intake-256.stored-rate", Title: "  once, stored and not yet worked, callbacks/s"},
		{ID: "intake-256.bare-rate", Title: "  no store, requests/s"},
		{ID: "intake-256.naive-rate", Title: "  naive group commit, callbacks/s"},
		{ID: "intake-256.load-cpu", Title: "  load generator, µs a request", Digits: 1},
		{ID: "intake-64.ratio", Title: "intake, 64 connections: once / no store", AtLeast: .38,
			Digits: 2},
		{ID: "intake-64.stored", Title: "  the same, stored and not yet worked", AtLeast: .38,
			Digits: 2},
		{ID: "intake-64.rate", Title: "  once, callbacks/s"},
		{ID: "intake-64.stored-rate", Title: "  once, stored and not yet worked, callbacks/s"},
		{ID: "intake-64.bare-rate", Title: "  no store, requests/s"},
		{ID: "duplicates.ratio", Title: "duplicates, 256 connections: once / no store",
			AtLeast: .75, Digits: 2},
		{ID: "duplicates.rate", Title: "  once, duplicates/s"},
		{ID: "end-to-end.intake", Title: "end to end / intake (same run)", AtLeast: .5, Digits: 2},
		{ID: "end-to-end.stored", Title: "  / intake, stored and not yet worked", AtLeast: .5,
			Digits: 2},
		{ID: "end-to-end.river", Title: "  / river, end to end", AtLeast: 10, Digits: 1},
		{ID: "end-to-end.rate", Title: "  once, callbacks/s"},
		{ID: "end-to-end.river-rate", Title: "  river, callbacks/s"},
		{ID: "end-to-end-dead.stored", Title: "end to end, destination down / intake, stored",
			AtLeast: .5, Digits: 2},
		{ID: "end-to-end-dead.rate", Title: "  once, callbacks/s"},
		{ID: "end-to-end-effects.stored", Title: "end to end, an effect each / intake, stored",
			AtLeast: .5, Digits: 2},
		{ID: "end-to-end-effects.rate", Title: "  once, callbacks/s"},
		{ID: "latency.ratio", Title: "p99 of the answer, 2000/s: 1,000,000 rows wait / none",
			AtMost: 1.5, Digits: 2},
		{ID: "latency.pending", Title: "  1,000,000 rows wait, destination down, ms", Digits: 2},
		{ID: "latency.empty", Title: "  empty store, ms", Digits: 2},
		{ID: "remembered.ratio", Title: "intake, 10,000,000 identities remembered / none",
			AtLeast: .75, Digits: 2},
		{ID: "remembered.memory", Title: "  memory without file pages, MB", AtMost: 150},
		{ID: "remembered.rate", Title: "  10,000,000 identities, callbacks/s"},
		{ID: "remembered.empty-rate", Title: "  empty store, callbacks/s"},
		{ID: "restart.ready", Title: "SIGKILL with 1,000,000 rows until ready, s", AtMost: 2,
			Digits: 2},
		{ID: "restart.accepted", Title: "  until a callback is accepted, s", AtMost: 2, Digits: 2},
		{ID: "parked.cpu", Title: "100,000 rows parked, idle: CPU, ms a second", Digits: 1},
		{ID: "parked.cpu-empty", Title: "  empty store, ms a second", Digits: 1},
		{ID: "parked.cpu-more", Title: "  what the parked rows cost, ms a second", AtMost: 2,
			Digits: 1},
		{ID: "parked.wake", Title: "a wake until its row is worked, slowest of 100, ms",
			AtMost: 50, Digits: 1},
		{ID: "parked.wake-median", Title: "  median, ms", Digits: 1},
		{ID: "pages.slowest", Title: "a page of the API, 10,000,000 rows, slowest filter, ms",
			AtMost: 50, Digits: 1},
		{ID: "pages.median", Title: "  median of all filters, ms", Digits: 1},
	}
}

// keyRows are the lines of idempotency keys.
func keyRows() []table.Row {
	return []table.Row{
		{ID: "middleware.first", Title: "middleware in memory: a first request adds / bare handler",
			AtMost: .7, Digits: 2},
		{ID: "middleware.first-allocs", Title: "  its allocations", AtMost: 22},
		{ID: "middleware.replay", Title: "  a replay in all / bare handler", AtMost: .5, Digits: 2},
		{ID: "middleware.replay-allocs", Title: "  its allocations", AtMost: 16},
		{ID: "middleware.no-key", Title: "  a request without a key adds / bare handler",
			AtMost: .03, Digits: 3},
		{ID: "middleware.no-key-allocs", Title: "  its allocations", AtMost: 1},
		{ID: "middleware.textbook-first", Title: "  textbook middleware: a first request adds",
			Digits: 2},
		{ID: "middleware.textbook-replay", Title: "  textbook middleware: a replay in all",
			Digits: 2},
		{ID: "middleware.bare", Title: "  bare handler, µs", Digits: 2},
		{ID: "middleware.bare-allocs", Title: "  bare handler, allocations"},
		{ID: "gateway-sqlite.first", Title: "gateway, SQLite: first requests / no key",
			AtLeast: .4, Digits: 2},
		{ID: "gateway-sqlite.replay", Title: "  replays / no key", AtLeast: .8, Digits: 2},
		{ID: "gateway-sqlite.proxy", Title: "  no key / the standard library's proxy", Digits: 2},
		{ID: "gateway-sqlite.first-rate", Title: "  first requests/s"},
		{ID: "gateway-sqlite.replay-rate", Title: "  replays/s"},
		{ID: "gateway-sqlite.rate", Title: "  no key, requests/s"},
		{ID: "gateway-sqlite.proxy-rate", Title: "  the standard library's proxy, requests/s"},
		{ID: "gateway-sqlite.first-cpu", Title: "  first requests, µs of CPU", Digits: 1},
		{ID: "gateway-sqlite.replay-cpu", Title: "  replays, µs of CPU", Digits: 1},
		{ID: "gateway-sqlite.cpu", Title: "  no key, µs of CPU", Digits: 1},
		{ID: "gateway-sqlite.load-cpu", Title: "  load generator, µs a request", Digits: 1},
		{ID: "gateway-redis.first", Title: "gateway, Redis, flushed each second: first / no key",
			AtLeast: .4, Digits: 2},
		{ID: "gateway-redis.replay", Title: "  replays / no key", AtLeast: .6, Digits: 2},
		{ID: "gateway-redis.first-rate", Title: "  first requests/s"},
		{ID: "gateway-redis.replay-rate", Title: "  replays/s"},
		{ID: "gateway-redis.rate", Title: "  no key, requests/s"},
		{ID: "gateway-redis.first-cpu", Title: "  first requests, µs of CPU", Digits: 1},
		{ID: "gateway-redis.replay-cpu", Title: "  replays, µs of CPU", Digits: 1},
		{ID: "gateway-redis.cpu", Title: "  no key, µs of CPU", Digits: 1},
		{ID: "gateway-redis.always-first", Title: "gateway, Redis, always flushed: first / no key",
			AtLeast: .4, Digits: 2},
		{ID: "gateway-redis.always-replay", Title: "  replays / no key", AtLeast: .6, Digits: 2},
		{ID: "gateway-redis.always-first-rate", Title: "  first requests/s"},
		{ID: "gateway-redis.always-replay-rate", Title: "  replays/s"},
		{ID: "gateway-redis.always-rate", Title: "  no key, requests/s"},
		{ID: "gateway-redis.always-first-cpu", Title: "  first requests, µs of CPU", Digits: 1},
		{ID: "gateway-redis.always-replay-cpu", Title: "  replays, µs of CPU", Digits: 1},
		{ID: "gateway-redis.always-cpu", Title: "  no key, µs of CPU", Digits: 1},
		{ID: "gateway-large.upload", Title: "gateway, 1 GiB uploaded: memory grows by, MB",
			AtMost: 32, Digits: 1},
		{ID: "gateway-large.answer", Title: "  1 GiB answered", AtMost: 32, Digits: 1},
		{ID: "gateway-large.keyed-upload", Title: "  1 GiB uploaded with a key", AtMost: 32,
			Digits: 1},
		{ID: "gateway-large.keyed-answer", Title: "  1 GiB answered to a key", AtMost: 32,
			Digits: 1},
		{ID: "records.sqlite", Title: "a claim among 10,000,000 records / 10,000, SQLite",
			AtMost: 1.3, Digits: 2},
		{ID: "records.sqlite-rate", Title: "  among 10,000,000, claims/s"},
		{ID: "records.sqlite-few-rate", Title: "  among 10,000, claims/s"},
		{ID: "records.sqlite-cpu", Title: "  among 10,000,000, µs of CPU a claim", Digits: 1},
		{ID: "records.sqlite-few-cpu", Title: "  among 10,000, µs of CPU a claim", Digits: 1},
		{ID: "records.redis", Title: "a claim among 10,000,000 records / 10,000, Redis",
			AtMost: 1.3, Digits: 2},
		{ID: "records.redis-rate", Title: "  among 10,000,000, claims/s"},
		{ID: "records.redis-few-rate", Title: "  among 10,000, claims/s"},
		{ID: "records.redis-cpu", Title: "  among 10,000,000, µs of CPU a claim", Digits: 1},
		{ID: "records.redis-few-cpu", Title: "  among 10,000, µs of CPU a claim", Digits: 1},
	}
}

// writeRows are the lines of idempotent writes.
func writeRows() []table.Row {
	var rows []table.Row
	for _, db := range []struct {
		id, name string
		batch    float64
	}{{"sqlite", "SQLite", 0}, {"pg", "PostgreSQL", 10}} {
		rows = append(rows,
			table.Row{ID: "writes." + db.id + "-upsert", AtMost: 1.3, Digits: 2,
				Title: db.name + ": Upsert / bare upsert, latency"},
			table.Row{ID: "writes." + db.id + "-upsert-us", Title: "  Upsert, µs"},
			table.Row{ID: "writes." + db.id + "-increment", AtMost: 1.3, Digits: 2,
				Title: db.name + ": Increment / bare increment, latency"},
			table.Row{ID: "writes." + db.id + "-increment-us", Title: "  Increment, µs"},
			table.Row{ID: "writes." + db.id + "-repeat-us", Title: "  a repeat, µs"},
			table.Row{ID: "writes." + db.id + "-batch", AtLeast: db.batch, Digits: 1,
				Title: db.name + ": a batch of 100 / 100 single calls, rate"},
			table.Row{ID: "writes." + db.id + "-batch-rate", Title: "  in batches, events/s"},
			table.Row{ID: "writes." + db.id + "-wrong", Digits: 0, AtMost: .5,
				Title: "  events lost or counted twice over cuts or kills"},
		)
	}
	return rows
}
