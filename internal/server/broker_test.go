package server_test

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once/internal/testserver"
)

// resource returns the owner of a resource and its fence.
func (s *service) resource(name string) (owner string, fence int64) {
	s.t.Helper()
	var page struct {
		Items []struct {
			Name  string
			Fence int64
			Owner *struct{ Task string }
		}
	}
	s.get("/api/v1/resources?kind=roadway", &page)
	for _, r := range page.Items {
		if r.Name == name && r.Owner != nil {
			return r.Owner.Task, r.Fence
		}
		if r.Name == name {
			return "", r.Fence
		}
	}
	return "", 0
}

func TestARoadwayIsFreeOnlyWhenItsUnlockIsAcknowledged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		disturb func(*testserver.Proxy)
		arrives bool // the unlock reaches the broker, and nobody hears of it
	}{
		{"the broker is down", (*testserver.Proxy).Refuse, false},
		{"the acknowledgement is lost", (*testserver.Proxy).Hold, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t)
			proxy := testserver.NewProxy(t, p.broker.Addr())
			s := serve(t, t.TempDir(), p.config(t, proxy.Addr(), quick()...))
			connected(s, "plant")
			s.post(200, "rcs", event("A1", "A", "startFE", roadway("7")))
			s.awaitTask("A", "running")

			c.disturb(proxy)
			s.post(200, "rcs", event("A2", "A", "finishFE", ""))
			s.awaitTask("A", "unloaded")
			s.post(200, "rcs", event("B1", "B", "startFE", roadway("7")))
			s.post(200, "rcs", event("B2", "B", "finishFE", "")) // what follows waits behind it
			if c.arrives {
				p.heard.await(1)
			}
			s.awaitCallback("key=B1", "parked")
			s.awaitCallback("key=B2", "parked")
			if owner, fence := s.resource("7"); owner != "A" || fence != 1 {
				t.Errorf("roadway 7 is %s's with fence %d, want A's with 1", owner, fence)
			}

			proxy.Restore()
			s.awaitTask("B", "unloaded")
			s.awaitEffects("state=done&destination=plant", 2)
			s.checkUnlocks(p.heard.awaitIDs(2)) // the broker answers us before it hands out
		})
	}
}

// checkUnlocks checks that roadway 7 was unlocked for A, then for B, and that B had it only after
// A's unlock was acknowledged.
func (s *service) checkUnlocks(heard []heardMessage) {
	s.t.Helper()
	ids := map[string]string{}
	for i, m := range heard {
		if m.topic != "roadway/7/unlock" {
			s.t.Errorf("a message on %s", m.topic)
		}
		ids[m.key] = m.fence
		if i > 0 && m.fence < heard[i-1].fence {
			s.t.Errorf("an unlock with fence %s came after one with %s", m.fence, heard[i-1].fence)
		}
	}
	first := s.listEffects("destination=plant&task=A")[0]
	if len(ids) != 2 || ids[first.ID] != "1" {
		s.t.Errorf("unlocks by id and fence: %v, want A's with fence 1, B's with 2", ids)
	}
	var acknowledged struct {
		FinishedAt time.Time `json:"finished_at"`
	}
	s.get("/api/v1/effects/"+first.ID, &acknowledged)
	b, _ := s.task("B")
	if at := b.History[0].At; at.Before(acknowledged.FinishedAt) {
		s.t.Errorf("B had the roadway at %v, A's unlock was acknowledged at %v", at,
			acknowledged.FinishedAt)
	}
}

// connected waits until a destination has its broker.
func connected(s *service, destination string) {
	s.t.Helper()
	testserver.Until(s.t, patience, destination+" is connected", func() bool {
		return strings.Contains(s.log.String(), `"connected to broker" destination=`+destination)
	})
}

func TestALateFinishOfAFreesNothingThatBHolds(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	s := serve(t, t.TempDir(), p.config(t, p.broker.Addr()))
	s.post(200, "rcs", event("A1", "A", "startFE", roadway("7")))
	s.post(200, "rcs", event("A2", "A", "finishFE", ""))
	s.post(200, "rcs", event("B1", "B", "startFE", roadway("7")))
	s.awaitTask("B", "running")
	s.post(200, "rcs", event("A3", "A", "finish", "")) // releases all that A has
	s.post(200, "rcs", event("A2", "A", "finishFE", ""))
	s.awaitTask("A", "finished")
	if owner, fence := s.resource("7"); owner != "B" || fence != 2 {
		t.Errorf("roadway 7 is %s's with fence %d, want B's with 2", owner, fence)
	}
	s.awaitEffects("state=done", 2)
	if heard := p.heard.messages(); len(heard) != 1 || heard[0].fence != "1" {
		t.Errorf("heard %v, want one unlock with fence 1", heard)
	}
}

