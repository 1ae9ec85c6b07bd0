package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/oncekit/once/internal/child"
)

const (
	// readyLimit bounds a start, which takes back what the process before had in its hands.
	readyLimit = 30 * time.Second
	// stopLimit bounds an end in order.
	stopLimit = 20 * time.Second
	// logTail is how much of the server's log is shown when it fails, in bytes.
	logTail = 2000
)

// server is the process that is demonstrated: started, killed and started again on the same ports
// and the same store.
type server struct {
	program string
	dir     string
	config  string
	addr    string // of senders
	admin   string
	client  *admin
	keeper  *janitor

	// served says that it was ready once.
	served atomic.Bool
	// shift is how far its clock is ahead, in nanoseconds.
	shift atomic.Int64

	mu    sync.Mutex
	proc  *child.Process
	lives int
	state string // for who watches
}

// The states of the server.
const (
	starting = "starts"
	up       = "up"
	down     = "killed"
	standing = "frozen"
)

// now is the time by the server's clock.
func (s *server) now() time.Time { return time.Now().Add(time.Duration(s.shift.Load())) }

// watch returns the state and which life it is.
func (s *server) watch() (state string, life int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.lives
}

func (s *server) become(state string) {
	s.mu.Lock()
	s.state = state
	s.mu.Unlock()
}

// current is the process of the running life.
func (s *server) current() *child.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// start starts the next life and returns when it can write its store.
func (s *server) start(ctx context.Context) error {
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open server log: %w", err)
	}
	defer func() { _ = log.Close() }() // the child has its own
	cmd := exec.Command(s.program, "serve", "--config", s.config, "--clock-offset",
		time.Duration(s.shift.Load()).String())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = cleanEnvironment()
	proc, err := child.Start(cmd)
	if err != nil {
		return fmt.Errorf("start server: %w", err)
	}
	s.keeper.watch(proc.PID())
	s.mu.Lock()
	s.proc, s.state = proc, starting
	s.lives++
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for {
		switch {
		case s.client.ready(ctx):
			s.become(up)
			s.served.Store(true)
			return nil
		case proc.Ended():
			return fmt.Errorf("start server: it ended by itself: %v\n%s", proc.State(), s.tail())
		case !pause(ctx, 10*time.Millisecond):
			return fmt.Errorf("start server: it is not ready: %w\n%s", ctx.Err(), s.tail())
		}
	}
}

// cleanEnvironment is ours without what would override the demo's configuration.
func cleanEnvironment() []string {
	var out []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ONCE_") && !strings.HasPrefix(v, "OTEL_") {
			out = append(out, v)
		}
	}
	return out
}

// lived fails if the server ended by itself.
func (s *server) lived() error {
	if p := s.current(); p.Ended() {
		return fmt.Errorf("the server ended by itself: %v\n%s", p.State(), s.tail())
	}
	return nil
}

// kill ends the server at once, without any warning to it.
func (s *server) kill() error {
	if err := s.lived(); err != nil {
		return err
	}
	s.current().Kill()
	s.become(down)
	return nil
}

// freeze stops the server and lets it go on after a while, as a machine does that swaps.
func (s *server) freeze(ctx context.Context, d time.Duration) error {
	if err := s.lived(); err != nil {
		return err
	}
	p := s.current()
	p.Signal(syscall.SIGSTOP)
	s.become(standing)
	_ = pause(ctx, d) // it goes on in any case
	p.Signal(syscall.SIGCONT)
	s.become(up)
	return nil
}

// stop ends the server in order.
func (s *server) stop() error {
	if err := s.lived(); err != nil {
		return err
	}
	p := s.current()
	p.End(syscall.SIGTERM, stopLimit)
	if !p.State().Success() {
		return fmt.Errorf("stop server: it did not end in order: %v\n%s", p.State(), s.tail())
	}
	return nil
}

// end kills the server, whatever it does.
func (s *server) end() {
	if p := s.current(); p != nil {
		p.Kill()
	}
}

func (s *server) logFile() string { return filepath.Join(s.dir, "server.log") }

// tail is the end of the server's log.
func (s *server) tail() string {
	b, err := os.ReadFile(s.logFile())
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b[max(len(b)-logTail, 0):]))
}

// The ports of the server lie below those that systems give to outgoing connections, so that none
// of these has one of them while the server is down.
const (
	firstPort = 20000
	lastPort  = 31999
	portTries = 50
)

// freeAddress finds a loopback address that nobody listens on.
func freeAddress() (string, error) {
	var errs []error
	for range portTries {
		addr := net.JoinHostPort("127.0.0.1",
			strconv.Itoa(firstPort+rand.IntN(lastPort-firstPort+1)))
		l, err := net.Listen("tcp", addr)
		if err == nil {
			return addr, l.Close()
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("find a free port: %w", errors.Join(errs[:3]...))
}

// listen takes a free loopback port of the same range.
func listen() (net.Listener, error) {
	var last error
	for range portTries {
		addr, err := freeAddress()
		if err != nil {
			return nil, err
		}
		l, err := net.Listen("tcp", addr)
		if err == nil {
			return l, nil
		}
		last = err
	}
	return nil, last
}
