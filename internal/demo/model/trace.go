package model

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxTrace bounds the lines of a trace, maxTraces the number of traces.
const (
	maxTrace  = 60
	maxTraces = 200
)

// WhyLate is the reason of a send that repeats a callback after hours, by the server's clock.
const WhyLate = "hours late"

// trace tells the story of a task, so that a person can follow it.
func (c *court) trace(task string) []string {
	type moment struct {
		at   time.Duration
		text string
	}
	var sent []moment
	for _, cb := range c.tasks[task] {
		for _, s := range cb.Sends {
			what := cb.Name() + content(cb)
			if s.Changed {
				what += " (changed)"
			}
			sent = append(sent, moment{s.At, fmt.Sprintf("%9s  %s → %s  (%s)",
				s.At.Round(time.Millisecond), what, s.Answer, s.Why)})
		}
	}
	slices.SortStableFunc(sent, func(a, b moment) int { return int(a.at - b.at) })
	out := []string{"sent, and the answer:"}
	for _, m := range sent {
		out = append(out, "  "+m.text)
	}
	if k := c.lives[task]; k != nil {
		out = append(out, "what should have come of it:")
		for i, cb := range k.list {
			out = append(out, "  "+cb.Name()+": "+k.became[i])
		}
		for _, ef := range k.effects {
			out = append(out, "  effect "+ef.String())
		}
	}
	if have := c.e.Store.Tasks[task]; have != nil {
		out = append(out, "the server says: "+have.State)
		for _, l := range have.History {
			out = append(out, fmt.Sprintf("  %s  %s: %s → %s", l.At.Format(time.StampMicro),
				l.Event, l.From, l.To))
		}
	}
	out = append(out, "arrived at the destinations:")
	for _, s := range c.e.Sightings {
		if s.Task == task {
			out = append(out, fmt.Sprintf("  %s  %s  id %s fence %d",
				s.At.Format(time.StampMicro), strings.TrimSpace(s.Name+" "+s.Resource), s.ID,
				s.Fence))
		}
	}
	if len(out) > maxTrace {
		more := len(out) - maxTrace
		out = append(out[:maxTrace], fmt.Sprintf("… and %d lines more", more))
	}
	return out
}

// content shows what a callback carries.
func content(c *Callback) string {
	switch {
	case c.Event == "startFE":
		return " roadway=" + c.Roadway + " robot=" + c.Robot
	case c.Event == "station":
		return " station=" + c.Station
	case c.Event == "updateSeq":
		return fmt.Sprintf(" seq=%d", c.Seq)
	}
	return ""
}
