package testserver

import (
	"bytes"
	"sync"
)

// Text is what a program writes, read while it writes. The zero value is empty.
type Text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write adds to the text.
func (x *Text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

// String returns what was written so far.
func (x *Text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}
