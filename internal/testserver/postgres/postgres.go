// Package postgres starts private PostgreSQL servers for tests and benchmarks: a cluster of their
// own in a folder of their own, on a free loopback port, that ends with this process.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekit/once/internal/child"
)

const (
	// startLimit is how long the server may take until it answers, on a machine that does much
	// else.
	startLimit = time.Minute
	// stopLimit is how long it may take to end.
	stopLimit = 30 * time.Second
	// startTries bounds how many ports are tried when another process takes the one chosen.
	startTries = 5
	pollEvery  = 10 * time.Millisecond
	// superuser is the one user, who needs no password on loopback.
	superuser = "once"
)

var (
	errPortTaken = errors.New("the port was taken meanwhile")
	portTaken    = regexp.MustCompile(`(?i)address already in use|could not create any TCP/IP`)
)

// Config says what server is wanted. The zero value is one for tests of behaviour.
type Config struct {
	// Durable makes it flush each commit to the disk. Default: it flushes nothing, which is faster,
	// and survives the end of the process but not of the machine.
	Durable bool
	// Lines are further lines of postgresql.conf.
	Lines []string
	// Folder is where the server's files are; it is made if it is missing. A cluster that is in it
	// is started as it was made, and Close keeps the files. Whom root runs the server as must be
	// able to reach it. Default: a new folder that Close removes.
	Folder string
	// Follow makes it a standby, which takes the log of another server and can only be read until
	// it is promoted. It is asked at the address: perhaps that of a proxy before the server.
	Follow string
}

// Server is a running server. Safe for concurrent use.
type Server struct {
	bin, root string
	port      int
	conf      Config
	as        *syscall.Credential // nil: the user of this process

	mu   sync.Mutex
	proc *child.Process // nil while the server is down
}

// Start makes a cluster and starts a server, and returns when it answers. PostgreSQL refuses to run
// as root: there it runs as the user postgres, or nobody. Close ends it and removes its files. The
// error names the package that is missing.
func Start(conf Config) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	as, err := credential()
	if err != nil {
		return nil, err
	}
	root := conf.Folder
	if root == "" {
		root, err = os.MkdirTemp("", "once-postgres-")
	} else {
		err = os.MkdirAll(root, 0o700)
	}
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, root: root, conf: conf, as: as}
	if _, err := os.Stat(filepath.Join(s.data(), "PG_VERSION")); err != nil {
		if err := s.create(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	for range startTries {
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.Start(); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// binaries finds the folder of the programs, which Debian keeps off the PATH.
func binaries() (string, error) {
	if initdb, err := exec.LookPath("initdb"); err == nil {
		// It may be a link from a folder that has not all of them.
		if initdb, err = filepath.EvalSymlinks(initdb); err != nil {
			return "", err
		}
		return filepath.Dir(initdb), nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is right
	if len(found) == 0 {
		return "", errors.New("PostgreSQL is missing: apt-get install postgresql")
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(newest), nil
}

// credential is whom root runs the server as.
func credential() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// create makes the cluster.
func (s *Server) create() error {
	if s.as != nil {
		if err := os.Chown(s.root, int(s.as.Uid), int(s.as.Gid)); err != nil {
			return err
		}
	}
	if s.conf.Follow != "" {
		return s.copyFollowed()
	}
	cmd := s.command("initdb", "--pgdata="+s.data(), "--username="+superuser, "--auth=trust",
		"--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
	if err := s.finish(cmd); err != nil {
		return fmt.Errorf("create cluster: %w", err)
	}
	lines := []string{
		"listen_addresses = '127.0.0.1'", "unix_socket_directories = ''", "max_connections = 400",
		"shared_buffers = 64MB", "dynamic_shared_memory_type = mmap", "timezone = 'UTC'",
		"log_timezone = 'UTC'", "autovacuum_naptime = 10s",
	}
	if !s.conf.Durable {
		lines = append(lines, "fsync = off", "synchronous_commit = off", "full_page_writes = off")
	}
	return s.configure(append(lines, s.conf.Lines...))
}

// configure adds lines to the configuration.
func (s *Server) configure(lines []string) error {
	conf, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = conf.WriteString(strings.Join(lines, "\n") + "\n")
	return errors.Join(err, conf.Close())
}

// finish runs a program to its end. An error holds what it wrote.
func (s *Server) finish(cmd *exec.Cmd) error {
	proc, err := s.run(cmd)
	if err != nil {
		return err
	}
	<-proc.Done()
	if !proc.State().Success() {
		return errors.New(s.log())
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.root, "data") }

func (s *Server) logFile() string { return filepath.Join(s.root, "log") }

// log is the end of what the programs wrote.
func (s *Server) log() string {
	const most = 4000
	b, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-most):])
}

func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, program), args...)
	cmd.Dir = s.root
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=" + s.root}
	return cmd
}

