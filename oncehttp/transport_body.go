package oncehttp

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// repeatableBody gives each try the same bytes.
type repeatableBody struct {
	// first is the body of the first try; nil after it was handed on.
	first io.ReadCloser
	// again makes the body of another try; nil if once.
	again  func() (io.ReadCloser, error)
	length int64
	// once is true if there can be no further try.
	once bool
}

// repeatable looks how a request's body can be sent again. It closes the body if there is an error.
func repeatable(req *http.Request, most int) (*repeatableBody, error) {
	switch {
	case req.Body == nil || req.Body == http.NoBody:
		return inMemory(nil, 0), nil
	case req.GetBody != nil:
		return &repeatableBody{first: req.Body, again: req.GetBody, length: req.ContentLength}, nil
	case req.ContentLength > int64(most):
		return &repeatableBody{first: req.Body, length: req.ContentLength, once: true}, nil
	}
	head, err := io.ReadAll(io.LimitReader(req.Body, int64(most)+1))
	if err != nil {
		_ = req.Body.Close()
		return nil, err
	}
	if len(head) > most {
		whole := readCloser{io.MultiReader(bytes.NewReader(head), req.Body), req.Body}
		return &repeatableBody{first: whole, length: req.ContentLength, once: true}, nil
	}
	if err := req.Body.Close(); err != nil {
		return nil, err
	}
	length := int64(len(head))
	if req.ContentLength > 0 && req.ContentLength != length {
		return nil, fmt.Errorf("it has %d bytes, ContentLength says %d", length, req.ContentLength)
	}
	if len(req.Trailer) > 0 {
		length = req.ContentLength // they need chunks
	}
	return inMemory(head, length), nil
}

func inMemory(data []byte, length int64) *repeatableBody {
	again := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	return &repeatableBody{again: again, length: length}
}

// request makes the request of a try. Its body is never nil and has no GetBody: otherwise
// http.Transport would send it again by itself where it sees a key, and nobody would count that.
func (b *repeatableBody) request(req *http.Request, header http.Header) (*http.Request, error) {
	body := b.first
	b.first = nil
	if body == nil {
		var err error
		if body, err = b.again(); err != nil {
			return nil, err
		}
	}
	inner := *req
	inner.Header = header.Clone()
	inner.Body = readCloser{body, body}
	inner.GetBody = nil
	inner.ContentLength = b.length
	return &inner, nil
}

// close closes the body of a first try that was not made.
func (b *repeatableBody) close() {
	if b.first != nil {
		_ = b.first.Close()
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// readCloser hides what else a body is: http.NoBody, say, which counts as none.
type readCloser struct {
	io.Reader
	io.Closer
}
