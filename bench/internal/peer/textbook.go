package peer

import (
	"bytes"
	"crypto/sha256"
	"io"
	"maps"
	"net/http"
	"sync"
)

// textbook is the middleware that is written first: the answers in a map, under one lock, by key.
// It has no lease, no scope and no retention, compares the bytes of bodies, and answers 409 while
// the first request is under way.
type textbook struct {
	next    http.Handler
	mu      sync.Mutex
	answers map[string]*textbookAnswer
}

type textbookAnswer struct {
	print  [sha256.Size]byte
	done   bool
	status int
	header http.Header
	body   []byte
}

// Textbook returns a handler that keeps the answers of next by their Idempotency-Key.
func Textbook(next http.Handler) http.Handler {
	return &textbook{next: next, answers: map[string]*textbookAnswer{}}
}

// ServeHTTP implements http.Handler.
func (t *textbook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		t.next.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "body", http.StatusBadRequest)
		return
	}
	print := sha256.Sum256(body)
	t.mu.Lock()
	a, known := t.answers[key]
	if !known {
		a = &textbookAnswer{print: print}
		t.answers[key] = a
	}
	done := a.done
	t.mu.Unlock()
	switch {
	case !known:
		t.first(w, r, a, body)
	case a.print != print:
		http.Error(w, "another request had this key", http.StatusUnprocessableEntity)
	case !done:
		http.Error(w, "the first request is under way", http.StatusConflict)
	default:
		maps.Copy(w.Header(), a.header)
		w.Header().Set("Idempotent-Replayed", "true")
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body) // a caller that went away is its own affair
	}
}

func (t *textbook) first(w http.ResponseWriter, r *http.Request, a *textbookAnswer, body []byte) {
	r.Body = io.NopCloser(bytes.NewReader(body))
	rec := &textbookRecorder{ResponseWriter: w, status: http.StatusOK}
	t.next.ServeHTTP(rec, r)
	t.mu.Lock()
	defer t.mu.Unlock()
	a.status, a.header, a.body = rec.status, w.Header().Clone(), rec.body.Bytes()
	a.done = true
}

// textbookRecorder lets an answer through and keeps it.
type textbookRecorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (r *textbookRecorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *textbookRecorder) Write(b []byte) (int, error) {
	r.body.Write(b)
	return r.ResponseWriter.Write(b)
}
