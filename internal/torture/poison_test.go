package torture_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestD03_ACallbackThatKillsItsProcessBecomesADeadLetterAndHarmsNoOther(t *testing.T) {
	r := newRig(t, number(t, "ONCE_SEED", rand.Uint64()))
	r.serve()
	s := r.sender(0)
	var poison *callback
	for i := range 30 {
		event := "read"
		if i == 10 {
			event = "poison"
		}
		c := plainCallback("meters", event, fmt.Sprintf("c%d", i), "meter",
			fmt.Sprintf("M%d", i), 1)
		c.group = i
		r.book.add(c)
		if i == 10 {
			poison = c
			continue
		}
		s.deliver(t.Context(), c, 1, 0)
	}
	for told := false; !told; { // the process may end before it answers: then it comes again
		if told = s.post(t.Context(), poison, false, 0); !told {
			if _, _, err := r.server.await(reachLimit, "killed"); err != nil {
				t.Fatal(err)
			}
			r.server.drain()
			r.serve()
		}
	}
	// Each life loses one attempt; the fifth is the last.
	const maxLives = 12
	for lives := 0; ; lives++ {
		if _, _, err := r.server.await(2*time.Second, "killed"); err != nil {
			break
		}
		r.server.drain()
		if lives == maxLives {
			t.Fatalf("it kills the process for the %dth time", lives)
		}
		r.serve()
	}
	r.untilQuiet()
	r.stop()
	db := openStore(t, r)
	for _, w := range readRows(t, db) {
		switch {
		case w.event == "read" && w.state != "done":
			t.Errorf("%s is %s: %s", w.key, w.state, w.problem)
		case w.event == "poison" && (w.state != "dead" || w.deadCause != "poison" ||
			!strings.Contains(w.problem, "worker lost 5 times")):
			t.Errorf("the poison is %s (%s): %s", w.state, w.deadCause, w.problem)
		}
	}
	count := map[string]int{}
	query(t, db, "SELECT id, count(*) FROM readings GROUP BY 1", func(scan func(...any)) {
		var id string
		var n int
		scan(&id, &n)
		count[id] = n
	})
	for i := range 30 {
		want := 1
		if i == 10 {
			want = 0
		}
		if id := fmt.Sprintf("c%d", i); count[id] != want {
			t.Errorf("%s was counted %d times, want %d", id, count[id], want)
		}
	}
}
