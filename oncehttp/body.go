package oncehttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// body is the whole body of a request: in memory, or in a temporary file if it is large. The
// handler reads it once; after close it is gone.
type body struct {
	mu       sync.Mutex
	buf      *[]byte // from the pool; nil for none
	data     []byte  // in memory
	file     *os.File
	size     int64
	offset   int // of the handler, in memory
	closed   bool
	budget   *Budget
	reserved int64 // of it
}

// Limits of buffers that go back to the pool, and of the steps in which bodies are read.
const (
	maxPooled = 64 << 10
	readStep  = 4 << 10
	copyStep  = 32 << 10
)

var buffers = sync.Pool{New: func() any { return new([]byte) }}

func getBuffer() *[]byte {
	b, _ := buffers.Get().(*[]byte)
	*b = (*b)[:0]
	return b
}

func putBuffer(b *[]byte) {
	if b != nil && cap(*b) <= maxPooled {
		buffers.Put(b)
	}
}

var (
	errBodyTooLarge = errors.New("body is too large")
	errSpool        = errors.New("body can't be kept")
)

// readBody reads a request's body to its end. It returns errBodyTooLarge, errSpool, or the error of
// reading.
func (m *guarded) readBody(w http.ResponseWriter, r *http.Request) (*body, error) {
	b := &body{budget: m.cfg.Bodies}
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return b, nil
	}
	if r.ContentLength > m.cfg.MaxBody {
		return nil, errBodyTooLarge
	}
	b.buf = getBuffer()
	src := timedReader{src: r.Body, w: w, timeout: m.cfg.BodyTimeout}
	err := m.fill(b, &src, r.ContentLength)
	src.end()
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// fill reads into memory, and into a file from SpoolFrom on.
func (m *guarded) fill(b *body, src *timedReader, length int64) error {
	data := *b.buf
	if need := int(min(length, m.cfg.SpoolFrom) + 1); length > 0 && cap(data) < need {
		data = make([]byte, 0, need) // one more, so that the end is seen without growing
	}
	for int64(len(data)) <= m.cfg.SpoolFrom {
		if len(data) == cap(data) {
			data = append(data, make([]byte, readStep)...)[:len(data)]
		}
		n, err := src.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if int64(len(data)) > m.cfg.MaxBody {
			return errBodyTooLarge // at once: its end may never come
		}
		if err := b.reserve(int64(len(data))); err != nil {
			return err
		}
		if err == nil {
			continue
		}
		*b.buf, b.data, b.size = data, data, int64(len(data))
		if !errors.Is(err, io.EOF) {
			return fmt.Errorf("read body: %w", err)
		}
		return nil
	}
	*b.buf = data
	return m.spool(b, src, data)
}

// spool moves a body into a temporary file that has no name, and so never outlives the process.
func (m *guarded) spool(b *body, src *timedReader, begin []byte) error {
	f, err := os.CreateTemp(m.cfg.SpoolDir, "once-body-")
	if err != nil {
		return fmt.Errorf("%w: %w", errSpool, err)
	}
	b.file = f
	if err := os.Remove(f.Name()); err != nil {
		return fmt.Errorf("%w: %w", errSpool, err)
	}
	if _, err := f.Write(begin); err != nil {
		return fmt.Errorf("%w: %w", errSpool, err)
	}
	b.size = int64(len(begin))
	step := make([]byte, copyStep)
	for {
		n, err := src.Read(step)
		if err := b.reserve(b.size + int64(n)); err != nil {
			return err
		}
		if _, e := f.Write(step[:n]); e != nil {
			return fmt.Errorf("%w: %w", errSpool, e)
		}
		if b.size += int64(n); b.size > m.cfg.MaxBody {
			return errBodyTooLarge // at once: its end may never come
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read body: %w", err)
		}
	}
	putBuffer(b.buf)
	b.buf = nil
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("%w: %w", errSpool, err)
	}
	return nil
}

// again reads the body from its beginning, without moving where the handler stands.
func (b *body) again() io.Reader {
	if b.file != nil {
		return io.NewSectionReader(b.file, 0, b.size)
	}
	return &sliceReader{b.data}
}

// whole returns the body in memory if it is not longer than limit.
func (b *body) whole(limit int64) ([]byte, bool, error) {
	if b.size > limit {
		return nil, false, nil
	}
	if b.file == nil {
		return b.data, true, nil
	}
	data := make([]byte, b.size)
	if _, err := b.file.ReadAt(data, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, false, fmt.Errorf("%w: %w", errSpool, err)
	}
	return data, true, nil
}

// Read implements io.Reader for the handler.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return 0, http.ErrBodyReadAfterClose
	case b.file != nil:
		return b.file.Read(p)
	case b.offset == len(b.data):
		return 0, io.EOF
	}
	n := copy(p, b.data[b.offset:])
	b.offset += n
	return n, nil
}

// Close implements io.Closer for the handler.
func (b *body) Close() error { return nil }

// close lets go of the body. A handler that still reads gets an error, never another's bytes.
func (b *body) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.closed, b.data = true, nil
	b.giveBack()
	putBuffer(b.buf)
	b.buf = nil
	if b.file != nil {
		_ = b.file.Close() // it has no name and nobody reads it any more
	}
}

type sliceReader struct{ rest []byte }

// Read implements io.Reader.
func (r *sliceReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// timedReader bounds the time between two pieces of a body, if it has a timeout.
type timedReader struct {
	src     io.Reader
	w       http.ResponseWriter
	timeout time.Duration
	set     bool
}

// Read implements io.Reader.
func (t *timedReader) Read(p []byte) (int, error) {
	if t.timeout > 0 {
		// A server that can't set deadlines has to bound bodies itself.
		t.set = true
		_ = http.NewResponseController(t.w).SetReadDeadline(time.Now().Add(t.timeout))
	}
	return t.src.Read(p)
}

// end gives the server its deadline back.
func (t *timedReader) end() {
	if t.set {
		_ = http.NewResponseController(t.w).SetReadDeadline(time.Time{})
	}
}
