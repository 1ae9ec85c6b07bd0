package outbox

import (
	"container/list"
	"sync"
)

// maxSuspects bounds the messages that are remembered; the earliest is forgotten first.
const maxSuspects = 1024

// suspects counts per message the connections that ended while it was in flight. Safe for
// concurrent use.
type suspects struct {
	mu    sync.Mutex
	limit int
	byID  map[string]*list.Element
	order *list.List // of *suspect, the earliest first
}

type suspect struct {
	id    string
	drops int
}

func newSuspects(limit int) *suspects {
	return &suspects{limit: limit, byID: map[string]*list.Element{}, order: list.New()}
}

func (s *suspects) count(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byID[id]; e != nil {
		return e.Value.(*suspect).drops
	}
	return 0
}

func (s *suspects) add(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byID[id]; e != nil {
		e.Value.(*suspect).drops++
		return
	}
	if len(s.byID) == s.limit {
		first := s.order.Front()
		delete(s.byID, first.Value.(*suspect).id)
		s.order.Remove(first)
	}
	s.byID[id] = s.order.PushBack(&suspect{id: id, drops: 1})
}

func (s *suspects) clear(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byID[id]; e != nil {
		delete(s.byID, id)
		s.order.Remove(e)
	}
}
