package model

import (
	"maps"
	"slices"
	"strings"
)

// The effects that destinations can't tell by their path.
const (
	// Alarm is the effect that time makes, not a callback: the task stands still for too long.
	Alarm = "task-stands-still"
	// Progress is what an updateSeq makes.
	Progress = "tell-progress"
)

// effects compares what arrived with what had to go out.
func (c *court) effects() {
	want := map[effect]bool{}
	for _, k := range c.lives {
		for _, ef := range k.effects {
			want[ef] = true
		}
	}
	c.Expected = len(want)
	c.arrivals(want)
	for _, ef := range sortedEffects(want) {
		if c.ids[ef] == nil {
			c.fault(Lost, ef.task, "%s never arrived", ef)
		}
	}
	stored := map[string]*StoredEffect{}
	for i := range c.e.Store.Effects {
		s := &c.e.Store.Effects[i]
		stored[s.ID] = s
		c.storedEffect(s, want)
	}
	for _, ef := range sortedEffects(c.ids) {
		for _, id := range c.ids[ef] {
			if stored[id] == nil {
				c.fault(Doubled, ef.task,
					"%s arrived under the id %s, which the server does not know", ef, id)
			}
		}
	}
	c.alarms()
	c.order()
}

// sortedEffects are the keys of a map, so that faults come in the same order each time.
func sortedEffects[V any](m map[effect]V) []effect {
	return slices.SortedFunc(maps.Keys(m), func(a, b effect) int {
		return strings.Compare(a.String(), b.String())
	})
}

// arrivals sorts what arrived by effect and id.
func (c *court) arrivals(want map[effect]bool) {
	payload := map[string]string{}
	for i := range c.e.Sightings {
		s := &c.e.Sightings[i]
		ef := s.key()
		if _, again := c.first[s.ID]; again {
			c.Repeated++
			if payload[s.ID] != s.Destination+s.Payload {
				c.fault(Difference, s.Task, "the id %s of %s came with other content", s.ID, ef)
			}
			continue
		}
		c.first[s.ID], payload[s.ID] = i, s.Destination+s.Payload
		if s.PayloadID != "" && s.PayloadID != s.ID {
			c.fault(Difference, s.Task, "the id of %s is %s, and its payload says %s", ef, s.ID,
				s.PayloadID)
		}
		before := len(c.ids[ef])
		c.ids[ef] = append(c.ids[ef], s.ID)
		switch {
		case before > 0:
			c.fault(Doubled, s.Task, "%s arrived under two ids, %s and %s", ef, c.ids[ef][0], s.ID)
		case s.Name == Alarm && c.mayAlarm(s.Task, s.At):
			c.Alarms++
		case !want[ef]:
			c.fault(Doubled, s.Task, "%s arrived, and nothing explains it", ef)
		default:
			c.Seen++
		}
	}
}

// storedEffect compares an effect of the store with what arrived.
func (c *court) storedEffect(s *StoredEffect, want map[effect]bool) {
	ef := effect{s.Task, s.Name, s.Resource, 0}
	at, came := c.first[s.ID]
	if came {
		ef.seq = c.e.Sightings[at].Seq // the server does not show what an effect carries
	}
	switch {
	case s.State != done:
		c.fault(Lost, s.Task, "%s is %s and not acknowledged%s", ef, s.State, because(s.Error))
	case s.Name != Alarm && !want[ef] && (came || s.Name != Progress):
		c.fault(Doubled, s.Task, "%s is in the store, and nothing explains it", ef)
	case !came:
		c.fault(Lost, s.Task, "%s counts as acknowledged under the id %s, which never arrived",
			ef, s.ID)
	}
}
