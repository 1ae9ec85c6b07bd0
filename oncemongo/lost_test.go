package oncemongo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/testserver/mongotest"
	"github.com/oncekit/once/queue"
)

// count moves the task of a callback on by one.
func count(v queue.View, r queue.Row) (queue.Settlement, error) {
	task, err := v.Task(crashFlow, r.Task)
	if err != nil {
		return queue.Settlement{}, err
	}
	from := task.State
	task.State, task.Retention = "counting", time.Hour
	return queue.Settlement{State: queue.Done,
		Tasks: []queue.TaskChange{{Task: task, From: from, Event: r.Event}}}, nil
}

// B06, B07: connections are cut at any moment, before a command, after it, and between its effect
// and its answer. Whoever got no answer asks again. Each message is there once, and each moved its
// task once.
func TestB06B07CutConnectionsLoseNothingAndDoubleNothing(t *testing.T) {
	server := mongotest.Ferret(t) // a replica set's members have addresses of their own
	facts := factsOf(t, server)
	direct := server.Database(t)
	host := strings.TrimPrefix(strings.SplitN(server.URI, "/?", 2)[0], "mongodb://")
	proxy := testserver.NewProxy(t, host)
	client := mongotest.Connect(t, testserver.MongoURI(proxy.Addr()))
	s := openIn(t, client.Database(direct.Name()), Config{facts: &facts})
	const senders, each, taskCount = 4, 10, 3
	r := rand.New(rand.NewPCG(7, 7))
	stop := make(chan struct{})
	var cutting, wg sync.WaitGroup
	cutting.Go(func() {
		for {
			select {
			case <-stop:
				proxy.Restore()
				return
			default:
			}
			proxy.CutAfter(int64(500 + r.IntN(60_000)))
			before := proxy.Forwarded()
			for range 50 { // until something went through, or nobody asks
				select {
				case <-stop:
				case <-time.After(time.Millisecond):
				}
				if proxy.Forwarded() != before {
					break
				}
			}
		}
	})
	for n := range senders {
		wg.Go(func() {
			for i := range each {
				a := crashArrival(fmt.Sprintf("%d/%d", n, i))
				a.Task = fmt.Sprint("T", i%taskCount)
				a.OrderKey = "task/" + a.Task
				insist(t, func(ctx context.Context) error {
					_, err := s.Append(ctx, []queue.Arrival{a})
					return err
				})
			}
		})
	}
	wg.Wait()
	insist(t, func(ctx context.Context) error {
		for {
			got, err := s.Step(ctx, queue.StepRequest{Lane: crashLane, Max: 5, Decide: count})
			if err != nil || !got.More {
				return err
			}
		}
	})
	close(stop)
	cutting.Wait()
	page, err := s.Rows(t.Context(), queue.RowQuery{Kind: queue.Callback, Limit: 1000})
	if err != nil || len(page.Rows) != senders*each {
		t.Fatalf("%d rows, %v; want %d", len(page.Rows), err, senders*each)
	}
	for _, row := range page.Rows {
		if row.State != queue.Done {
			t.Errorf("callback %v is %s", row.Key, row.State)
		}
	}
	moves := int64(0)
	for i := range taskCount {
		task, lines, err := s.Task(t.Context(), crashFlow, fmt.Sprint("T", i))
		if err != nil || int64(len(lines)) != task.Version {
			t.Errorf("task %d: version %d with %d lines, %v", i, task.Version, len(lines), err)
		}
		moves += task.Version
	}
	if moves != senders*each {
		t.Errorf("the tasks were moved %d times, want %d", moves, senders*each)
	}
}

// insist asks until the store answers.
func insist(t *testing.T, fn func(context.Context) error) {
	for limit := time.Now().Add(patience); ; {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err := fn(ctx)
		cancel()
		if err == nil {
			return
		}
		if !errors.Is(err, once.ErrUnavailable) || time.Now().After(limit) {
			t.Errorf("the store said %v", err)
			return
		}
	}
}

