package load

import (
	"fmt"
	"io"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// conn is one connection, with at most one request on its way.
type conn struct {
	fd   int
	open bool
	busy bool
	due  time.Time // from when the request's latency counts
	out  []byte    // the request
	id   []byte    // the part of it that the reply has to name
	in   []byte    // what came of the reply
}

// bufferSize holds any request and reply of a benchmark.
const bufferSize = 16 << 10

func dial(addr netip.AddrPort) (*conn, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	c := &conn{fd: fd, open: true, out: make([]byte, 0, 1024), in: make([]byte, 0, bufferSize)}
	err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()})
	if err != nil {
		c.close()
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		c.close()
		return nil, fmt.Errorf("set nodelay: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		c.close()
		return nil, fmt.Errorf("set nonblocking: %w", err)
	}
	return c, nil
}

func (c *conn) close() {
	if c.open {
		_ = unix.Close(c.fd) // nothing can be done about it
	}
	c.open, c.busy = false, false
}

// send writes the request in out. It fits into the socket's buffer, as nothing else is on its way.
func (c *conn) send(due time.Time) error {
	n, err := unix.Write(c.fd, c.out)
	if err != nil {
		return fmt.Errorf("write request: %w", err)
	}
	if n < len(c.out) {
		return fmt.Errorf("write request: %w", io.ErrShortWrite)
	}
	c.busy, c.due, c.in = true, due, c.in[:0]
	return nil
}

// receive reads what is there and reports the reply once it is complete.
func (c *conn) receive() (r reply, done bool, err error) {
	n, err := unix.Read(c.fd, c.in[len(c.in):cap(c.in)])
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return reply{}, false, nil
	case err != nil:
		return reply{}, false, fmt.Errorf("read reply: %w", err)
	case n == 0:
		return reply{}, false, fmt.Errorf("read reply: %w", io.ErrUnexpectedEOF)
	case !c.busy:
		return reply{}, false, fmt.Errorf("read reply: nothing was asked")
	}
	c.in = c.in[:len(c.in)+n]
	r, err = parseReply(c.in)
	switch {
	case err != nil:
		return r, false, err
	case r.size == 0 && len(c.in) == cap(c.in):
		return r, false, fmt.Errorf("read reply: it is longer than %d bytes", cap(c.in))
	case r.size == 0:
		return r, false, nil
	case r.size != len(c.in):
		return r, false, fmt.Errorf("read reply: more came than one reply")
	}
	c.busy = false
	return r, true, nil
}
