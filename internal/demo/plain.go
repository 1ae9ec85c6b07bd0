package demo

import (
	"fmt"
	"sync"
	"time"
)

// plain writes lines: what happens, and now and then how far it is.
type plain struct {
	p     *rehearsal
	mu    sync.Mutex // a line at a time
	stop  chan struct{}
	done  chan struct{}
	once  sync.Once
	begun bool
}

func newPlain(p *rehearsal) *plain {
	return &plain{p: p, stop: make(chan struct{}), done: make(chan struct{})}
}

func (s *plain) line(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	write(s.p.cfg.Out, fmt.Sprintf("%8s  ", seconds(time.Since(s.p.start)))+
		fmt.Sprintf(format, args...)+"\n")
}

func (s *plain) happens(text string) { s.line("%s", text) }

func (s *plain) begin() {
	s.begun = true
	c := &s.p.cfg
	write(c.Out, fmt.Sprintf("once demo: %s, %v, %s a second, seed %d\n",
		plural(c.Robots, "robot"), c.Duration, plural(c.Rate, "request"), c.Seed))
	go s.run()
}

func (s *plain) end() {
	s.once.Do(func() {
		if s.begun {
			close(s.stop)
			<-s.done
		}
	})
}

// The time between two lines.
const (
	leastLine = time.Second
	mostLine  = 10 * time.Second
)

func (s *plain) run() {
	defer close(s.done)
	tick := time.NewTicker(min(max(s.p.cfg.Duration/10, leastLine), mostLine))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.stop:
			return
		}
		c := s.p.counts()
		s.line("sent %s, accepted %s, duplicates %s, conflicts %s, no answer %s; effects %s, "+
			"again %s", number(c.sent), number(c.accepted), number(c.duplicates),
			number(c.conflicts), number(c.unanswered), number(c.arrived), number(c.again))
	}
}