// B13: what can't be stored is refused with a typed error, and what can is kept byte for byte, as
// text where it is text.
func TestB13WhatIsTooLargeIsRefusedAndTextIsReadable(t *testing.T) {
	mongotest.Each(t, func(t *testing.T, server mongotest.Server) {
		facts := factsOf(t, server)
		s := openIn(t, server.Database(t), Config{facts: &facts})
		large := crashArrival("large")
		large.Body = bytes.Repeat([]byte("x"), maxRowBytes+1)
		_, err := s.Append(t.Context(), []queue.Arrival{large})
		if !errors.Is(err, once.ErrTooLarge) {
			t.Errorf("a body of 12 MiB and a byte: %v", err)
		}
		var many []queue.Arrival
		for i := range 4 {
			a := crashArrival(fmt.Sprint("many", i))
			a.Body = bytes.Repeat([]byte("y"), 5<<20)
			many = append(many, a)
		}
		if _, err := s.Append(t.Context(), many); !errors.Is(err, once.ErrTooLarge) {
			t.Errorf("20 MiB in one call: %v", err)
		}
		bodies := map[string][]byte{"text": []byte(`{"reqCode":"ü"}`), "bytes": {0xff, 0, 1},
			"nul": []byte("a\x00b"), "none": nil, "empty": {}}
		for name, body := range bodies {
			a := crashArrival(name)
			a.Body = body
			if _, err := s.Append(t.Context(), []queue.Arrival{a}); err != nil {
				t.Fatal(err)
			}
			d, err := s.Row(t.Context(), queue.Callback, a.Identity.ID())
			if err != nil || !bytes.Equal(d.Row.Body, body) {
				t.Errorf("%s: %q, %v", name, d.Row.Body, err)
			}
		}
		found, err := s.find(t.Context(), callbacks, bson.D{{Key: "event", Value: "text"}}, nil, 1,
			nil)
		if err != nil || len(found) != 1 {
			t.Fatalf("%d documents, %v", len(found), err)
		}
		if text, _ := found[0].Lookup("body").StringValueOK(); text != string(bodies["text"]) {
			t.Errorf("the document's body is %v", found[0].Lookup("body"))
		}
		if n, err := s.Counts(t.Context()); err != nil || len(n.Rows) != 1 {
			t.Errorf("counts %+v, %v", n, err)
		}
	})
}

// Every filter of a page, alone and with another one, finds what matches, latest first.
func TestPagesOfRowsFindWhatMatches(t *testing.T) {
	mongotest.Each(t, func(t *testing.T, server mongotest.Server) {
		facts := factsOf(t, server)
		s := openIn(t, server.Database(t), Config{facts: &facts})
		var all []queue.Arrival
		for i := range 12 {
			a := crashArrival(fmt.Sprint("event", i%3))
			a.Identity = once.DeriveIdentity(once.Identity{9}, "page", i)
			a.Source, a.Task, a.Key = fmt.Sprint("s", i%2), fmt.Sprint("T", i%4),
				[]string{fmt.Sprint(i), "all"}
			if a.OrderKey = ""; i%6 == 5 {
				a.State = queue.Unrouted
			}
			all = append(all, a)
		}
		if _, err := s.Append(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		for _, q := range []struct {
			queue.RowQuery
			want string
		}{
			{queue.RowQuery{}, "11 10 9 8 7 6 5 4 3 2 1 0"},
			{queue.RowQuery{Source: "s1"}, "11 9 7 5 3 1"},
			{queue.RowQuery{Event: "event2"}, "11 8 5 2"},
			{queue.RowQuery{Task: "T3"}, "11 7 3"},
			{queue.RowQuery{Key: "7"}, "7"},
			{queue.RowQuery{Key: "all", State: queue.Unrouted}, "11 5"},
			{queue.RowQuery{Source: "s1", Event: "event2"}, "11 5"},
			{queue.RowQuery{Source: "none"}, ""},
			{queue.RowQuery{Kind: queue.Effect}, ""},
		} {
			if q.Kind == 0 {
				q.Kind = queue.Callback
			}
			var got []string
			for q.Limit = 2; ; {
				page, err := s.Rows(t.Context(), q.RowQuery)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range page.Rows {
					got = append(got, r.Key[0])
				}
				if q.Cursor = page.Next; q.Cursor == "" {
					break
				}
			}
			if strings.Join(got, " ") != q.want {
				t.Errorf("%+v: %v, want %s", q.RowQuery, got, q.want)
			}
		}
	})
}
