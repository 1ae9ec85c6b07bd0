package testserver

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oncekit/once/internal/child"
)

// redisTaken is what Redis says about a port that somebody has.
var redisTaken = regexp.MustCompile(`(?i)address already in use|Failed listening on port`)

// RedisServer is a redis-server process of its own, on one loopback port that it keeps over
// restarts.
type RedisServer struct {
	t    testing.TB
	dir  string
	port int
	conf []string
	args []string // of the program, besides the configuration

	mu   sync.Mutex
	proc *child.Process // nil while the server is down
}

// Redis starts a server and returns when it answers. It ends with the test. Options are lines of
// redis.conf, such as "appendonly yes"; without any it keeps nothing on disk.
func Redis(t testing.TB, options ...string) *RedisServer {
	t.Helper()
	return startRedis(t, nil, func(int) []string { return options })
}

// startRedis starts a server whose options may name its port.
func startRedis(t testing.TB, args []string, options func(port int) []string) *RedisServer {
	t.Helper()
	s := &RedisServer{t: t, dir: t.TempDir(), args: args}
	t.Cleanup(s.Kill)
	for range startTries {
		s.port = freePort(t)
		s.conf = options(s.port)
		base := []string{
			"bind 127.0.0.1", "port " + strconv.Itoa(s.port), "dir " + s.dir, "save \"\"",
			"daemonize no", "protected-mode no",
		}
		text := strings.Join(append(base, s.conf...), "\n") + "\n"
		if err := os.WriteFile(s.file("redis.conf"), []byte(text), 0o600); err != nil {
			t.Fatalf("write redis configuration: %v", err)
		}
		err := s.start()
		if err == nil {
			return s
		}
		if !errors.Is(err, errPortTaken) {
			t.Fatalf("start redis: %v", err)
		}
	}
	t.Fatalf("start redis: no free port in %d tries", startTries)
	return nil
}

// Addr is the server's host and port.
func (s *RedisServer) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Do sends one command and returns the answer: texts and numbers as text, lists with a line an
// element. An error of the server fails the test.
func (s *RedisServer) Do(args ...string) string {
	s.t.Helper()
	out, err := s.Try(args...)
	if err != nil {
		s.t.Fatalf("redis %s: %v", args[0], err)
	}
	return out
}

// Try is Do for a server that may be down or refuse.
func (s *RedisServer) Try(args ...string) (string, error) { return redisDo(s.Addr(), args...) }

// Start runs a stopped or killed server again, on the same port and with the same folder, and
// returns when it answers. It does nothing if the server runs.
func (s *RedisServer) Start() {
	s.t.Helper()
	if err := s.start(); err != nil {
		s.t.Fatalf("start redis again: %v", err)
	}
}

// Stop ends the server as an operator would (SIGTERM) and returns when it is gone.
func (s *RedisServer) Stop() { s.end(syscall.SIGTERM) }

// Kill ends the server at once (SIGKILL) and returns when it is gone. It does nothing if the server
// is down.
func (s *RedisServer) Kill() { s.end(syscall.SIGKILL) }

// Freeze stops the process without ending it: its connections stay and nothing answers. Thaw lets
// it go on.
func (s *RedisServer) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw ends Freeze.
func (s *RedisServer) Thaw() { s.signal(syscall.SIGCONT) }

func (s *RedisServer) signal(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.Signal(sig)
	}
}

func (s *RedisServer) file(name string) string { return filepath.Join(s.dir, name) }

func (s *RedisServer) end(signal os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.End(signal, stopLimit)
		s.proc = nil
	}
}

func (s *RedisServer) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		return nil
	}
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return errors.New("redis-server is missing: apt-get install redis-server")
	}
	log, err := os.OpenFile(s.file("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open redis log: %w", err)
	}
	defer log.Close()
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("open redis log: %w", err)
	}
	cmd := exec.Command(program, append([]string{s.file("redis.conf")}, s.args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	proc, err := child.Start(cmd)
	if err != nil {
		return err
	}
	if err := s.awaitReady(proc, from); err != nil {
		proc.Kill()
		return err
	}
	s.proc = proc
	return nil
}

// awaitReady waits until this very process answers PING: on a port that is taken, another server
// would answer in its place.
func (s *RedisServer) awaitReady(proc *child.Process, logFrom int64) error {
	deadline := time.Now().Add(startLimit)
	for {
		info, err := redisDo(s.Addr(), "INFO", "server")
		if err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", proc.PID())) {
			if _, err = redisDo(s.Addr(), "PING"); err == nil { // not LOADING
				return nil
			}
		}
		log := logSince(s.file("log"), logFrom)
		switch {
		case proc.Ended() && redisTaken.MatchString(log):
			return errPortTaken
		case proc.Ended():
			return fmt.Errorf("the server ended: %s", log)
		case time.Now().After(deadline):
			return fmt.Errorf("the server is not ready after %v: %v: %s", startLimit, err, log)
		}
		time.Sleep(pollEvery)
	}
}
