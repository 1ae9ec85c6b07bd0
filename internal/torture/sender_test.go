package torture_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// sender is one of many that post callbacks, all over again until an answer comes.
type sender struct {
	n      int
	rng    *rand.Rand
	book   *book
	client *http.Client
	server *atomic.Pointer[string] // its address changes with each life
	fail   func(error)
	told   func() // is called at each answer
	stamp  int64
}

const (
	// resendAfter is the wait before a callback is sent again that was not answered.
	resendAfter = 25 * time.Millisecond
	// answerLimit is how long a sender waits for an answer.
	answerLimit = 10 * time.Second
)

// run sends scripts until no more are wanted; what was begun is sent to its end. It ends early with
// ctx alone.
func (s *sender) run(ctx context.Context, enough <-chan struct{}) {
	for round := 0; ctx.Err() == nil; round++ {
		select {
		case <-enough:
			return
		default:
		}
		if s.rng.IntN(10) < 7 {
			s.send(ctx, taskScript(s.rng, fmt.Sprintf("TASK-%d-%d", s.n, round)))
		} else {
			s.send(ctx, plainScript(s.rng, s.n, round))
		}
	}
}

func (s *sender) send(ctx context.Context, script [][]*callback) {
	for _, group := range script {
		var wg sync.WaitGroup
		for _, c := range group {
			s.book.add(c)
			copies := 1
			if s.rng.IntN(4) == 0 {
				copies += 1 + s.rng.IntN(4)
			}
			s.stamp++
			stamp := s.stamp
			wg.Go(func() { s.deliver(ctx, c, copies, stamp) })
		}
		wg.Wait()
		s.disturb(ctx, group)
		sleep(ctx, time.Duration(s.rng.IntN(20))*time.Millisecond)
	}
}

// deliver sends copies of a callback at the same moment, again and again until one is answered.
func (s *sender) deliver(ctx context.Context, c *callback, copies int, stamp int64) {
	for told := false; !told && ctx.Err() == nil; {
		var wg sync.WaitGroup
		var answers atomic.Int64
		for i := range copies {
			wg.Go(func() {
				if s.post(ctx, c, false, stamp+int64(i)) {
					answers.Add(1)
				}
			})
		}
		wg.Wait()
		if told = answers.Load() > 0; told {
			s.book.acknowledged(c)
		} else {
			sleep(ctx, resendAfter)
		}
	}
}

// disturb sends late repeats, and other content under an old key. Nobody cares for the answer.
func (s *sender) disturb(ctx context.Context, group []*callback) {
	if s.rng.IntN(12) == 0 {
		if c := s.book.earlier(s.rng.IntN); c != nil {
			s.post(ctx, c, false, 0)
		}
	}
	if c := group[0]; s.rng.IntN(25) == 0 && c.source == "rcs" {
		s.post(ctx, c, true, 0)
	}
}

// post sends a callback once and reports whether it was acknowledged.
func (s *sender) post(ctx context.Context, c *callback, changed bool, stamp int64) bool {
	sent, told := &c.sends, &c.acks
	if changed {
		sent, told = &c.conflicts, &c.told
	}
	c.mu.Lock()
	*sent++
	c.mu.Unlock()
	url := "http://" + *s.server.Load() + "/in/" + c.source
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url,
		bytes.NewReader(c.body(changed, stamp)))
	if err != nil {
		s.fail(err)
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		return false // no answer: the server is gone, or it went while it worked
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	_ = res.Body.Close()
	switch {
	case err != nil, res.StatusCode == http.StatusServiceUnavailable:
		return false
	case res.StatusCode < 200 || res.StatusCode > 299:
		s.fail(fmt.Errorf("%s was answered %d: %s", c.id(), res.StatusCode, text))
		return false
	}
	c.mu.Lock()
	*told++
	c.mu.Unlock()
	s.told()
	return true
}

// sleep is a sender's pace; it ends early with ctx.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
