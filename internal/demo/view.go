package demo

import (
	"fmt"
	"sync"
	"time"
)

// show is how a run is shown while it goes on.
type show interface {
	// begin starts to show; happens tells one thing; end stops, and does nothing the second time.
	begin()
	happens(text string)
	end()
}

func newShow(p *rehearsal) show {
	if p.cfg.Live {
		return newLive(p)
	}
	return newPlain(p)
}

// happening is one thing that happened.
type happening struct {
	at   time.Duration
	text string
}

// maxHappenings bounds what is remembered of them to be shown.
const maxHappenings = 100

// diary remembers the last happenings. Safe for concurrent use.
type diary struct {
	mu   sync.Mutex
	list []happening
}

func (d *diary) add(h happening) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, h)
	if len(d.list) > maxHappenings {
		d.list = d.list[1:]
	}
}

func (d *diary) last() []happening {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]happening(nil), d.list...)
}

// counts are the numbers that grow.
type counts struct {
	sent, accepted, duplicates, late, conflicts, unanswered int64
	arrived, again                                          int64
}

func (p *rehearsal) counts() counts {
	return counts{
		sent: p.book.sent.Load(), accepted: p.book.accepted.Load(),
		duplicates: p.book.duplicates.Load(), late: p.book.late.Load(),
		conflicts: p.book.conflicts.Load(), unanswered: p.book.unanswered.Load(),
		arrived: p.seen.distinct.Load(), again: p.seen.repeated.Load(),
	}
}

// frame is one look at a run.
type frame struct {
	robots     int
	seed       uint64
	at, of     time.Duration
	counts     counts
	rates      counts // a second, over the last ones
	server     string
	life       int
	shift      time.Duration
	moods      map[string]string
	doing      []int32 // of each robot
	happenings []happening
}

func (p *rehearsal) frame() frame {
	f := frame{robots: p.cfg.Robots, seed: p.cfg.Seed, at: time.Since(p.start), of: p.cfg.Duration,
		counts: p.counts(), shift: time.Duration(p.server.shift.Load()), moods: map[string]string{}}
	f.server, f.life = p.server.watch()
	for name, s := range p.sinks {
		s.mu.Lock()
		f.moods[name] = s.mood
		s.mu.Unlock()
	}
	for _, r := range p.robots {
		f.doing = append(f.doing, r.doing.Load())
	}
	return f
}

// meter makes rates of counts: a mean over the last seconds, so that they are calm.
type meter struct {
	at   []time.Duration
	seen []counts
}

// meterSpan is the time that a rate is the mean of.
const meterSpan = 3 * time.Second

func (m *meter) rate(at time.Duration, c counts) counts {
	m.at, m.seen = append(m.at, at), append(m.seen, c)
	for len(m.at) > 2 && at-m.at[1] >= meterSpan {
		m.at, m.seen = m.at[1:], m.seen[1:]
	}
	span := (at - m.at[0]).Seconds()
	if span <= 0 {
		return counts{}
	}
	per := func(now, then int64) int64 { return int64(float64(now-then)/span + 0.5) }
	then := m.seen[0]
	return counts{
		sent: per(c.sent, then.sent), accepted: per(c.accepted, then.accepted),
		duplicates: per(c.duplicates, then.duplicates), conflicts: per(c.conflicts, then.conflicts),
		unanswered: per(c.unanswered, then.unanswered), arrived: per(c.arrived, then.arrived),
		again: per(c.again, then.again),
	}
}

// seconds writes a duration as people read it.
func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// number writes a number with its thousands apart.
func number(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}
