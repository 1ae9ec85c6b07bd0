package demo

import (
	"io"
	"strings"
	"sync"
	"time"
)

// frameEvery is the time between two frames.
const frameEvery = 150 * time.Millisecond

// What is written to the terminal: to a second screen without a cursor and without wrapping, and
// back. RestoreTerminal undoes all of it, also if nothing was done.
const (
	takeTerminal = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
	// RestoreTerminal ends the table.
	RestoreTerminal = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// live draws a table in place, each frame at one stroke, so that nothing flickers.
type live struct {
	p     *rehearsal
	diary diary
	meter meter
	stop  chan struct{}
	done  chan struct{}
	once  sync.Once
	begun bool
}

func newLive(p *rehearsal) *live {
	return &live{p: p, stop: make(chan struct{}), done: make(chan struct{})}
}

func (l *live) happens(text string) { l.diary.add(happening{time.Since(l.p.start), text}) }

func (l *live) begin() {
	l.begun = true
	write(l.p.cfg.Out, takeTerminal)
	go l.run()
}

func (l *live) end() {
	l.once.Do(func() {
		if !l.begun {
			return
		}
		close(l.stop)
		<-l.done
		write(l.p.cfg.Out, RestoreTerminal)
	})
}

func (l *live) run() {
	defer close(l.done)
	tick := time.NewTicker(frameEvery)
	defer tick.Stop()
	var columns, rows int
	for {
		c, r := l.p.cfg.Size()
		text := l.draw(c, r)
		if c != columns || r != rows { // what the old size left is wiped
			text = "\x1b[2J" + text
			columns, rows = c, r
		}
		write(l.p.cfg.Out, "\x1b[?2026h"+text+"\x1b[?2026l")
		select {
		case <-tick.C:
		case <-l.stop:
			return
		}
	}
}

// draw is one frame as it is written: from the top, each line wiped behind its end.
func (l *live) draw(columns, rows int) string {
	f := l.p.frame()
	f.rates = l.meter.rate(f.at, f.counts)
	f.happenings = l.diary.last()
	var lines []string
	for _, one := range table(&f, columns, rows) {
		lines = append(lines, one.text(max(columns-1, 0), l.p.cfg.Color)+"\x1b[K")
	}
	return "\x1b[H" + strings.Join(lines, "\r\n") + "\x1b[J"
}

// write shows something. Where nobody can see it any more, the run goes on all the same.
func write(w io.Writer, text string) { _, _ = io.WriteString(w, text) }