// run starts a program that writes into the log.
func (s *Server) run(cmd *exec.Cmd) (*child.Process, error) {
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if s.as == nil {
		return child.Start(cmd)
	}
	return child.StartAs(cmd, s.as)
}

// Start runs a stopped or killed server again, on the same port. It does nothing if the server
// runs.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		return nil
	}
	if err := os.WriteFile(s.logFile(), nil, 0o600); err != nil {
		return err
	}
	// A killed server's file would make the next one ask whether that process runs.
	_ = os.Remove(filepath.Join(s.data(), "postmaster.pid"))
	proc, err := s.run(s.command("postgres", "-D", s.data(), "-p", strconv.Itoa(s.port)))
	if err != nil {
		return err
	}
	if err := s.awaitReady(proc); err != nil {
		proc.Kill()
		return err
	}
	s.proc = proc
	return nil
}

// awaitReady waits until this very server answers: another one on the same port has another folder.
func (s *Server) awaitReady(proc *child.Process) error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for {
		var dir string
		err := s.query(ctx, "SHOW data_directory", &dir)
		switch {
		case err == nil && dir == s.data():
			return nil
		case proc.Ended() && portTaken.MatchString(s.log()):
			return errPortTaken
		case proc.Ended():
			return fmt.Errorf("the server ended: %s", s.log())
		case ctx.Err() != nil:
			return fmt.Errorf("not ready after %v: %w: %s", startLimit, err, s.log())
		}
		time.Sleep(pollEvery)
	}
}

// query asks for one value, or runs a statement if into is nil.
func (s *Server) query(ctx context.Context, sql string, into any) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if into == nil {
		_, err = conn.Exec(ctx, sql)
		return err
	}
	return conn.QueryRow(ctx, sql).Scan(into)
}

// Addr is the server's host and port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL is how to connect to a database.
func (s *Server) URL(database string) string { return URL(s.Addr(), database) }

// URL is how to connect to a database through another address, such as that of a proxy.
func URL(addr, database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", superuser, addr, database)
}

// CreateDatabase makes an empty database, whose name is made of lower-case letters and digits.
func (s *Server) CreateDatabase(ctx context.Context, name string) error {
	return s.query(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize(), nil)
}

// Stop ends the server as an operator in a hurry would ("fast") and returns when it is gone.
func (s *Server) Stop() { s.end(syscall.SIGINT) }

// Kill ends the server without a checkpoint ("immediate"), as after a crash, and returns when it is
// gone. Its next start recovers. It does nothing if the server is down.
func (s *Server) Kill() { s.end(syscall.SIGQUIT) }

func (s *Server) end(signal os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.End(signal, stopLimit)
		s.proc = nil
	}
}

// Close ends the server and removes its files, unless their folder was named: then it ends the
// server in order. It is safe twice.
func (s *Server) Close() error {
	if s.conf.Folder != "" {
		s.Stop()
		return nil
	}
	s.Kill()
	return os.RemoveAll(s.root)
}

// freePort finds a free port below those that the system gives to connections, so that none of
// those takes it while the server is down.
func freePort() (int, error) {
	const lowest, count, tries = 20000, 12000, 100
	for range tries {
		port := lowest + rand.IntN(count)
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("no free port in %d tries", tries)
}
