package oncepg

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/oncekit/once/internal/testserver/postgres"
	"github.com/oncekit/once/queue"
)

func TestZZProf(t *testing.T) {
	if os.Getenv("ZZ") == "" {
		t.Skip()
	}
	server, err := postgres.Start(postgres.Config{Durable: true, Lines: []string{"shared_buffers = 256MB", "shared_preload_libraries = 'pg_stat_statements'", "pg_stat_statements.track_planning=on"}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	p := openPool(t, server.URL("postgres"), 10)
	if _, err := p.Exec(t.Context(), "CREATE EXTENSION pg_stat_statements"); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, p, StoreConfig{})
	const n = 10000
	show := func(what string, took time.Duration) {
		fmt.Printf("== %s %v, %.0f rows/s\n", what, took, n/took.Seconds())
		rows, _ := p.Query(t.Context(), "SELECT calls, round(total_exec_time), round(total_plan_time), rows, left(regexp_replace(query, '\\s+', ' ', 'g'), 90) FROM pg_stat_statements ORDER BY total_exec_time + total_plan_time DESC LIMIT 9")
		for rows.Next() {
			var c, r int64
			var e, pl float64
			var q string
			if err := rows.Scan(&c, &e, &pl, &r, &q); err != nil {
				t.Fatal(err)
			}
			fmt.Println(c, e, pl, r, q)
		}
		rows.Close()
		p.Exec(t.Context(), "SELECT pg_stat_statements_reset()")
	}
	p.Exec(t.Context(), "SELECT pg_stat_statements_reset()")
	begin := time.Now()
	for i := int64(0); i < n; {
		var list []queue.Arrival
		for ; len(list) < 64; i++ {
			list = append(list, benchArrival(i))
		}
		if _, err := s.Append(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	show("append", time.Since(begin))
	begin = time.Now()
	for done := 0; done < n; {
		got, err := s.Step(context.Background(), queue.StepRequest{Lane: testLane, Max: 256, Decide: countTask})
		if err != nil {
			t.Fatal(err)
		}
		done += got.Rows
	}
	show("step", time.Since(begin))
	begin = time.Now()
	for done := 0; done < n; {
		got, err := s.Lease(context.Background(), queue.LeaseRequest{Lane: "effect/plc", Max: 64, For: patience})
		if err != nil {
			t.Fatal(err)
		}
		var sets []queue.Settlement
		for _, r := range got.Rows {
			sets = append(sets, queue.Settlement{Grant: r.Grant(), State: queue.Done})
		}
		s.Settle(context.Background(), sets)
		done += len(sets)
	}
	show("lease settle", time.Since(begin))
}
