package load

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// maxHead bounds the head of a reply.
const maxHead = 8 << 10

var (
	endOfHead  = []byte("\r\n\r\n")
	endOfLine  = []byte("\r\n")
	http11     = []byte("HTTP/1.1 ")
	nameLength = []byte("Content-Length:")
	nameCoding = []byte("Transfer-Encoding:")
	replayed   = []byte("Idempotent-Replayed: true")
)

// reply is the first reply in a buffer. Its body refers to the buffer.
type reply struct {
	size   int // of the whole reply; 0: it is not complete yet
	status int
	body   []byte
	replay bool // it says that it is one
}

// parseReply reads the first reply of a buffer. It knows what the servers of a benchmark send:
// HTTP/1.1 with a Content-Length.
func parseReply(b []byte) (reply, error) {
	head := bytes.Index(b, endOfHead)
	if head < 0 {
		if len(b) > maxHead {
			return reply{}, fmt.Errorf("the head of the reply is longer than %d bytes", maxHead)
		}
		return reply{}, nil
	}
	line, rest, _ := bytes.Cut(b[:head], endOfLine)
	if !bytes.HasPrefix(line, http11) || len(line) < len(http11)+3 {
		return reply{}, fmt.Errorf("status line %.40q is not one of HTTP/1.1", line)
	}
	status, err := strconv.Atoi(string(line[len(http11) : len(http11)+3]))
	if err != nil {
		return reply{}, fmt.Errorf("status line %.40q: %w", line, err)
	}
	length, replay := -1, false
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, endOfLine)
		if hasName(line, nameCoding) {
			return reply{}, errors.New("the reply is chunked")
		}
		if !hasName(line, nameLength) {
			replay = replay || bytes.EqualFold(line, replayed)
			continue
		}
		if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(nameLength):]))); err != nil {
			return reply{}, fmt.Errorf("content length: %w", err)
		}
	}
	if length < 0 {
		return reply{}, errors.New("the reply has no content length")
	}
	begin := head + len(endOfHead)
	if len(b) < begin+length {
		return reply{}, nil
	}
	return reply{begin + length, status, b[begin : begin+length], replay}, nil
}

func hasName(line, name []byte) bool {
	return len(line) >= len(name) && bytes.EqualFold(line[:len(name)], name)
}

// checkReply reports what is wrong with a reply to the request that id names.
func checkReply(r reply, status int, want, id []byte) error {
	switch {
	case r.status != status:
		return fmt.Errorf("status %d, want %d: %.200q", r.status, status, r.body)
	case !bytes.HasPrefix(r.body, want):
		return fmt.Errorf("the body begins with %.80q, want %q", r.body, want)
	case !bytes.Contains(r.body, id):
		return fmt.Errorf("the body %.200q does not name %q", r.body, id)
	}
	return nil
}
