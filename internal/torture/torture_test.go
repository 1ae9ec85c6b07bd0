package torture_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once/internal/testserver"
)

// shortKills is twice each point.
const shortKills = 20

// number reads a whole number from the environment.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: want a whole number: %v", name, err)
	}
	return n
}

func TestI08_NothingAcknowledgedIsLostOrDoneTwiceWhenTheProcessIsKilled(t *testing.T) {
	kills := int(number(t, "ONCE_TORTURE_KILLS", shortKills))
	seed := number(t, "ONCE_SEED", rand.Uint64())
	t.Logf("ONCE_SEED=%d ONCE_TORTURE_KILLS=%d", seed, kills)
	r := newRig(t, seed)
	r.serve() // the senders need its address
	finish := r.load()
	sleep(t.Context(), time.Second) // something that a first sweep can find
	r.server.kill()
	r.kills["outside"]++

	begun := time.Now()
	var next []string
	for n := 1; n < kills || r.missed() && n < 3*kills; n++ {
		if len(next) == 0 {
			next = required()
			r.rng.Shuffle(len(next), func(i, k int) { next[i], next[k] = next[k], next[i] })
		}
		if r.rng.IntN(8) == 0 { // an end in order, in between
			r.serve()
			sleep(t.Context(), time.Duration(r.rng.IntN(500))*time.Millisecond)
			r.stop()
		}
		point := next[0]
		next = next[1:]
		if !r.kill(point) && point != "outside" {
			next = append(next, point)
		}
	}
	t.Logf("%d kills in %v: %v", r.killed(), time.Since(begun).Round(time.Second), r.kills)
	begun = time.Now()
	for _, point := range required() {
		if r.kills[point] == 0 {
			t.Errorf("no kill at point %s", point)
		}
	}
	r.serve()
	finish()
	r.control("calm")
	ended := time.Now()
	r.untilQuiet()
	t.Logf("quiet %v after the last kill, %v after the last answer",
		time.Since(begun).Round(time.Millisecond), time.Since(ended).Round(time.Millisecond))
	r.resolveHeld()
	r.untilQuiet()
	t.Logf("dead callbacks revived by a repeat: %d", r.revived)
	if !t.Failed() {
		r.askForTasks()
	}
	r.stop()
	r.check()
	compare(t, r)
}

// unfinished matches a kept counter of what is not worked yet.
var unfinished = regexp.MustCompile(`(?m)^once_(?:callbacks|effects)\{.*` +
	`state="(?:pending|running|sending|parked)".*\} (\S+)$`)

// untilQuiet waits until nothing waits any more, and sends again what is dead because its service
// did not answer in time: that has to wake it.
func (r *rig) untilQuiet() {
	r.t.Helper()
	deadline := time.Now().Add(endLimit)
	for {
		text := r.get("/metrics")
		var left []string
		for _, m := range unfinished.FindAllStringSubmatch(text, -1) {
			if m[1] != "0" {
				left = append(left, m[0])
			}
		}
		if revived := r.revive(); len(left) == 0 && revived == 0 {
			return
		}
		if time.Now().After(deadline) {
			r.t.Errorf("not quiet after %v:\n%s", endLimit, strings.Join(left, "\n"))
			return
		}
		sleep(r.t.Context(), 50*time.Millisecond)
	}
}

// revive repeats what is dead by transient failure and returns how many there were.
func (r *rig) revive() int {
	r.t.Helper()
	var page struct{ Items []struct{ Key []string } }
	list := r.get("/api/v1/callbacks?source=orders&state=dead&limit=100")
	if err := json.Unmarshal([]byte(list), &page); err != nil {
		r.t.Fatal(err)
	}
	dead := map[string]bool{}
	for _, item := range page.Items {
		dead["orders "+keyText(item.Key)] = true
	}
	s := r.sender(senders)
	for _, c := range r.book.callbacks() {
		if dead[c.id()] && s.post(r.t.Context(), c, false, 0) {
			r.revived++
		}
	}
	return len(dead)
}

// resolveHeld does what a person does about effects of which nobody knows whether they happened:
// they look.
func (r *rig) resolveHeld() {
	r.t.Helper()
	resolved := map[string]int{}
	for {
		var page struct{ Items []struct{ ID string } }
		list := r.get("/api/v1/effects?state=held&destination=siren&limit=100")
		if err := json.Unmarshal([]byte(list), &page); err != nil {
			r.t.Fatal(err)
		}
		if len(page.Items) == 0 {
			break
		}
		happened := map[string]bool{}
		for _, a := range readArrivals(r.t, r) {
			happened[a.key] = true
		}
		for _, held := range page.Items {
			action := "retry"
			if happened[held.ID] {
				action = "done"
			}
			r.post("/api/v1/effects/"+held.ID+"/"+action, `{"actor":"test","reason":"looked"}`)
			resolved[action]++
		}
	}
	r.t.Logf("held effects resolved: %v", resolved)
}

// askForTasks compares what the API finds of some tasks with what was sent: the index behind its
// filters has to survive kills too.
func (r *rig) askForTasks() {
	r.t.Helper()
	want := map[string]int{}
	for _, c := range r.book.callbacks() {
		if c.source == "rcs" {
			want[c.line]++
		}
	}
	asked := 0
	for task, n := range want {
		if asked++; asked > 50 {
			break
		}
		testserver.Until(r.t, 5*time.Second, "the API finds all callbacks of "+task, func() bool {
			list := r.get(fmt.Sprintf("/api/v1/callbacks?task=%s&limit=100", task))
			return strings.Count(list, `"received_at"`) == n
		})
	}
}
