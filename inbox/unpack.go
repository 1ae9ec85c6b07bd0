package inbox

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/oncekit/once/queue"
)

// The content codings that are taken off (RFC 9110, section 8.4.1).
const (
	codingGzip    = "gzip"
	codingDeflate = "deflate"
)

const (
	// unpackerBytes is about what a decompressor needs for itself.
	unpackerBytes = 48 << 10

	// maxStoredContent bounds the content of a stored body, which was below its source's MaxBody
	// when it came.
	maxStoredContent = 1 << 30
)

// contentFault is why a body has no content, and what becomes of its message.
type contentFault struct{ verdict }

// Error returns the reason.
func (f *contentFault) Error() string { return f.reason }

// Content returns the body without its Content-Encoding (gzip or deflate): Raw itself if it has
// none or was not read. It is at most MaxBody long, and its memory counts like Raw's. A Verifier
// may call it; if it fails, the message is refused for that reason, whatever the Verifier says.
func (m *Message) Content() ([]byte, error) {
	switch {
	case m.content != nil:
		return m.content, nil
	case m.fault != nil:
		return nil, m.fault
	}
	lines := m.Header["Content-Encoding"]
	if len(lines) == 0 || len(m.Raw) == 0 {
		return m.Raw, nil
	}
	coding, err := codingOf(lines)
	if err == nil && coding == "" {
		return m.Raw, nil
	}
	if err == nil {
		limit := int64(defaultMaxBody)
		if m.in != nil {
			limit = m.in.src.MaxBody
		}
		m.coding = coding
		m.content, err = unpack(m.Raw, coding, limit, m.grow)
	}
	if err != nil && !errors.As(err, &m.fault) {
		m.fault = &contentFault{invalid(err.Error())}
	}
	if m.fault != nil {
		return nil, m.fault
	}
	return m.content, nil
}

// grow takes n bytes of the memory for bodies for the content.
func (m *Message) grow(n int64) error {
	in := m.in
	switch {
	case in == nil || in.reserve(n):
		return nil
	case in.reserved+n > in.rc.cfg.MaxInFlightBytes: // it never fits
		return &contentFault{verdict{
			outcome: queue.Invalid, status: http.StatusRequestEntityTooLarge,
			reason: fmt.Sprintf("body and its content are larger than the %d bytes for all bodies",
				in.rc.cfg.MaxInFlightBytes),
		}}
	}
	return &contentFault{crowded()}
}

// codingOf returns the content coding of a body; empty: it has none.
func codingOf(lines []string) (string, error) {
	coding := ""
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			switch name = strings.ToLower(strings.TrimSpace(name)); name {
			case "", "identity":
				continue
			case "x-gzip": // RFC 9110, section 8.4.1.3
				name = codingGzip
			case codingGzip, codingDeflate:
			default:
				return "", fmt.Errorf("content encoding %q is not supported, want gzip, deflate, "+
					"or none", cutText(line, maxShownType))
			}
			if coding != "" {
				return "", fmt.Errorf("content encoding %q: more than one is not supported",
					cutText(strings.Join(lines, ", "), maxShownType))
			}
			coding = name
		}
	}
	return coding, nil
}

// unpack takes a coding off a body. It asks for memory by grow before it uses it, and ends at the
// limit, so that a small body that stands for an endless one costs no more than a large one.
func unpack(raw []byte, coding string, limit int64, grow func(int64) error) ([]byte, error) {
	size := min(limit, firstRead)
	if err := grow(unpackerBytes + size); err != nil {
		return nil, err
	}
	src := bytes.NewReader(raw)
	r, err := newUnpacker(src, raw, coding)
	if err != nil {
		return nil, damaged(coding, err)
	}
	out := make([]byte, 0, size)
	for {
		if int64(len(out)) == limit {
			if err := unpackedAll(r, src, coding, limit); err != nil {
				return nil, err
			}
			return out, nil
		}
		if len(out) == cap(out) {
			more := min(int64(cap(out)), limit-int64(cap(out)))
			if err := grow(more); err != nil {
				return nil, err
			}
			out = append(make([]byte, 0, int64(cap(out))+more), out...)
		}
		n, err := r.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		switch {
		case err == io.EOF && src.Len() > 0:
			return nil, trailing(coding)
		case err == io.EOF:
			return out, nil
		case err != nil:
			return nil, damaged(coding, err)
		}
	}
}

// unpackedAll says whether a content that is as long as it may be ends there.
func unpackedAll(r io.Reader, src *bytes.Reader, coding string, limit int64) error {
	var one [1]byte
	switch _, err := io.ReadFull(r, one[:]); {
	case err == nil:
		return &contentFault{verdict{
			outcome: queue.Invalid, status: http.StatusRequestEntityTooLarge,
			reason: fmt.Sprintf("body is larger than %d bytes without its content encoding", limit),
		}}
	case err != io.EOF:
		return damaged(coding, err)
	}
	if src.Len() > 0 {
		return trailing(coding)
	}
	return nil
}

// newUnpacker reads a coded body. By the standard deflate is the zlib format (RFC 9110, section
// 8.4.1.2); some senders leave its frame out, so what doesn't begin like one is read without.
func newUnpacker(src *bytes.Reader, raw []byte, coding string) (io.Reader, error) {
	if coding == codingGzip {
		return gzip.NewReader(src)
	}
	const method = 8 // RFC 1950, section 2.2: CM and FCHECK
	if len(raw) > 1 && raw[0]&0xf == method && (uint(raw[0])<<8|uint(raw[1]))%31 == 0 {
		return zlib.NewReader(src)
	}
	return flate.NewReader(src), nil
}

func damaged(coding string, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF {
		return fmt.Errorf("content encoding %s: the body is cut off", coding)
	}
	return fmt.Errorf("content encoding %s: the body is not encoded so, or is damaged", coding)
}

func trailing(coding string) error {
	return fmt.Errorf("content encoding %s: something follows the encoded body", coding)
}