func TestQ01_EffectsSurviveACutInMidPublishAndABrokerThatIsKilled(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	proxy := testserver.NewProxy(t, p.broker.Addr())
	s := serve(t, t.TempDir(), p.config(t, proxy.Addr(), quick()...))
	s.post(200, "rcs", event("R", "first", "startFE", roadway("first")))
	s.post(200, "rcs", event("R", "first", "cancel", ""))
	p.heard.await(1)

	const tasks = 40
	if n := proxy.Accepted(); n != 1 {
		t.Fatalf("%d connections before anything was cut", n)
	}
	proxy.CutAfter(900) // in one of the first messages
	cancelled := func(from, to int) {
		for i := from; i < to; i++ {
			id := strconv.Itoa(i)
			s.post(200, "rcs", event("R", id, "startFE", roadway(id)))
			s.post(200, "rcs", event("R", id, "cancel", ""))
		}
	}
	cancelled(0, tasks/2)
	// The broker lives, so that nothing but the cut can have ended the first connection.
	testserver.Until(t, patience, "the cut was made and the broker is reached again", func() bool {
		return proxy.Accepted() == 2
	})
	p.broker.Kill()
	cancelled(tasks/2, tasks)
	p.broker.Start()
	again := subscribe(t, p.broker.Addr())
	done := s.awaitEffects("state=done&destination=plant", tasks+1)
	heard := map[string]bool{}
	for _, m := range append(p.heard.messages(), again.messages()...) {
		heard[m.key] = true
	}
	for _, e := range done {
		if !heard[e.ID] {
			t.Errorf("effect %s of %s is done and was never heard", e.ID, e.Task)
		}
	}
	if len(heard) != tasks+1 {
		t.Errorf("%d ids were heard, want %d", len(heard), tasks+1)
	}
	if proxy.Accepted() < 3 {
		t.Error("the broker that was started again was never connected to")
	}
}

func TestD13_ADestinationThatNeverAnswersIsAskedAgainWithTheSameIdAndDelaysNoOther(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.wms.Otherwise(testserver.Answer{Hang: true})
	s := serve(t, t.TempDir(), p.config(t, p.broker.Addr(), quick()...),
		withTimeout("wms", "300ms"))
	s.post(200, "rcs", event("R1", "T1", "startFE", roadway("1")))
	s.post(200, "rcs", event("R2", "T1", "finishFE", ""))
	p.wms.Await(t, 1, patience)
	for i := range 20 { // while the warehouse hangs, the plant goes on
		id := "other" + strconv.Itoa(i)
		s.post(200, "rcs", event("R1", id, "startFE", roadway(id)))
		s.post(200, "rcs", event("R2", id, "cancel", ""))
	}
	p.heard.await(21)
	if e := s.listEffects("destination=wms&task=T1"); e[0].State == "done" {
		t.Error("an effect is done that was never answered")
	}
	got := p.wms.Await(t, 3, patience)
	for _, r := range got {
		if r.Header.Get("Idempotency-Key") != got[0].Header.Get("Idempotency-Key") ||
			string(r.Body) != string(got[0].Body) {
			t.Errorf("a try sent %v %s, the first one %v %s", r.Header, r.Body, got[0].Header,
				got[0].Body)
		}
	}
	p.wms.Otherwise(testserver.Answer{})
	s.awaitEffects("state=done&destination=wms&task=T1", 1)
}

// deadAddress is a loopback address on which nobody listens.
func deadAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestD05_EffectsOfATaskArriveInOrderAlthoughTheFirstIsRetried(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.wms.Script(testserver.Answer{Status: 503}, testserver.Answer{Drop: true},
		testserver.Answer{Status: 429})
	s := serve(t, t.TempDir(), p.config(t, p.broker.Addr(), append(quick(),
		"to: running\n", "to: running\n"+
			"        effects: [{name: started, to: wms, payload: {state: started}}]\n",
	)...))
	s.post(200, "rcs", event("R1", "T1", "startFE", ""))
	s.post(200, "rcs", event("R2", "T1", "finishFE", ""))
	s.awaitEffects("state=done&destination=wms", 2)
	var states []string
	for _, r := range p.wms.Requests() {
		states = append(states, jsonMember(t, r.Body, "state"))
	}
	if got := fmt.Sprint(states); got != "[started started started started unloaded]" {
		t.Errorf("the warehouse heard %s, want started four times, then unloaded", got)
	}
}

func TestD12_ARefusalPausesTheDestinationAndNothingIsLost(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.wms.Otherwise(testserver.Answer{Status: 401})
	s := serve(t, t.TempDir(), p.config(t, p.broker.Addr(), quick()...),
		withProbe("wms", "100ms"))
	for i := range 10 {
		id := strconv.Itoa(i)
		s.post(200, "rcs", event("R1", id, "startFE", ""))
		s.post(200, "rcs", event("R2", id, "finishFE", ""))
	}
	testserver.Until(t, patience, "the destination is paused", func() bool {
		return s.metric(`once_destination_paused{destination="wms"}`) == "1"
	})
	s.awaitEffects("state=pending&destination=wms", 10)
	before := len(p.wms.Requests())
	p.wms.Await(t, before+1, patience) // one is tried now and then
	p.wms.Otherwise(testserver.Answer{})
	for _, e := range s.awaitEffects("state=done&destination=wms", 10) {
		if e.Attempt != 1 {
			t.Errorf("effect of %s: %d attempts, want 1: a refusal of us is none", e.Task,
				e.Attempt)
		}
	}
	if m := s.metric(`once_destination_paused{destination="wms"}`); m != "0" {
		t.Error("the destination is still shown as paused")
	}
}
