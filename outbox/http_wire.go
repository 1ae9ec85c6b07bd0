package outbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// newTransport makes a transport of which each connection tells whether anything was written to it.
// It speaks HTTP/1.1 alone: one request at a time on a connection, so that what is written while a
// request has it is that request's own.
func newTransport(cfg HTTPConfig) *http.Transport {
	dialer := &net.Dialer{Timeout: cfg.DialTimeout}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &countedConn{Conn: conn}, nil
	}
	dialTLS := func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, cfg.DialTimeout)
		defer cancel()
		conn, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		secured, err := handshake(ctx, conn, cfg.TLS, addr)
		if err != nil {
			return nil, err
		}
		return &countedConn{Conn: secured}, nil
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:            dial,
		DialTLSContext:         dialTLS,
		Protocols:              protocols,
		MaxConnsPerHost:        cfg.MaxConns,
		MaxIdleConnsPerHost:    cfg.MaxConns,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxResponseHeader,
		DisableCompression:     true,
	}
}

// countedConn counts the bytes that the network took, the ones of TLS itself left out.
type countedConn struct {
	net.Conn
	written atomic.Int64
}

// Write counts what was taken, also of a write that failed. While it runs everything counts as
// taken.
func (c *countedConn) Write(b []byte) (int, error) {
	c.written.Add(int64(len(b)))
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n - len(b)))
	return n, err
}

// sentTrace knows whether a byte of a request was handed to the network.
type sentTrace struct {
	mu    sync.Mutex
	conn  *countedConn
	start int64
}

func (s *sentTrace) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conn, _ = info.Conn.(*countedConn)
		if s.conn != nil {
			s.start = s.conn.written.Load()
		}
	}}
}

// any reports whether a byte was written.
func (s *sentTrace) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn != nil && s.conn.written.Load() != s.start
}

// sendableMethod reports whether a message can be sent by the method: one that has a meaning for a
// payload, or GET for a destination that knows nothing else.
func sendableMethod(m string) bool {
	switch m {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodGet:
		return true
	}
	return false
}

// reservedHeader reports whether a header belongs to the connection (RFC 9110, section 7.6.1) or
// to us.
func reservedHeader(canonical string) bool {
	switch canonical {
	case "Connection", "Content-Length", "Expect", "Fence", "Host", "Idempotency-Key",
		"Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Te", "Traceparent",
		"Tracestate", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// setHeaders sets what people configured or a message brings along.
func setHeaders(h http.Header, values map[string]string) error {
	for name, value := range values {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !validName(name):
			return fmt.Errorf("header %q: no valid name", name)
		case reservedHeader(canonical):
			return fmt.Errorf("header %s: can't be set", canonical)
		case !validValue(value):
			return fmt.Errorf("header %s: its value holds a control character", canonical)
		}
		h.Set(canonical, value)
	}
	return nil
}

// validName reports whether s is a token (RFC 9110, section 5.6.2).
func validName(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// validValue reports whether s can be a field value (RFC 9110, section 5.5).
func validValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// quoteString writes s as a String of RFC 9651, section 4.1.6.
func quoteString(s string) (string, error) {
	b := []byte{'"'}
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c > '~' {
			return "", errors.New("holds a character outside of ASCII")
		}
		if c == '"' || c == '\\' {
			b = append(b, '\\')
		}
		b = append(b, c)
	}
	return string(append(b, '"')), nil
}
