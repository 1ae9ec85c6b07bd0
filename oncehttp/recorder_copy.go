package oncehttp

import (
	"errors"
	"io"
)

// ReadFrom implements io.ReaderFrom, by which a server sends files without copying them.
func (r *recorder) ReadFrom(src io.Reader) (int64, error) {
	var step []byte
	var total int64
	for {
		r.mu.Lock()
		passes := r.state == live && !r.keeping && !r.ended && r.declared < 0 && !r.hijacked &&
			!r.failed
		r.mu.Unlock()
		if passes { // nothing is captured any more
			n, err := r.pass(src)
			if total += n; err != errLeft {
				return total, err
			}
			continue
		}
		if step == nil {
			step = make([]byte, copyStep)
		}
		n, err := src.Read(step)
		if n > 0 {
			m, werr := r.Write(step[:n])
			total += int64(m)
			if werr != nil {
				return total, werr
			}
		}
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// errLeft: the client is gone.
var errLeft = errors.New("the client has left")

// pass copies what is not captured to the server's writer, which may send files by itself. The
// error is that of the source, or errLeft.
func (r *recorder) pass(src io.Reader) (int64, error) {
	s := &source{Reader: src}
	n, err := io.Copy(r.w, s)
	if err == nil || s.failed {
		return n, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.failed = true
	}
	return n, errLeft
}

// source notes that what it reads from has failed.
type source struct {
	io.Reader
	failed bool
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.failed = s.failed || err != nil && !errors.Is(err, io.EOF)
	return n, err
}
