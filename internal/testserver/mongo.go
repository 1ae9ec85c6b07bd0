package testserver

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oncekit/once/internal/child"
)

// MongoServer is a server that speaks MongoDB's protocol: FerretDB with SQLite below it, a process
// of its own on two loopback ports that it keeps over restarts. FerretDB's inserts under a unique
// index are atomic and its updates are not, so before it stands a gate that lets one writing
// command through at a time. It has no transactions, no TTL indexes, no pipeline updates and no
// $$NOW. What is killed is the process: it never loses what it has acknowledged, for the operating
// system keeps it.
type MongoServer struct {
	t   testing.TB
	dir string // empty: the process has a folder of its own
	// ports
	gate, raw, member int

	mu    sync.Mutex
	proc  *child.Process // nil while the server is down
	stdin io.Closer      // it ends when this is closed, also by the end of this process
}

// mongoStartLimit is how long the server may take to listen: it is a program of 40 MB, and other
// tests run beside.
const mongoStartLimit = time.Minute

// Mongo starts a server and returns when it takes connections. It ends with the test. Its program
// is built when it is needed for the first time. Tests that neither kill nor cut are better off
// with package mongotest, whose tests share a server.
func Mongo(t testing.TB) *MongoServer {
	t.Helper()
	s := &MongoServer{t: t, dir: t.TempDir()}
	t.Cleanup(s.Kill)
	if err := s.startAnywhere(child.Start); err != nil {
		t.Fatalf("start ferret: %v", err)
	}
	return s
}

// sharedMongo is the server that the tests of one process share: it is started for the first and
// ends with the process.
var sharedMongo = sync.OnceValues(func() (*MongoServer, error) {
	s := &MongoServer{}
	// Free: the end of its standard input ends it, so that it can take its folder away.
	return s, s.startAnywhere(child.StartFree)
})

// SharedMongo is a server that all tests of this process share, each with a database of its own. It
// can't be killed.
func SharedMongo(t testing.TB) *MongoServer {
	t.Helper()
	s, err := sharedMongo()
	if err != nil {
		t.Fatalf("start ferret: %v", err)
	}
	return s
}

// Addr is the host and port on which one writing command passes at a time.
func (s *MongoServer) Addr() string { return loopback(s.gate) }

// URI connects to Addr.
func (s *MongoServer) URI() string { return MongoURI(s.Addr()) }

// RawURI connects to FerretDB itself, whose updates are not atomic.
func (s *MongoServer) RawURI() string { return MongoURI(loopback(s.raw)) }

// ReplicaURI connects to a proxy that plays a replica set of one member before FerretDB, with
// retryable writes and transactions. They run one at a time and are undone by putting back what was
// there, so it shows what a client does with transactions, not how MongoDB isolates them. It has no
// $$NOW and no TTL indexes either.
func (s *MongoServer) ReplicaURI() string { return MongoURI(loopback(s.member)) }

// ReplicaAddr is the host and port of ReplicaURI.
func (s *MongoServer) ReplicaAddr() string { return loopback(s.member) }

// MongoURI connects to a server without a login at a host and port, such as that of a [Proxy].
func MongoURI(addr string) string { return "mongodb://" + addr + "/?directConnection=true" }

// Kill ends the server at once (SIGKILL) and returns when it is gone. It does nothing if the server
// is down.
func (s *MongoServer) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.Kill()
		_ = s.stdin.Close()
		s.proc = nil
	}
}

// Start runs a killed server again, on the same ports and with the same data, and returns when it
// takes connections. It does nothing if the server runs.
func (s *MongoServer) Start() {
	s.t.Helper()
	if err := s.start(child.Start); err != nil {
		s.t.Fatalf("start ferret again: %v", err)
	}
}

// Freeze stops the process without ending it: its connections stay and nothing answers. Thaw lets
// it go on.
// On a loaded machine its threads may go on for a while after the signal: it returns when they have
// stopped.
func (s *MongoServer) Freeze() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		Until(s.t, mongoStartLimit, "the server has stopped", func() bool {
			return stopped(s.proc.PID())
		})
	}
}

// stopped tells whether each thread of a process is stopped by a signal (proc(5), state T). Where
// that can't be read it is taken to be so.
func stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, name := range threads {
		stat, err := os.ReadFile(name)
		at := bytes.LastIndexByte(stat, ')') // the name before it may hold anything
		if err == nil && at >= 0 && !bytes.HasPrefix(stat[at:], []byte(") T")) {
			return false
		}
	}
	return true
}

// Thaw ends Freeze.
func (s *MongoServer) Thaw() { s.signal(syscall.SIGCONT) }

func (s *MongoServer) signal(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.Signal(sig)
	}
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// startAnywhere starts the server on ports that are free.
func (s *MongoServer) startAnywhere(start func(*exec.Cmd) (*child.Process, error)) error {
	for range startTries {
		var err error
		for _, port := range []*int{&s.gate, &s.raw, &s.member} {
			if *port, err = findPort(); err != nil {
				return err
			}
		}
		if err = s.start(start); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return fmt.Errorf("no free port in %d tries", startTries)
}

func (s *MongoServer) start(start func(*exec.Cmd) (*child.Process, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		return nil
	}
	program, err := ferretProgram()
	if err != nil {
		return fmt.Errorf("build ferret: %w", err)
	}
	args := []string{
		"-listen", loopback(s.gate), "-raw", loopback(s.raw), "-member", loopback(s.member),
	}
	if s.dir != "" {
		args = append(args, "-dir", s.dir)
	}
	cmd := exec.Command(program, args...)
	log, err := os.CreateTemp("", "ferret-log-")
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer log.Close()
	_ = os.Remove(log.Name()) // open, and gone with the last who has it open
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	defer read.Close()
	cmd.Stdout, cmd.Stderr = write, log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		_ = write.Close()
		return fmt.Errorf("make pipe: %w", err)
	}
	proc, err := start(cmd)
	_ = write.Close() // the child has its own
	if err != nil {
		return err
	}
	if err := awaitLine(read); err != nil {
		proc.Kill()
		text, _ := io.ReadAll(io.NewSectionReader(log, 0, 1<<16))
		if addressTaken.Match(text) {
			return errPortTaken
		}
		return fmt.Errorf("the server is not ready: %w: %s", err, text)
	}
	s.proc, s.stdin = proc, stdin
	return nil
}

// awaitLine waits for the line that the server prints when it listens.
func awaitLine(from *os.File) error {
	if err := from.SetReadDeadline(time.Now().Add(mongoStartLimit)); err != nil {
		return err
	}
	line, err := bufio.NewReader(from).ReadString('\n')
	if err == nil && len(strings.Fields(line)) != 3 {
		err = fmt.Errorf("it printed %q", line)
	}
	return err
}
