package metrics

import (
	"maps"
	"sync"
	"sync/atomic"
)

// table is a map that is read without a lock and copied to be written: its keys are few and come
// at the start. The zero value is empty. Safe for concurrent use.
type table[K comparable, V any] struct {
	now atomic.Pointer[map[K]V]
	mu  sync.Mutex // held to write
}

// get returns the value of a key, made once.
func (t *table[K, V]) get(k K, value func(K) V) V {
	if m := t.now.Load(); m != nil {
		if v, ok := (*m)[k]; ok {
			return v
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	next := make(map[K]V)
	if m := t.now.Load(); m != nil {
		if v, ok := (*m)[k]; ok {
			return v
		}
		maps.Copy(next, *m)
	}
	v := value(k)
	next[k] = v
	t.now.Store(&next)
	return v
}
