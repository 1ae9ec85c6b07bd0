package serving

import (
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"time"

	"github.com/oncekit/once/bench/internal/proc"
)

// Fsync is how often a Redis flushes its append-only file, in its own words.
type Fsync string

// The policies.
const (
	FsyncSecond Fsync = "everysec"
	FsyncAlways Fsync = "always"
	// FsyncNone: there is no append-only file.
	FsyncNone Fsync = ""
)

// Redis starts a redis-server of its own that keeps its files in dir.
func (p Programs) Redis(ctx context.Context, dir string, f Fsync) (*Server, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("find redis-server (apt-get install redis-server): %w", err)
	}
	addr, err := proc.FreeAddr()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	args := []string{"--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "",
		"--appendonly", "no"}
	if f != FsyncNone {
		args = append(args[:len(args)-1], "yes", "--appendfsync", string(f))
	}
	s := &Server{Kind: "redis", Addr: addr}
	return s.start(ctx, nil, s.pongs, program, args...)
}

// pongs reports whether a Redis has loaded what it keeps.
func (s *Server) pongs() bool {
	c, err := net.DialTimeout("tcp", s.Addr, redisWait)
	if err != nil {
		return false
	}
	defer c.Close() // it was only asked
	answer := make([]byte, len("+PONG"))
	if err := ask(c, "PING\r\n", answer); err != nil {
		return false
	}
	return string(answer) == "+PONG"
}

// redisWait bounds one look at a Redis.
const redisWait = time.Second

// ask sends a text and fills answer.
func ask(c net.Conn, text string, answer []byte) error {
	if err := c.SetDeadline(time.Now().Add(redisWait)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, text); err != nil {
		return err
	}
	_, err := io.ReadFull(c, answer)
	return err
}
